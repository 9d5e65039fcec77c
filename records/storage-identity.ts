/**
 * Which storage this is, and whether it has gone back to an earlier state, because a backup was restored or a standby promoted. Every
 * look of a server raises a number in the storage, and then notes it in places that a restore of the storage does not reach. A marker in
 * a store of artifacts shows that it has kept what it had: one that was emptied has lost it.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { DataCopy, RecordData } from "../adapters/record-store.ts";
import { writePrivateFile } from "../config/private-file.ts";
import { databaseFile } from "../config/storage-address.ts";
import { type Clock, seconds } from "../core/clock.ts";
import type { Outage } from "../core/outages.ts";
import { defineKind, type Kind } from "./kinds.ts";
import type { Records, RefTo, Transaction } from "./records.ts";

interface Looks {
  /** How often servers have looked at the storage. A store of artifacts has that of the storage that it belongs to. */
  readonly looks: number;
  /** What the store of artifacts has, if it is one of its own. Both know it, so that they differ once it was emptied. */
  readonly marker?: string | undefined;
}

type Unfinished = "renewal" | "reset";

export interface StorageIdentity extends Looks {
  /** Eight hexadecimal digits. Another one after a restore. Redis holds artifacts under it, so those of before are not found. */
  readonly id: string;
  /** When a server last looked and found nothing wrong, in seconds since the epoch: a copy has everything that was written until then. */
  readonly looked_at: number;
  /** The copy of the data that servers looked at. Missing if the store can't tell. */
  readonly copy?: DataCopy | undefined;
  /** When the store of artifacts was found to have lost everything, in seconds since the epoch. Missing: never. */
  readonly artifacts_lost_at?: number | undefined;
  /**
   * What has begun and not finished, so that no service starts: `storage restored` or `promoted`, or `keys reset`. Missing: nothing.
   */
  readonly unfinished?: Unfinished;
}

