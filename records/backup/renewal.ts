/**
 * Renews a storage that has gone back to an earlier state: what was valid once must not become valid again. Each kind declares what
 * becomes of its records (`afterRestore`); here are the rules that concern several records. `restore` applies both to the records that it writes, and
 * `storage restored` and `storage promoted` to a storage that services may use meanwhile. `keys reset --lost` does the same with a storage whose
 * secrets are lost (`afterReset`): what nobody can open any more goes.
 */
import { COUNTERS_AHEAD, type RecordData } from "../../adapters/record-store.ts";
import { KINDS } from "../all-kinds.ts";
import type { AuditEvent, AuditStore } from "../audit/audit-event.ts";
import type { DeliveryStore } from "../deliveries/delivery.ts";
import { untouchedReceiver } from "../deliveries/receiver-state.ts";
import { held, LANE, type Lane, RECEIVER } from "../deliveries/delivery-kinds.ts";
import { ENTRIES, type StoredEntry, USER_ID } from "../directory/directory-kinds.ts";
import type { AnyKind } from "../kinds.ts";
import { MAIL } from "../people/mail-kinds.ts";
import type { Records } from "../records.ts";
import { eachPage, rewritePage, type RewritingRun } from "../rewriting.ts";
import {
  retired,
  SIGNING_KEY,
  SIGNING_KEY_SET,
  type SigningKeyRecord,
  type SigningKeyStore,
} from "../signing-key-store.ts";
import type { StorageWatch } from "../storage-identity.ts";

/** The counter of `user_id`. */
export const USER_IDS: string = USER_ID.declaration.counter ?? "";

/** The name of the receiver of an entry of the directory; `undefined` if it has none. */
export function receiverOf(kind: AnyKind, value: object): string | undefined {
  if (!Object.values<AnyKind>(ENTRIES).includes(kind)) return undefined;
  const { key, receiver } = value as StoredEntry;
  return receiver === null ? undefined : `${kind.name}:${key}`;
}

/** A receiver that has never had a delivery, held like the others. */
export const heldReceiver = (receiver: string): RecordData =>
  RECEIVER.record(held({ receiver, ...untouchedReceiver }));

/** Makes a new key for each algorithm, which signs from now on. */
export type MakeSigningKeys = (
  algorithms: readonly string[],
  now: number,
) => Promise<readonly SigningKeyRecord[]>;

/** All signing keys of a storage that has gone back: the earlier ones never sign again. */
export async function renewedKeys(
  keys: readonly SigningKeyRecord[],
  make: MakeSigningKeys,
  nowMs: number,
): Promise<readonly SigningKeyRecord[]> {
  const algorithms = [...new Set(keys.map(({ alg }) => alg))];
  const fresh = await make(algorithms, Math.floor(nowMs / 1000));
  return [...keys.map((key) => retired(key, nowMs)), ...fresh];
}

export interface RenewalRun extends RewritingRun {
  readonly makeKeys: MakeSigningKeys;
  /** Called when everything else is done, while no service starts yet. */
  readonly beforeEnd?: () => Promise<void>;
  /** For the audit. */
  readonly event: AuditEvent & { readonly action: "storage.restored" | "storage.promoted" | "secrets.reset" };
}

/** What was renewed. */
export interface Renewed {
  /** When a server last looked at the storage, in seconds since the epoch: what was written later may be missing. */
  readonly since: number | null;
  /** How many records were changed or removed. */
  readonly records: number;
}

export interface Renewals {
  /**
   * Renews the storage. It can be stopped at any time and called again; until it has finished, no service starts.
   * @param run.event `storage.restored` and `secrets.reset` also give the storage another id: artifacts in a store of their own are not
   *   found any more.
   */
  renew(run: RenewalRun): Promise<Renewed>;
}

/** Deliveries that are read at once. */
const PARKED_TOGETHER = 500;

/** In this order: first nothing is sent any more, then nothing is accepted any more. */
const FIRST: readonly AnyKind[] = [RECEIVER, MAIL];
/** Changed through their own store, because every change of a key also writes their list. */
export const KEYS: readonly AnyKind[] = [SIGNING_KEY, SIGNING_KEY_SET];

function kindsToRenew(isReset: boolean, hasOwnArtifacts: boolean): readonly AnyKind[] {
  const others = KINDS.all.filter(
    (kind) =>
      ((isReset && kind.declaration.afterReset) || kind.declaration.afterRestore) !== "kept" &&
      !FIRST.includes(kind) &&
      !KEYS.includes(kind) &&
      // They have not gone back, and end with what they depend on.
      !(hasOwnArtifacts && kind.declaration.store === "artifacts"),
  );
  return [...FIRST, ...others];
}

export function createRenewals({
  records,
  keys,
  audit,
  deliveries,
  watch,
  hasOwnArtifacts,
}: {
  readonly records: Records;
  readonly keys: SigningKeyStore;
  readonly audit: Pick<AuditStore, "recordOf">;
  readonly deliveries: Pick<DeliveryStore, "parkWaiting">;
  readonly watch: StorageWatch;
  /** Whether artifacts have a store of their own. */
  readonly hasOwnArtifacts: boolean;
}): Renewals {
  const { clock } = records;

  async function holdReceivers(): Promise<void> {
    for (const kind of Object.values<AnyKind>(ENTRIES))
      for (const value of await records.all<StoredEntry>(kind.name)) {
        const receiver = receiverOf(kind, value);
        if (receiver === undefined) continue;
        await records.transact(async (tx) => {
          if ((await tx.get(RECEIVER.ref(receiver))) === undefined) tx.put(heldReceiver(receiver));
        });
      }
  }

  /** Parks everything that waits, because nobody can read what it says any more. */
  async function parkAll(run: RewritingRun): Promise<void> {
    const receivers = new Set<string>();
    await eachPage(records, LANE, run, async (page) => {
      for (const { value } of page)
        if (value["isEmpty"] !== true) receivers.add((value as unknown as Lane).receiver);
    });
    for (const receiver of receivers)
      while ((await deliveries.parkWaiting(receiver, "payload_unreadable", PARKED_TOGETHER)) > 0)
        run.signal.throwIfAborted();
  }

  return {
    async renew({ makeKeys, beforeEnd, event, ...run }) {
      const isReset = event.action === "secrets.reset";
      const since = isReset ? null : ((await watch.read())?.looked_at ?? null);
      await watch.begin(isReset ? "reset" : "renewal");
      await (isReset ? parkAll(run) : holdReceivers());
      let changed = 0;
      for (const kind of kindsToRenew(isReset, hasOwnArtifacts))
        await eachPage(records, kind, run, async (page) => {
          changed += await rewritePage(records, page, (found) => {
            const after = kind[isReset ? "afterReset" : "afterRestore"](found, clock.now());
            if (after === found) return undefined;
            return after === undefined ? "removed" : kind.restore(after);
          });
        });
      await keys.change(async (stored) => {
        const after = await renewedKeys(stored.keys, makeKeys, clock.now());
        return { keys: isReset ? after.slice(stored.keys.length) : after, audit: [] };
      });
      if (!isReset) {
        const last = await records.store.next(USER_IDS);
        await records.store.next(USER_IDS, last + COUNTERS_AHEAD);
      }
      await beforeEnd?.();
      const detail = { ...event.detail, ...(since !== null && { since }) };
      await watch.accept({
        isRestored: event.action !== "storage.promoted",
        audit: audit.recordOf({ ...event, detail }),
      });
      return { since, records: changed };
    },
  };
}
