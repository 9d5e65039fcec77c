/**
 * Re-encrypts everything that is sealed with `keys.secrets` under the first secret, and finds what has not been
 * re-encrypted.
 */
import type { Found, RecordData } from "../adapters/record-store.ts";
import type { Clock } from "../core/clock.ts";
import { SignInError } from "../core/errors.ts";
import { KINDS } from "./all-kinds.ts";
import type { AnyKind, Stores } from "./kinds.ts";
import { type Check, KindScan } from "./record-check.ts";
import type { Records } from "./records.ts";
import { eachPage, type Rewrite, rewritePage, type RewritingRun } from "./rewriting.ts";
import type { SecretStore } from "./secrets.ts";
import type { Sealer } from "../core/sealing.ts";
import { SIGNING_KEY, signingKeyContext, type SigningKeyStore } from "./signing-key-store.ts";

/** How many records are sealed with another secret. */
interface Outdated {
  /** With one of `keys.secrets` that is not the first. */
  readonly old: number;
  /** With a secret that is not in `keys.secrets`, or damaged. */
  readonly unreadable: number;
}

/** The result of a run. */
interface Resealed {
  readonly resealed: number;
  readonly unreadable: number;
}

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface SealedStore {
  /**
   * Re-encrypts what is sealed with any secret but the first. Services may use the storage meanwhile if their
   * configuration has the first secret, too. It can be stopped at any time and called again. Until it has finished, no service starts
   * without the old secret.
   */
  reseal(sealer: Sealer, run: RewritingRun): Promise<Resealed>;
  /** Looks at every record, and changes nothing. */
  outdated(sealer: Sealer, run: RewritingRun): Promise<Outdated>;
}

const SEALED: readonly AnyKind[] = KINDS.all.filter(({ declaration }) => declaration.sealed !== undefined);

/** `undefined` if no secret opens it. */
function ifReadable<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof SignInError && error.code === "unusable_secrets") return undefined;
    throw error;
  }
}

/** The record sealed with the first secret. `undefined`: it already is. `unreadable`: no secret opens it. */
function resealed(kind: AnyKind, found: Found, sealer: Sealer): RecordData | "unreadable" | undefined {
  const record = ifReadable(
    () => kind.resealed(found, (context, text) => sealer.reseal(context, text)) ?? "current",
  );
  if (record === undefined) return "unreadable";
  return record === "current" ? undefined : record;
}

/** Finds sealed texts that can't be opened, for example because they were moved from one record to another. */
export function sealedChecks(stores: Stores, sealer: Sealer, clock: Clock): Check[] {
  return SEALED.map((kind) => {
    const scan = new KindScan(kind, stores, clock);
    return {
      part: kind.name,
      problem:
        "records with a sealed value that can't be opened: it was changed, belongs to another record, or its key is missing in keys.secrets",
      find: (limit) =>
        scan.find(limit, async (records) =>
          records.filter((found) => resealed(kind, found, sealer) === "unreadable"),
        ),
    };
  });
}

/** Seals records again that can be read. */
function rewriteWith(kind: AnyKind, sealer: Sealer): Rewrite {
  return (found) => {
    const record = resealed(kind, found, sealer);
    return record === "unreadable" ? undefined : record;
  };
}

export function createSealedStore(
  records: Records,
  signingKeys: SigningKeyStore,
  secrets: SecretStore,
): SealedStore {
  /** Every change of a signing key also writes their list, so they are changed through their own store. */
  async function resealSigningKeys(sealer: Sealer): Promise<number> {
    let count = 0;
    await signingKeys.change(({ keys }) => {
      const after = keys.map((key) => {
        const sealed = ifReadable(() => sealer.reseal(signingKeyContext(key.kid), key.sealed)) ?? key.sealed;
        return sealed === key.sealed ? key : { ...key, sealed };
      });
      count = after.filter((key, index) => key !== keys[index]).length;
      return count === 0 ? undefined : { keys: after, audit: [] };
    });
    return count;
  }

  async function pass(sealer: Sealer, run: RewritingRun): Promise<Resealed> {
    let count = 0;
    let unreadable = 0;
    for (const kind of SEALED) {
      await eachPage(records, kind, run, async (page) => {
        unreadable += page.filter((found) => resealed(kind, found, sealer) === "unreadable").length;
        if (kind !== SIGNING_KEY) count += await rewritePage(records, page, rewriteWith(kind, sealer));
      });
    }
    count += await resealSigningKeys(sealer);
    return { resealed: count, unreadable };
  }

  return {
    async reseal(sealer, run) {
      let all = 0;
      // Repeats until a pass finds nothing to do: a service may have written a record that the pass had already gone
      // by.
      for (;;) {
        const known = await secrets.read();
        const { resealed: count, unreadable } = await pass(sealer, run);
        all += count;
        if (unreadable > 0) return { resealed: all, unreadable };
        if (count > 0) continue;
        await secrets.replaced(known, sealer.ids[0] ?? "");
        return { resealed: all, unreadable };
      }
    },
    async outdated(sealer, run) {
      let old = 0;
      let unreadable = 0;
      for (const kind of SEALED) {
        await eachPage(records, kind, run, async (page) => {
          for (const found of page) {
            const record = resealed(kind, found, sealer);
            if (record === "unreadable") unreadable += 1;
            else if (record !== undefined) old += 1;
          }
        });
      }
      return { old, unreadable };
    },
  };
}