export const STORAGE_IDENTITY: Kind<StorageIdentity | Looks> = defineKind<StorageIdentity | Looks>({
  name: "storage-identity",
  holds:
    "the id of the storage, how often and when servers have looked at it, to notice a restored backup, and a marker, to notice an emptied store of artifacts",
  key: "always the same",
  keyOf: () => "current",
  store: "each",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

export const IDENTITY: RefTo<StorageIdentity | Looks> = STORAGE_IDENTITY.ref("current");

const newIdentity = (now: number): StorageIdentity => ({
  id: randomBytes(4).toString("hex"),
  looks: 0,
  looked_at: now,
});

/**
 * The id of a storage. A storage without one gets it.
 * @param mustExist writes nothing.
 */
export async function identify(records: Records, mustExist: boolean): Promise<string | undefined> {
  const found = (await records.find(IDENTITY)) ?? undefined;
  if (found !== undefined || mustExist) return (found?.value as StorageIdentity | undefined)?.id;
  return records.transact(async (tx) => {
    const identity = await readIn(tx, records.clock);
    tx.put(STORAGE_IDENTITY.record(identity));
    return identity.id;
  });
}

async function readIn(tx: Transaction, clock: Clock): Promise<StorageIdentity> {
  const found = (await tx.get(IDENTITY)) as StorageIdentity | undefined;
  return found ?? newIdentity(seconds(clock));
}

/** The identity of a database that a backup is restored into. @param looks that were noted beside it. */
export function restoredIdentity(looks: number, clock: Clock): StorageIdentity {
  return { ...newIdentity(seconds(clock)), looks: looks + 1 };
}

/** The file beside an SQLite database that says how often servers have looked at it. A backup that is copied over the database leaves it. */
const seenFile = (database: string): string => `${database}.seen`;

/** The number in the file; `undefined` without one. */
export async function looksBeside(database: string): Promise<number | undefined> {
  try {
    const { looks } = Object(JSON.parse(await readFile(seenFile(database), "utf8"))) as Partial<Looks>;
    return typeof looks === "number" && Number.isSafeInteger(looks) ? looks : undefined;
  } catch {
    return undefined;
  }
}

export function noteBeside(database: string, { looks }: Looks): Promise<void> {
  return writePrivateFile(seenFile(database), `${JSON.stringify({ looks })}\n`, { place: "rename" });
}

/** What is wrong with a storage. */
export interface GoneBack {
  /**
   * `behind`: it was seen in a later state. `copied`: the data is another copy. `promoted`: a standby took over. `restored`: it
   * was restored while this process ran. `emptied`: the store of artifacts has lost everything.
   */
  readonly how: "behind" | "copied" | "promoted" | "restored" | "emptied";
  /** For operators: what has happened, without a full stop. */
  readonly what: string;
  /** For operators: what to do. */
  readonly fix: string;
}

/** All calls reject with `StorageUnavailable` when a store fails. */
export interface StorageWatch {
  /**
   * Looks whether the storage has gone back. If not, notes that it was seen like this. For servers. An emptied store of artifacts is
   * returned once by each process that ran at that time, or noticed it.
   */
  look(): Promise<GoneBack | undefined>;
  /** Whether the store of artifacts still has the marker of the last look. True without such a store. */
  hasMarker(): Promise<boolean>;
  /** When the store of artifacts has lost everything, as of the last look, in seconds since the epoch; `undefined`: never. */
  readonly artifactsLostAt: number | undefined;
  /** The same, and writes nothing. */
  check(): Promise<GoneBack | undefined>;
  /** `undefined` if no server has used the storage. */
  read(): Promise<StorageIdentity | undefined>;
  /** From now on no service starts on the storage, until `accept`. */
  begin(what: Unfinished): Promise<void>;
  /**
   * Accepts the storage as it is now.
   * @param options.isRestored whether artifacts in a store of their own are not found any more: that store may have others.
   * @param options.audit is written in the same commit.
   */
  accept(options: { readonly isRestored: boolean; readonly audit: RecordData }): Promise<void>;
}

const EMPTIED: GoneBack = {
  how: "emptied",
  what: "the Redis of config.artifacts has lost everything, or is another one: everybody is signed out, all codes and tokens are void, with the device codes and pushed requests that were waiting, and limits count from zero; accounts and consents are not affected",
  fix: "find out who emptied or restarted it; it needs appendonly yes and maxmemory-policy noeviction",
};

const RENEW = "run sign-in-service storage restored, or storage promoted if a standby took over";

/** @param now the copy of the data that the store has now. @param seen the looks that were seen. */
function compare(
  identity: StorageIdentity,
  now: DataCopy | undefined,
  seen: readonly number[],
): GoneBack | undefined {
  const { looks, looked_at, copy } = identity;
  const since = `may lack what was written after ${new Date(looked_at * 1000).toISOString()}`;
  if (now !== undefined && copy !== undefined && now.id !== copy.id)
    return {
      how: "copied",
      what: `the storage is not the one that servers last used but a copy, and ${since}`,
      fix: `${RENEW}; if nothing is missing, storage promoted --nothing-lost`,
    };
  if (now?.timeline !== copy?.timeline && now !== undefined && copy !== undefined)
    return {
      how: "promoted",
      what: `the storage has changed from timeline ${copy.timeline} to ${now.timeline}, and ${since}`,
      fix: "run sign-in-service storage promoted, with --nothing-lost if replication is synchronous",
    };
  if (looks > 0 && seen.some((each) => each > looks))
    return { how: "behind", what: `the storage has gone back, and ${since}`, fix: RENEW };
  return undefined;
}

interface StorageWatchOptions {
  readonly records: Records;
  /** If artifacts have a store of their own, which is not restored with the storage. */
  readonly artifacts: Records | undefined;
  /** The address, if there is one. */
  readonly storage: string | undefined;
}

export function createStorageWatch({ records, artifacts, storage }: StorageWatchOptions): StorageWatch {
  const { clock, store } = records;
  const database = storage === undefined ? undefined : databaseFile(storage);
  /** What this process saw last. */
  let last: StorageIdentity | undefined;

  const read = async (): Promise<StorageIdentity | undefined> =>
    (await records.find(IDENTITY))?.value as StorageIdentity | undefined;

  async function looksElsewhere(): Promise<number[]> {
    const inArtifacts = await artifacts?.find(IDENTITY);
    const beside = database === undefined ? undefined : await looksBeside(database);
    return [last?.looks, inArtifacts?.value.looks, beside].filter((each) => each !== undefined);
  }

  /** The marker of the store of artifacts, which gets one if it has none. `undefined` without such a store. */
  async function readMarker(): Promise<string | undefined> {
    return artifacts?.transact(async (tx) => {
      const found = await tx.get(IDENTITY);
      if (found?.marker !== undefined) return found.marker;
      const marker = randomBytes(8).toString("hex");
      tx.put(STORAGE_IDENTITY.record({ looks: found?.looks ?? 0, marker }));
      return marker;
    });
  }

  async function note({ looks }: StorageIdentity): Promise<void> {
    await artifacts?.transact(async (tx) => {
      const before = await tx.get(IDENTITY);
      if ((before?.looks ?? 0) < looks) tx.put(STORAGE_IDENTITY.record({ ...before, looks }));
    });
    if (database !== undefined) await noteBeside(database, { looks });
  }

  async function compared() {
    // Before the storage itself, whose number is raised first.
    const seen = await looksElsewhere();
    const [identity, copy] = await Promise.all([read(), store.copy?.()]);
    const found = identity && compare(identity, copy, seen);
    const hasChanged = last !== undefined && identity !== undefined && last.id !== identity.id;
    const isOutdated = found === undefined && hasChanged && artifacts !== undefined;
    const goneBack: GoneBack | undefined = isOutdated
      ? {
          how: "restored",
          what: "the storage was restored while this process ran",
          fix: "restart the process, because Redis holds its artifacts under another id",
        }
      : found;
    return { goneBack, seen, copy };
  }

  return {
    read,
    check: async () => (await compared()).goneBack,
    async hasMarker() {
      if (artifacts === undefined || last?.marker === undefined) return true;
      return (await artifacts.find(IDENTITY))?.value.marker === last.marker;
    },
    get artifactsLostAt() {
      return last?.artifacts_lost_at;
    },
    async look() {
      const { goneBack, seen, copy } = await compared();
      if (goneBack !== undefined) return goneBack;
      const looked = await records.transact(async (tx) => {
        const before = await readIn(tx, clock);
        // This process knows the artifacts of the id that it was opened with.
        const isRestored = artifacts !== undefined && last !== undefined && last.id !== before.id;
        if (before.unfinished !== undefined || isRestored) return undefined;
        // Read second, so that the storage has noted what this finds, or is retried. A process that dies in between leaves
        // two different markers, which the next look finds.
        const marker = (await readMarker()) ?? before.marker;
        const isEmptied = before.marker !== undefined && before.marker !== marker;
        const lostAt = isEmptied ? seconds(clock) : before.artifacts_lost_at;
        const identity: StorageIdentity = {
          id: before.id,
          looks: (before.looks === 0 ? Math.max(0, ...seen) : before.looks) + 1,
          looked_at: seconds(clock),
          copy,
          marker,
          artifacts_lost_at: lostAt,
        };
        tx.put(STORAGE_IDENTITY.record(identity));
        return { identity, isEmptied };
      });
      if (looked === undefined) return undefined;
      const { identity, isEmptied } = looked;
      // Another process may have noted it.
      const isNews = isEmptied || (last?.marker !== undefined && last.marker !== identity.marker);
      last = identity;
      // The next look notes it: this one must not fail any more.
      if (isNews && artifacts !== undefined) return EMPTIED;
      await note(identity);
      return undefined;
    },
    begin: (what) =>
      records.transact(async (tx) => {
        const before = await readIn(tx, clock);
        tx.put(STORAGE_IDENTITY.record({ ...before, unfinished: what }));
      }),
    async accept({ isRestored, audit }) {
      const seen = await looksElsewhere();
      const copy = await store.copy?.();
      const identity = await records.transact(async (tx) => {
        const before = await readIn(tx, clock);
        const fresh = newIdentity(seconds(clock));
        const { unfinished: _unfinished, copy: _copy, ...same } = before;
        const after: StorageIdentity = {
          // Under another id there are no artifacts yet.
          ...(isRestored ? fresh : { ...same, looked_at: fresh.looked_at }),
          looks: Math.max(before.looks, ...seen) + 1,
          copy,
        };
        tx.put(STORAGE_IDENTITY.record(after));
        tx.create(audit);
        return after;
      });
      if (database !== undefined) await noteBeside(database, identity);
    },
  };
}

const MARKER_INTERVAL_MS = 5_000;
/** In intervals of the marker: a minute. */
const LOOK_EVERY = 12;

/** The looks of a server at its storage. */
interface RunningLooks {
  /** Looks a last time, so that a restore to a moment since the last look is noticed. */
  stop(): Promise<void>;
}

/**
 * Looks whether the storage has gone back, now and once a minute, and whether the store of artifacts was emptied, every five seconds.
 * @param onGoneBack is called once for each way in which it has.
 */
export async function watchHistory(
  watch: StorageWatch,
  outage: Outage,
  onGoneBack: (goneBack: GoneBack) => void,
): Promise<RunningLooks> {
  const told = new Set<GoneBack["how"]>();
  let running: Promise<void> = Promise.resolve();
  async function look(): Promise<void> {
    try {
      const goneBack = await watch.look();
      outage.worked();
      if (goneBack === undefined) return told.clear();
      if (!told.has(goneBack.how)) onGoneBack(goneBack);
      told.add(goneBack.how);
    } catch (error) {
      outage.failed(error);
    }
  }
  let marks = 0;
  async function lookAtMarker(): Promise<void> {
    marks += 1;
    // A store that does not answer is reported by the look.
    if (marks % LOOK_EVERY === 0 || !(await watch.hasMarker().catch(() => true))) await look();
  }
  await look();
  const timer = setInterval(() => void (running = running.then(lookAtMarker)), MARKER_INTERVAL_MS);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
      await look();
    },
  };
}
