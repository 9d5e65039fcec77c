/**
 * Carries a storage of version 0.1 on a server over to records. Each page is written in one commit together with the
 * place behind it, so a migration that was killed goes on where it was. The format number is written last: until then
 * no service starts over it.
 */
import { openStores } from "../../adapters/open.ts";
import { openV01, openV01Remains } from "../../adapters/open.ts";
import type { RecordData, RecordStore, Ref } from "../../adapters/record-store.ts";
import type { OnV01Progress, V01Options, V01Part, V01Source } from "../../adapters/v01.ts";
import { KINDS } from "../all-kinds.ts";
import type { Clock } from "../clock.ts";
import { SHARED_KINDS } from "../directory/records.ts";
import { Changes, type Read, Records } from "../records.ts";
import { convertV01 } from "./convert.ts";
import {
  addFormat,
  type CheckedStore,
  checkFormat,
  CURRENT,
  hasFormat,
  MIGRATION,
  type MigrationState,
} from "./format.ts";

/** Items in one commit. */
const PAGE = 100;

/**
 * Milliseconds for one commit. What a killed migration had begun in MongoDB is in the way until the server gives it up:
 * after a minute.
 */
const PATIENCE = 90_000;

/** The counter from which accounts get their numbers. */
const USER_ID = "user-id";

/** What a migration is told, and tells. */
export interface MigrationRun {
  /** Ends it between two pages. */
  readonly signal: AbortSignal;
  readonly onProgress: OnV01Progress;
}

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** Codes and tokens whose family has ended are not carried over. */
async function withParents(store: RecordStore, made: readonly RecordData[]): Promise<readonly RecordData[]> {
  const parents = new Map(made.flatMap(({ parent }) => (parent ? [[nameOf(parent), parent] as const] : [])));
  if (parents.size === 0) return made;
  const found = await store.get([...parents.values()]);
  const live = new Set(found.flatMap((record) => (record === undefined ? [] : [nameOf(record)])));
  return made.filter(({ parent }) => parent === undefined || live.has(nameOf(parent)));
}

/** Carries over the next page. @returns what there is to do then; `undefined` at the end. */
async function carryOverPage(
  records: Records,
  source: V01Source,
  was: Read<MigrationState>,
): Promise<MigrationState | undefined> {
  const { part, after, last, done } = was.value;
  const page = await source.read(part, after ?? undefined, PAGE);
  const converted = convertV01(part, page.items, last);
  const count = done + page.items.length;
  const following = source.parts[source.parts.indexOf(part) + 1];
  const next: MigrationState | undefined =
    page.after === undefined
      ? following && { part: following, after: null, last: 0, done: 0 }
      : { part, after: page.after, last: converted.last, done: count };
  const changes = new Changes();
  const deadline = records.clock.now() + PATIENCE;
  for (const record of await withParents(records.store, converted.records)) changes.add(record);
  if (next !== undefined) {
    // Of two that carry over the same page only one is first.
    changes.write(MIGRATION.record(next, { key: CURRENT }), was);
    await records.commit(changes, { deadline });
    return next;
  }
  changes.delete(MIGRATION.ref(CURRENT), was);
  addFormat(changes);
  await records.commit(changes, { deadline });
  return undefined;
}

/**
 * Carries everything over.
 * @returns `false` when there was nothing: the store has records already, or is empty.
 * @throws the reason of the signal when that ends it.
 * @throws ConditionFailed when another process carries over the same storage.
 */
export async function migrateV01(
  source: V01Source,
  checked: CheckedStore,
  records: Records,
  { signal, onProgress }: MigrationRun,
): Promise<boolean> {
  if (await hasFormat(checked)) return false;
  const [first] = source.parts;
  if ((await records.find(MIGRATION.ref(CURRENT))) === undefined) {
    if (first === undefined || !(await source.isThere())) return false;
    const begin = new Changes();
    const state: MigrationState = { part: first, after: null, last: 0, done: 0 };
    begin.write(MIGRATION.record(state, { key: CURRENT }), undefined);
    await records.commit(begin, { deadline: records.clock.now() + PATIENCE });
  }
  await source.takeAway();
  const userId = await source.lastUserId();
  if (userId > 0) await checked.store.next(USER_ID, userId);
  const totals = new Map<V01Part, number>();
  for (;;) {
    signal.throwIfAborted();
    const was = await records.find<MigrationState>(MIGRATION.ref(CURRENT));
    // Another process has come to the end of it.
    if (was === undefined) return true;
    const { part, done } = was.value;
    const total = totals.get(part) ?? (await source.count(part));
    totals.set(part, total);
    onProgress(part, done, total);
    if ((await carryOverPage(records, source, was)) === undefined) return true;
  }
}

/** Where a storage is, as the configuration says it. */
export interface MigratedPlace {
  readonly storage: string;
  /** Left out: in `storage`. */
  readonly artifacts: string | undefined;
}

type WithStores<T> = (stores: readonly (CheckedStore & { readonly address: string })[]) => Promise<T>;

/** Opens the stores of a place for `work`; a database file of version 0.1 is carried over by that. */
async function withStores<T>(
  { storage, artifacts }: MigratedPlace,
  clock: Clock,
  v01: V01Options | undefined,
  work: WithStores<T>,
): Promise<T> {
  const opened = await openStores({
    storage,
    artifacts: artifacts ?? storage,
    clock,
    sharedKinds: SHARED_KINDS,
    // A command waits for nobody.
    watchedKinds: [],
    v01,
  });
  try {
    const main = { ...opened.main, key: "storage", address: storage } as const;
    if (opened.artifacts === undefined || artifacts === undefined) return await work([main]);
    return await work([main, { ...opened.artifacts, key: "artifacts", address: artifacts }]);
  } finally {
    await opened.close();
  }
}

/**
 * Carries over what version 0.1 has kept in a place: first the storage, so that a process of version 0.1 finds nothing
 * to go by, then the artifacts.
 * @returns whether there was something.
 * @throws ConfigurationError when a later version has written there.
 * @throws ConditionFailed when another process carries over the same storage.
 * @throws the reason of the signal when that ends it; the same call then goes on where it was.
 */
export function migrateStorage(place: MigratedPlace, clock: Clock, run: MigrationRun): Promise<boolean> {
  let isMigrated = false;
  const onProgress: OnV01Progress = (...progress) => {
    isMigrated = true;
    run.onProgress(...progress);
  };
  return withStores(place, clock, { convert: convertV01, onProgress }, async (stores) => {
    for (const checked of stores) {
      const records = new Records(checked.store, clock, KINDS);
      const source = await openV01(checked.address, clock);
      try {
        if (source !== undefined) await migrateV01(source, checked, records, { ...run, onProgress });
      } finally {
        await source?.close();
      }
      await checkFormat(checked, records);
    }
    return isMigrated;
  });
}

/**
 * Deletes what a migration has kept.
 * @returns whether there was something.
 * @throws ConfigurationError when something there has not been carried over yet.
 */
export function removeOld(place: MigratedPlace, clock: Clock): Promise<boolean> {
  return withStores(place, clock, undefined, async (stores) => {
    for (const checked of stores) await checkFormat(checked, new Records(checked.store, clock, KINDS));
    let isRemoved = false;
    for (const { address } of stores) {
      const remains = await openV01Remains(address, clock);
      try {
        if (await remains.removeOld()) isRemoved = true;
      } finally {
        await remains.close();
      }
    }
    return isRemoved;
  });
}
