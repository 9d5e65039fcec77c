/**
 * Wraps salted SHA hashes of imported accounts in Argon2id, one after the other, in the background (decisions.md, Imported hashes). The
 * index holds what is left, so a process that dies forgets nothing, and a sign-in that replaces a hash takes it off the list.
 */
import { type Repeating, startRepeating } from "../../core/repeating.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT, BY_SALTED_SHA } from "../../records/directory/directory-kinds.ts";
import type { StorageServices } from "../../records/services.ts";
import { wrappedSha } from "./password-formats.ts";

/** How often to look whether there is something to wrap. */
const INTERVAL_MS = 60_000;

/** Accounts that are read at once. */
const PAGE = 100;

type Services = Pick<StorageServices, "storage" | "configuration">;

/** The job of each process that delivers notifications. */
export function startHashWrapping(services: Services & Pick<StorageServices, "outages">): Repeating {
  return startRepeating(
    INTERVAL_MS,
    (signal) => wrapHashes(services, signal),
    services.outages("wrapping the password hashes of imported accounts"),
  );
}

/**
 * Wraps all that there are.
 * @param signal stops it between two accounts.
 */
export async function wrapHashes({ storage, configuration }: Services, signal: AbortSignal): Promise<void> {
  const { memory, passes, lanes } = configuration.passwords;
  const cost = { memoryCost: memory, timeCost: passes, parallelism: lanes };
  for (;;) {
    const page = await storage.records.list<AccountRecord>(BY_SALTED_SHA, PAGE);
    if (page.length === 0) return;
    // It takes 5 MB, which most processes never need.
    const { hash } = await import("@node-rs/argon2");
    let wrapped = 0;
    for (const { value } of page) {
      if (signal.aborted) return;
      if (await wrap(storage, value, (text) => hash(text, cost))) wrapped += 1;
    }
    // Others may have done it meanwhile. What is left is tried again at the next look.
    if (wrapped === 0) return;
  }
}

/** @returns whether it was still the password. */
async function wrap(
  { records, audit }: StorageServices["storage"],
  { sub, ways }: AccountRecord,
  hashed: (text: string) => Promise<string>,
): Promise<boolean> {
  const compared = ways.password?.hash ?? "";
  const wrapped = await wrappedSha(compared, hashed);
  return records.transact(async (tx) => {
    const account = await tx.get(ACCOUNT.ref(sub));
    const { password } = account?.ways ?? {};
    // A sign-in or a new password was faster.
    if (wrapped === undefined || account === undefined || password?.hash !== compared) return false;
    const after = { ...account, ways: { ...account.ways, password: { ...password, hash: wrapped } } };
    tx.put(ACCOUNT.record(after));
    tx.create(audit.recordOf({ ...SYSTEM, action: "account.rehashed", subject: sub }));
    return true;
  });
}
