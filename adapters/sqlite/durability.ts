/**
 * Makes commits survive the loss of power without holding up the event loop: the disk is waited for in another
 * thread, once for all commits that wait, and nothing is acknowledged before.
 */
import { close, fdatasync, open, realpath } from "node:fs";
import { promisify } from "node:util";
import { StorageUnavailable } from "../errors.ts";

export interface Durability {
  /** Resolves when all that was committed before the call is on the disk. @throws StorageUnavailable */
  reached(): Promise<void>;
  /** @throws StorageUnavailable when the disk has failed: what it says afterwards is not to be believed. */
  check(): void;
  /** Lets go of the file, when nobody waits any more. */
  close(): Promise<void>;
}

const failed = (cause: unknown): StorageUnavailable =>
  new StorageUnavailable("the disk did not take what was written; restart when it is well again", { cause });

/** @param flush waits for the disk. One call covers everything that was committed before it. */
export function createDurability(flush: () => Promise<void>): Omit<Durability, "close"> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let failure: StorageUnavailable | undefined;

  async function run(): Promise<void> {
    try {
      await flush();
    } catch (error) {
      // After a failed flush the system may forget what it could not write, and the next one would succeed.
      failure ??= failed(error);
    } finally {
      running = undefined;
    }
    if (failure !== undefined) throw failure;
  }

  function start(): Promise<void> {
    next = undefined;
    return (running = run());
  }

  return {
    // The flush that is running may have begun before the commit: the next one covers it.
    reached: () => (running === undefined ? start() : (next ??= running.then(start, start))),
    check() {
      if (failure !== undefined) throw failure;
    },
  };
}

/** SQLite puts the log beside the file itself, not beside a link to it. */
async function openLog(databaseFile: string): Promise<number> {
  return promisify(open)(`${await promisify(realpath)(databaseFile)}-wal`, "r+");
}

/** The durability of a database in WAL mode: its log is what has to be on the disk. */
export function logDurability(databaseFile: string): Durability {
  let file: Promise<number> | undefined;
  const flush = async (): Promise<void> => {
    // No lock of SQLite is on the log, so a second descriptor can be closed without ending one.
    file ??= openLog(databaseFile);
    await promisify(fdatasync)(await file);
  };
  return {
    ...createDurability(flush),
    async close() {
      const descriptor = await file?.catch(() => undefined);
      if (descriptor !== undefined) await promisify(close)(descriptor);
    },
  };
}

/** Of a database in memory: there is nothing to wait for. */
export const inMemoryDurability: Durability = Object.freeze({
  reached: () => Promise.resolve(),
  check: () => undefined,
  close: () => Promise.resolve(),
});
