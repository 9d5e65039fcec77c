/** Places to copy between, and the command as a process. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { openTransfer } from "../../adapters/open-transfer.ts";
import { type StorageTransfer, UNFINISHED_COPY } from "../../adapters/transfer.ts";
import { canonical } from "../../cli/copy/checksum.ts";
import { run } from "../../cli/run.ts";
import { createSystemClock } from "../../lib/clock.ts";
import { type Everything, readParts } from "../adapters/contract/transfer-samples.ts";
import { newFolder, type Running, start } from "../examples/processes.ts";

/** A storage as a command line names it. */
export interface Addresses {
  readonly storage: string;
  readonly artifacts?: string;
}

const clock = createSystemClock();

/** Opens a place for `work`, and closes it. */
export async function withTransfer<T>(
  place: Addresses,
  work: (transfer: StorageTransfer) => Promise<T>,
): Promise<T> {
  const transfer = await openTransfer({ ...place, clock, mustExist: false });
  try {
    return await work(transfer);
  } finally {
    await transfer.close();
  }
}

/** All that a place keeps. */
export function everythingIn(place: Addresses): Promise<Everything> {
  return withTransfer(place, ({ parts }) => readParts(parts));
}

function inOrder<Item>(items: readonly Item[]): Item[] {
  return items.toSorted((one, other) => (canonical(one) < canonical(other) ? -1 : 1));
}

/** With those parts in one order that each backend has in its own. */
export function sorted(all: Everything): Everything {
  return {
    ...all,
    artifacts: inOrder(all.artifacts),
    entries: inOrder(all.entries),
    clients: inOrder(all.clients),
    attempts: inOrder(all.attempts),
    lanes: inOrder(all.lanes),
    receivers: inOrder(all.receivers),
    kept: inOrder(all.kept),
  };
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

/** What a command came to. */
export interface Outcome {
  readonly code: number | string;
  /** Both outputs. */
  readonly said: string;
}

/** Runs a command in this process. @param stopAt the command is stopped, as by Ctrl+C, when it says this. */
export async function runHere(words: readonly string[], stopAt?: RegExp): Promise<Outcome> {
  const said: string[] = [];
  const stop = new AbortController();
  const output = {
    // On a terminal each step is told, the first one at once.
    isTTY: stopAt !== undefined,
    write(text: string) {
      said.push(text);
      if (stopAt?.test(text)) stop.abort();
    },
  };
  const { signal } = stop;
  const code = await run(words, { clock, readVariable: () => undefined, out: output, err: output, signal });
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
    return { code: await running.ended, said: running.said() };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
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
    if (how !== "SIGKILL") throw new Error(`the copy ended with ${how}:\n${running.said()}`);
  }
}

/** The mark in a database file that another process writes to; `undefined` when there is none yet. */
export function markIn(path: string): string | undefined {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const row = database.prepare("SELECT value FROM kept WHERE name = ?").get(UNFINISHED_COPY);
      return row && String(row["value"]);
    } finally {
      database.close();
    }
  } catch {
    // There is no file, or no table in it, or a lock on it.
    return undefined;
  }
}
