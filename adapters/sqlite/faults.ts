/** What SQLite's errors mean to the callers of the storage, and how to wait for a lock without blocking. */
import { setTimeout as pause } from "node:timers/promises";
import { StorageUnavailable } from "../errors.ts";

/** Primary result codes of a lock that somebody else holds: SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL. */
const LOCKED_CODES: ReadonlySet<number> = new Set([5, 6, 15]);

/** How long an operation without a deadline of its own waits for a lock, in milliseconds. */
export const DEFAULT_WAIT = 5000;

/** Milliseconds before the next try: short, so that a gap between another process's commits is met. */
const FIRST_DELAY = 1;
const LONGEST_DELAY = 10;

/** The pause after one of `delay` milliseconds; the first one without an argument. */
export function nextDelay(delay?: number): number {
  return delay === undefined ? FIRST_DELAY : Math.min(delay * 2, LONGEST_DELAY);
}

function field(error: unknown, name: string): unknown {
  return typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined;
}

/** Whether the error says that a lock is held, so that the same call may succeed a moment later. */
export function isLocked(error: unknown): boolean {
  const code = field(error, "errcode");
  // The low byte is the primary code, whatever extended code SQLite gives.
  return typeof code === "number" && LOCKED_CODES.has(code & 0xff);
}

/** Errors of SQLite and of a closed database as `StorageUnavailable`; every other error as it is. */
export function asFault(error: unknown): unknown {
  const code = field(error, "code");
  if (code === "ERR_SQLITE_ERROR") {
    return new StorageUnavailable(`the database answered: ${String(field(error, "errstr"))}`, {
      cause: error,
    });
  }
  return code === "ERR_INVALID_STATE" ? closedFault(error) : error;
}

/** What every call gets after `close()`. */
export function closedFault(cause?: unknown): StorageUnavailable {
  return new StorageUnavailable("the database is closed", { cause });
}

/** What a call gets that met a lock until its deadline. */
export function lockedFault(cause: unknown): StorageUnavailable {
  return new StorageUnavailable("the database stayed locked until the deadline", { cause });
}

/**
 * Runs `work` again and again, with small pauses that leave the event loop free, while a lock is held.
 * @param wait milliseconds after which it is given up.
 * @throws StorageUnavailable at the end of `wait`, and for every other error of SQLite.
 */
export async function whileLocked<T>(work: () => T, wait: number = DEFAULT_WAIT): Promise<T> {
  const end = performance.now() + wait;
  for (let delay = nextDelay(); ; delay = nextDelay(delay)) {
    try {
      return work();
    } catch (error) {
      if (!isLocked(error)) throw asFault(error);
      if (performance.now() >= end) throw lockedFault(error);
    }
    await pause(delay);
  }
}
