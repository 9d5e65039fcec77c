/** Translates SQLite's errors, and waits for locks without blocking. */
import { setTimeout as pause } from "node:timers/promises";
import { StorageUnavailable } from "../../core/errors.ts";

/** Primary result codes of a lock held by another connection: SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL. */
const LOCKED_CODES: ReadonlySet<number> = new Set([5, 6, 15]);

/** How long an operation without a deadline waits for a lock. */
export const DEFAULT_LOCK_WAIT_MS = 5000;

/** Milliseconds before the next attempt: short, to hit a gap between the commits of another process. */
const FIRST_DELAY_MS = 1;
const MAX_DELAY_MS = 10;

/** The pause after one of `delay` milliseconds; without an argument, the first one. */
export function nextDelay(delay?: number): number {
  return delay === undefined ? FIRST_DELAY_MS : Math.min(delay * 2, MAX_DELAY_MS);
}

function field(error: unknown, name: string): unknown {
  return typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined;
}

/** Whether the error means that a lock is held, so that the call may succeed a moment later. */
export function isLocked(error: unknown): boolean {
  const code = field(error, "errcode");
  // The low byte of an extended code is the primary code.
  return typeof code === "number" && LOCKED_CODES.has(code & 0xff);
}

/** Errors of SQLite and of a closed database become `StorageUnavailable`; others are returned unchanged. */
export function asFault(error: unknown): unknown {
  const code = field(error, "code");
  if (code === "ERR_SQLITE_ERROR") {
    const reason = String(field(error, "errstr"));
    return new StorageUnavailable(`the database answered: ${reason}`, { cause: error, reason });
  }
  return code === "ERR_INVALID_STATE" ? closedFault(error) : error;
}

/** The error of every call after `close()`. */
export function closedFault(cause?: unknown): StorageUnavailable {
  return new StorageUnavailable("the database is closed", { cause, reason: "closed" });
}

/** The error of a call that waited for a lock until its deadline. */
export function lockedFault(cause: unknown): StorageUnavailable {
  return new StorageUnavailable("the database stayed locked until the deadline", { cause, reason: "locked" });
}

/**
 * Retries `work` with short pauses while a lock is held. The pauses leave the event loop free.
 * @throws StorageUnavailable when the lock is still held after `waitMs`, and for every other error of SQLite.
 */
export async function whileLocked<T>(work: () => T, waitMs: number = DEFAULT_LOCK_WAIT_MS): Promise<T> {
  const end = performance.now() + waitMs;
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
