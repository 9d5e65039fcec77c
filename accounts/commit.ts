/** Shared by changes of accounts and clients: retries on a conflict, and follow-up work that can't fail the change. */
import { setTimeout as sleep } from "node:timers/promises";
import { SignInError, StorageUnavailable, VersionConflict } from "../core/errors.ts";
import type { ServiceEmitter } from "../core/events.ts";

const ATTEMPTS = 50;
/** Milliseconds between two attempts, at most. */
const LONGEST_PAUSE = 40;

/**
 * Repeats the work while it rejects with `VersionConflict`, after random pauses that grow.
 * @param what what is changed, for the error message.
 * @throws StorageUnavailable after 50 conflicts in a row.
 */
export async function retryOnConflict<T>(what: string, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof VersionConflict)) throw error;
    }
    await sleep(Math.random() * Math.min(attempt * 2, LONGEST_PAUSE));
  }
  throw new StorageUnavailable(`too many concurrent changes to this ${what}`);
}

/** Runs work that follows a commit. The change stands whatever happens, so a failure becomes a `fault` event. */
export async function afterCommit(
  events: ServiceEmitter,
  where: string,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    events.emit("fault", { where, code: error instanceof SignInError ? error.code : "unexpected" });
  }
}
