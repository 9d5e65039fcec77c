/** Places to copy between, and the command as a process. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import type { Found, Query } from "../../adapters/record-store.ts";
import { openAddressed } from "../../cli/program/open-stores.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { createSystemClock } from "../../core/clock.ts";
import { type AnyKind, storeOf, type Stores } from "../../records/kinds.ts";
import { UNFINISHED_COPY } from "../../records/formats/format.ts";
import { newFolder } from "../closing.ts";
import { type Running, start } from "../examples/processes.ts";
import { here } from "./here.ts";

/** A storage as a command line names it. */
export interface Addresses {
  readonly storage: string;
  readonly artifacts?: string;
}

const clock = createSystemClock();

/** Opens a place for `work`, and closes it. */
export async function withStores<T>(place: Addresses, work: (stores: Stores) => Promise<T>): Promise<T> {
  const { storage, artifacts } = place;
  const options = { name: "PLACE", mustExist: false, onWarning: () => undefined };
  const stores = await openAddressed({ storage, artifacts, secrets: "" }, options, clock);
  try {
    return await work(stores);
  } finally {
    await stores.close();
  }
}

/** A record without the version, which differs between stores. */
export type Kept = Omit<Found, "version">;

/** All records of a place, by their kind, each with its parent and found in its indexes. */
export type Everything = Readonly<Record<string, readonly Kept[]>>;

async function recordsOf(stores: Stores, kind: AnyKind): Promise<Kept[]> {
  const store = storeOf(stores, kind);
  const found = new Map<string, Kept>();
  for (let after: string | undefined; ;) {
    const page = await store.scan(kind.name, after, 500);
    const records = await store.get(page.records, { withParents: true });
    for (const record of records) if (record !== undefined) found.set(record.key, withoutVersion(record));
    if (page.next === undefined) break;
    after = page.next;
  }
  return [...found.values()].toSorted((one, other) => (one.key < other.key ? -1 : 1));
}

/** As a kind expects it; the version does not matter there. */
function withVersion(record: Kept): Found {
  return { ...record, version: "" };
}

function withoutVersion({ version: _version, parent, ...record }: Found): Kept {
  return parent === undefined ? record : { ...record, parent: { ...parent, version: "" } };
}

/** Everything that a place stores. */
export function everythingIn(place: Addresses): Promise<Everything> {
  return withStores(place, async (stores) => {
    const all: Record<string, readonly Kept[]> = {};
    for (const kind of KINDS.all) all[kind.name] = await recordsOf(stores, kind);
    return all;
  });
}

/** Everything that a copy of a place has as well. */
export async function copiedFrom(place: Addresses): Promise<Everything> {
  const { "storage-identity": _own, ...copied } = await everythingIn(place);
  return copied;
}

/** The index entries of a place that do not lead to their records. */
export function lostEntries(place: Addresses): Promise<readonly string[]> {
  return withStores(place, async (stores) => {
    const lost: string[] = [];
    for (const kind of KINDS.all) {
      const entries = (await recordsOf(stores, kind)).flatMap((record) => {
        const { index = [] } = kind.restore(withVersion(record));
        return index.map(({ name, at, order }) => ({ key: record.key, name, at, order }));
      });
      for (let begin = 0; begin < entries.length; begin += 100) {
        const some = entries.slice(begin, begin + 100);
        const store = storeOf(stores, kind);
        const queries = some.map(({ name, at, order }): Query => ({
          kind: kind.name,
          index: name,
          at,
          from: order,
          to: order,
          limit: 100,
        }));
        const pages = await store.list(queries);
        for (const [index, { key, name }] of some.entries()) {
          let page = pages[index];
          while (page?.next !== undefined && !page.records.some((record) => record.key === key))
            [page] = await store.list([{ ...(queries[index] as Query), after: page.next }]);
          if (!page?.records.some((record) => record.key === key)) lost.push(`${kind.name} ${name}`);
        }
      }
    }
    return lost;
  });
}

type ReadMark = () => Promise<string | undefined> | string | undefined;

/** Waits until the mark of a copy says this, or the copy has ended. */
export async function untilMarked(
  mark: ReadMark,
  running: Running,
  says: (text: string) => boolean,
): Promise<void> {
  const state = { hasEnded: false };
  void running.ended.then(() => (state.hasEnded = true));
  for (;;) {
    const text = await mark();
    if (state.hasEnded || (text !== undefined && says(text))) return;
    await pause(1);
  }
}

/** Waits until a copy has come further than its mark says now, or has ended. */
export async function untilFurther(mark: ReadMark, running: Running): Promise<void> {
  const before = await mark();
  await untilMarked(mark, running, (text) => text !== before);
}

/** The words that copy. */
export function copyWords(from: Addresses, to: Addresses): string[] {
  return [
    "storage",
    "copy",
    from.storage,
    to.storage,
    ...(from.artifacts === undefined ? [] : ["--from-artifacts", from.artifacts]),
    ...(to.artifacts === undefined ? [] : ["--to-artifacts", to.artifacts]),
  ];
}

/** The outcome of a command. */
export interface Outcome {
  readonly code: number | string;
  /** Both outputs. */
  readonly said: string;
}

/** Runs a command in this process. @param stopAt the command is stopped, as by Ctrl+C, when it says this. */
export async function runHere(
  words: readonly string[],
  stopAt?: RegExp,
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const said: string[] = [];
  const stop = new AbortController();
  const output = {
    // On a terminal, each step is shown, the first one at once.
    isTTY: stopAt !== undefined,
    write(text: string) {
      said.push(text);
      if (stopAt?.test(text)) stop.abort();
    },
  };
  const { signal } = stop;
  const { code } = await here(words, {
    clock,
    out: output,
    err: output,
    signal,
    readVariable: (name) => env[name],
  });
  return { code, said: said.join("") };
}

/** A folder for database files, and the command in it. */
export class Workshop {
  readonly folder: string = newFolder();
  #files = 0;

  /** The path of a new database file. */
  path(): string {
    this.#files += 1;
    return join(this.folder, `${this.#files}.db`);
  }

  /** A new place in SQLite. */
  sqlite(): Addresses {
    return { storage: `sqlite:${this.path()}` };
  }

  start(words: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
    return start("cli/main.ts", { args: words, env, cwd: this.folder });
  }

  async run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    const running = this.start(words, env);
    return { code: await running.ended, said: running.output() };
  }
}

/**
 * Runs a copy through kills, and then to its end. @param most runs that are killed, each `when` it has come so far.
 * @returns how many were: one that was too fast has ended.
 */
export async function copyThroughKills(
  startCopy: () => Running,
  most: number,
  when: (running: Running, kills: number) => Promise<void>,
): Promise<number> {
  for (let kills = 0; ; kills += 1) {
    const running = startCopy();
    if (kills < most) {
      await when(running, kills);
      void running.stop("SIGKILL");
    }
    const how = await running.ended;
    if (how === 0) return kills;
    if (how !== "SIGKILL") throw new Error(`the copy ended with ${how}:\n${running.output()}`);
  }
}

/** The mark in a database file that another process writes to; `undefined` when there is none yet. */
export function markIn(path: string): string | undefined {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const { kind, key } = UNFINISHED_COPY.ref("current");
      const row = database.prepare("SELECT value FROM records WHERE kind = ? AND key = ?").get(kind, key);
      return row && String(row["value"]);
    } finally {
      database.close();
    }
  } catch {
    // There is no file, or no table in it, or a lock on it.
    return undefined;
  }
}
