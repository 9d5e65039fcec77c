/**
 * Migrates a storage of version 0.1 on a server to records. Each page is written in one commit together with the
 * position after it, so a migration that was killed continues where it stopped. The format is written last, and no
 * service starts before that.
 */
import { openStores } from "../../adapters/open.ts";
import { openV01, openV01Remains } from "../../adapters/open.ts";
import type { RecordData, RecordStore, Ref } from "../../adapters/record-store.ts";
import type { OnV01Progress, V01Options, V01Part, V01Source } from "../../adapters/v01.ts";
import { KINDS } from "../records/all-kinds.ts";
import type { Clock } from "../clock.ts";
import { SHARED_KINDS } from "../directory/records.ts";
import { Changes, type Read, Records } from "../records/records.ts";
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
 * Milliseconds for one commit. In MongoDB, an open transaction of a killed migration blocks it until the server ends
 * that transaction after a minute.
 */
const PATIENCE = 90_000;

/** The counter that numbers the accounts. */
const USER_ID = "user-id";

/** How to stop a migration, and how it reports progress. */
export interface MigrationRun {
  /** Stops it between two pages. */
  readonly signal: AbortSignal;
  readonly onProgress: OnV01Progress;
}

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** Drops codes and tokens whose family has ended. */
async function withParents(store: RecordStore, made: readonly RecordData[]): Promise<readonly RecordData[]> {
  const parents = new Map(made.flatMap(({ parent }) => (parent ? [[nameOf(parent), parent] as const] : [])));
  if (parents.size === 0) return made;
  const found = await store.get([...parents.values()]);
  const live = new Set(found.flatMap((record) => (record === undefined ? [] : [nameOf(record)])));
  return made.filter(({ parent }) => parent === undefined || live.has(nameOf(parent)));
}

/** Migrates the next page. @returns the state after it; `undefined` at the end. */
async function migratePage(
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
    // Of two processes that migrate the same page, one fails here.
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
 * Migrates everything.
 * @returns `false` if there was nothing to do: the store has records already, or is empty.
 * @throws the reason of the signal when that stops it.
 * @throws ConditionFailed when another process migrates the same storage.
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
    // Another process has finished the migration.
    if (was === undefined) return true;
    const { part, done } = was.value;
    const total = totals.get(part) ?? (await source.count(part));
    totals.set(part, total);
    onProgress(part, done, total);
    if ((await migratePage(records, source, was)) === undefined) return true;
  }
}

/** The addresses of a storage, as in the configuration. */
export interface MigratedStorage {
  readonly storage: string;
  /** `undefined`: in `storage`. */
  readonly artifacts: string | undefined;
}

type WithStores<T> = (stores: readonly (CheckedStore & { readonly address: string })[]) => Promise<T>;

/** Opens the stores for `work`. Opening a database file of version 0.1 migrates it. */
async function withStores<T>(
  { storage, artifacts }: MigratedStorage,
  clock: Clock,
  v01: V01Options | undefined,
  work: WithStores<T>,
): Promise<T> {
  const opened = await openStores({
    storage,
    artifacts: artifacts ?? storage,
    clock,
    sharedKinds: SHARED_KINDS,
    // A command does not watch for changes.
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
 * Migrates the data of version 0.1: first the storage, so that a process of version 0.1 that is still running fails,
 * then the artifacts.
 * @returns whether there was something to migrate.
 * @throws ConfigurationError when the storage was written by a later version.
 * @throws ConditionFailed when another process migrates the same storage.
 * @throws the reason of the signal when that stops it; the next call continues where it stopped.
 */
export function migrateStorage(
  addresses: MigratedStorage,
  clock: Clock,
  run: MigrationRun,
): Promise<boolean> {
  let isMigrated = false;
  const onProgress: OnV01Progress = (...progress) => {
    isMigrated = true;
    run.onProgress(...progress);
  };
  return withStores(addresses, clock, { convert: convertV01, onProgress }, async (stores) => {
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
 * Deletes the old data that a migration left.
 * @returns whether there was any.
 * @throws ConfigurationError when something is not migrated yet.
 */
export function removeOld(addresses: MigratedStorage, clock: Clock): Promise<boolean> {
  return withStores(addresses, clock, undefined, async (stores) => {
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
