/** The errors of the driver, and what they become for the service. */
import { SignInError, StorageUnavailable } from "../../core/errors.ts";

/**
 * SQLSTATE of conflicts with other commits: a duplicate key, a serialization failure, a deadlock, a lock that is not
 * available.
 */
const TRANSIENT: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "55P03"]);

/** SQLSTATE of a write on a standby, or on a primary that takes none. */
export const READ_ONLY = "25006";
/** SQLSTATE of servers that stop, or that are not ready yet. */
const STOPPING = /^57P0[1-3]$/u;

/** A pooler says this when it has lost its server, so nobody knows what became of a call. */
const LOST = /^08/u;

/** `SQLSTATE` of an error that the server sent; `undefined` for other errors. */
export function sqlState(error: unknown): string | undefined {
  const { severity, code } = Object(error) as { readonly severity?: unknown; readonly code?: unknown };
  // System errors also have a `code`, but only the server's errors have a severity.
  return severity !== undefined && typeof code === "string" && !LOST.test(code) ? code : undefined;
}

/** Whether another commit interfered, so that this one must be checked again. */
export function isTransient(error: unknown): boolean {
  return TRANSIENT.has(sqlState(error) ?? "");
}

/** Whether another server may have become the primary: this one does not answer, stops, or takes no writes. */
export function isServerLost(error: unknown): boolean {
  const state = sqlState(error);
  return state === undefined || state === READ_ONLY || STOPPING.test(state);
}

/** The driver's own time-outs have no code. */
function whyWithoutCode(error: unknown): string {
  return Error.isError(error) && /\btimeout\b/u.test(error.message) ? "timeout" : "no answer";
}

/** What the server or the system said, without a message: it may contain values. */
export function reasonOf(error: unknown): string {
  return sqlState(error) ?? String(Reflect.get(Object(error), "code") ?? whyWithoutCode(error));
}

/** The driver's messages may contain values, so only the code is used. */
export function asFault(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof SignInError) return error;
  const reason = reasonOf(error);
  return new StorageUnavailable(`PostgreSQL: ${reason}`, { reason });
}

/** The error of a call that took too long. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("PostgreSQL did not answer in time", { reason: "timeout" });
}
