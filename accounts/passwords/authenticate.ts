/** Comparing passwords: at sign-in by name, and for `accounts.verifyPassword` by `sub`. */
import type { Configuration } from "../../config/configuration.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { type ServiceEmitter, withoutFailing } from "../../core/events.ts";
import type { Passwords } from "./passwords.ts";
import { type AccountInternals, type Authenticated, isDisabled } from "../account.ts";
import type { Accounts } from "../operations/accounts.ts";
import type { AccountWriter } from "../account-change.ts";
import { anyString, checked } from "../arguments.ts";
import { readName, type SignInName } from "../names.ts";
import { onlyProvider } from "../providers.ts";

type SignIns = Pick<
  Accounts & AccountInternals,
  "recordByName" | "authenticate" | "authenticateRecord" | "verifyPassword" | "settled"
>;

export function createSignIns(
  writer: AccountWriter,
  directory: DirectoryRecords,
  passwords: Passwords,
  {
    configuration,
    events,
  }: {
    readonly configuration: Pick<Configuration, "providers" | "operators">;
    readonly events: ServiceEmitter;
  },
): SignIns {
  /** Rehashes that are running: `settled` waits for them, so that closing the service loses none. */
  const running = new Set<Promise<void>>();

  /** Replaces a weak hash unless the password has been changed since. */
  async function rehash(sub: string, compared: string, typed: string): Promise<void> {
    const hash = await passwords.hash(typed);
    await writer.change(sub, SYSTEM, (before) => {
      const { password } = before?.ways ?? {};
      if (before === undefined || password?.hash !== compared) return undefined;
      const ways = { ...before.ways, password: { ...password, hash } };
      return { action: "account.rehashed", record: { ...before, ways } };
    });
  }

  function rehashInBackground(sub: string, compared: string, password: string): void {
    const work = withoutFailing(events, "rehash", () => rehash(sub, compared, password)).finally(() =>
      running.delete(work),
    );
    running.add(work);
  }

  /** Takes the same time whatever the outcome. @returns why the sign-in is refused, if it is. */
  async function compare(
    record: AccountRecord | undefined,
    password: string,
    party?: string,
  ): Promise<Authenticated["refusal"]> {
    const hash = record?.ways.password?.hash ?? null;
    const matches = await passwords.verify(hash, password, party);
    if (!matches || record === undefined || hash === null) return "credentials";
    if (onlyProvider(configuration, record) !== undefined) return "credentials";
    if (isDisabled(record)) return "disabled";
    if (passwords.needsRehash(hash)) rehashInBackground(record.sub, hash, password);
    return undefined;
  }

  async function recordByName(name: SignInName | undefined): Promise<AccountRecord | undefined> {
    return name === undefined ? undefined : directory.findAccountByName(name);
  }

  async function authenticateRecord(
    record: AccountRecord | undefined,
    password: string,
    party?: string,
  ): Promise<Authenticated> {
    const refusal = await compare(record, password, party);
    return {
      ok: refusal === undefined,
      ...(refusal === undefined ? {} : { refusal }),
      ...(record === undefined ? {} : { record }),
    };
  }

  return {
    recordByName,
    authenticateRecord,
    authenticate: async (login, password) =>
      authenticateRecord(await recordByName(readName(login)), password),
    async verifyPassword(sub, password) {
      checked("sub", anyString, sub);
      checked("password", anyString, password);
      return (await compare(await directory.findAccount(sub), password)) === undefined;
    },
    async settled() {
      await Promise.all(running);
    },
  };
}
