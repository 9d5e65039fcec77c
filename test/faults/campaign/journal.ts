/**
 * The journal of committed changes: each commit that changes an account also stores the account before and after it. So
 * the journal shows whether a change happened even if its process was killed.
 */
import { createPositions } from "../../../records/deliveries/lanes.ts";
import { isDeepStrictEqual } from "node:util";
import { openStores } from "../../../adapters/open.ts";
import type {
  Commit,
  Found,
  JsonObject,
  JsonValue,
  RecordStore,
  Ref,
} from "../../../adapters/record-store.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import { createSystemClock } from "../../../core/clock.ts";
import type { StoredDelivery } from "../../../records/deliveries/delivery-kinds.ts";
import { createDeliveryStore } from "../../../records/deliveries/delivery-store.ts";
import { LaneAccess } from "../../../records/deliveries/lanes.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { SHARED_KINDS } from "../../../records/directory/directory-kinds.ts";
import { WATCHED_KINDS } from "../../../records/storage.ts";

/** What the campaign reads of an account. */
export type AccountState = Pick<
  AccountRecord,
  | "sub"
  | "user_id"
  | "email"
  | "username"
  | "name"
  | "surname"
  | "date_of_birth"
  | "gender"
  | "portal"
  | "services"
  | "updated_at"
>;

/** A committed change. Without `before` an account was created, without `after` deleted. */
export interface Committed {
  readonly before: AccountState | undefined;
  readonly after: AccountState | undefined;
  /** Seconds since the epoch, with a fraction. */
  readonly at: number;
}

const ACCOUNT = "account";
/** One record for each change, and one for each account with the number of its last change. */
const CHANGE = "campaign-change";
const LAST = "campaign-last";

/** A change as it is stored. */
interface KeptChange {
  /** Counted for each account, from 1. */
  readonly number: number;
  readonly before: JsonValue;
  readonly after: JsonValue;
  readonly at: number;
}

/** The accounts that a commit writes, with their new values; `null` if it removes them. */
function writtenAccounts({ put = [], remove = [] }: Commit): Map<string, JsonObject | null> {
  const written = new Map<string, JsonObject | null>();
  for (const { kind, key, value } of put) if (kind === ACCOUNT) written.set(key, value);
  for (const { kind, key } of remove) if (kind === ACCOUNT) written.set(key, null);
  return written;
}

/**
 * The commit with its entry in the journal. A concurrent change of the account writes a later number and makes this
 * commit fail, so what is read here is the account before the change.
 */
async function withJournal(store: RecordStore, change: Commit): Promise<Commit> {
  const written = [...writtenAccounts(change)];
  if (written.length === 0) return change;
  const refs = written.flatMap(([key]): Ref[] => [
    { kind: ACCOUNT, key },
    { kind: LAST, key },
  ]);
  const found = await store.get(refs);
  const [expect, put] = [[...(change.expect ?? [])], [...(change.put ?? [])]];
  for (const [index, [key, after]] of written.entries()) {
    const [before, last] = found.slice(2 * index);
    const number = Number(last?.value["number"] ?? 0) + 1;
    const kept = { number, before: before?.value ?? null, after, at: Date.now() / 1000 };
    expect.push({ ref: { kind: LAST, key }, version: last?.version ?? "absent" });
    put.push({ kind: LAST, key, value: { number } }, { kind: CHANGE, key: `${number}.${key}`, value: kept });
  }
  return { ...change, expect, put };
}

/** The same store, which also keeps a journal of the accounts that are changed through it. */
export function withJournalOf(store: RecordStore): RecordStore {
  return {
    get: (refs, options) => store.get(refs, options),
    list: (queries) => store.list(queries),
    scan: (kind, after, limit) => store.scan(kind, after, limit),
    count: (queries) => store.count(queries),
    commit: async (change) => store.commit(await withJournal(store, change)),
    next: (counter, atLeast) => store.next(counter, atLeast),
    sweep: (limit, now) => store.sweep(limit, now),
    ...(store.watch && { watch: store.watch.bind(store) }),
    ping: () => store.ping(),
    close: () => store.close(),
  };
}

/** A delivery as it is stored. */
export interface Stored {
  readonly id: string;
  readonly state: string;
}

/** Reads what a storage contains about a campaign. */
export interface Reader {
  /** The changes of each account in the order of the commits. */
  committed(): Promise<Committed[]>;
  /** The accounts that differ from their last change. */
  contradictions(): Promise<string[]>;
  deliveries(): Promise<Stored[]>;
  /** How many deliveries wait. */
  waiting(): Promise<number>;
  close(): Promise<void>;
}

/** Every record of a kind, each once. */
async function all(store: RecordStore, kind: string): Promise<Found[]> {
  const found = new Map<string, Found>();
  for (let after: string | undefined; ;) {
    const { records, next } = await store.scan(kind, after, 1000);
    for (const record of records) found.set(record.key, record);
    if (next === undefined) return [...found.values()];
    after = next;
  }
}

/** An account; `undefined` for a client, whose record has the same kind. */
const stateOf = (value: JsonValue): AccountState | undefined =>
  Object.hasOwn(Object(value), "sub") ? (value as unknown as AccountState) : undefined;

const GENERATIONS = new Set([
  "sessions_generation",
  "tokens_generation",
  "service_generations",
  "client_generations",
  "ways",
]);

/** Without what `storage promoted` raises, so that sessions and tokens have ended. */
function comparable(state: AccountState | undefined): object | undefined {
  if (state === undefined) return undefined;
  return Object.fromEntries(Object.entries(state).filter(([name]) => !GENERATIONS.has(name)));
}

async function changesIn(store: RecordStore): Promise<KeptChange[]> {
  const changes = (await all(store, CHANGE)).map(({ value }) => value as unknown as KeptChange);
  return changes.toSorted((one, other) => one.number - other.number);
}

/** Reads the storage beside the processes that use it. */
export async function openReader({ storage }: { readonly storage: string }): Promise<Reader> {
  const clock = createSystemClock();
  const stores = await openStores({
    storage,
    artifacts: storage,
    clock,
    sharedKinds: SHARED_KINDS,
    watchedKinds: WATCHED_KINDS,
  });
  const store = stores.main;
  const lanes = new LaneAccess(store, clock, KINDS);
  const deliveryStore = createDeliveryStore(lanes, createPositions(lanes));
  return {
    async committed() {
      const changes = await changesIn(store);
      return changes
        .map(({ before, after, at }) => ({ before: stateOf(before), after: stateOf(after), at }))
        .filter(({ before, after }) => before !== undefined || after !== undefined);
    },
    async contradictions() {
      const last = new Map<string, AccountState | undefined>();
      for (const { before, after } of await changesIn(store)) {
        const sub = (stateOf(after) ?? stateOf(before))?.sub;
        if (sub !== undefined) last.set(sub, stateOf(after));
      }
      const accounts = new Map((await all(store, ACCOUNT)).map(({ key, value }) => [key, stateOf(value)]));
      return [...last].flatMap(([sub, state]) => {
        const [now, then] = [comparable(accounts.get(sub)), comparable(state)];
        if (isDeepStrictEqual(now, then)) return [];
        return `the account ${sub} differs from its last change: ${JSON.stringify(now)}, ${JSON.stringify(then)}`;
      });
    },
    async deliveries() {
      const found = (await all(store, "delivery")).map(({ value }) => value as unknown as StoredDelivery);
      return found.map(({ id, state }) => ({ id, state }));
    },
    async waiting() {
      const counts = await deliveryStore.counts();
      return counts.reduce((sum, { waiting }) => sum + waiting, 0);
    },
    close: () => stores.close(),
  };
}
