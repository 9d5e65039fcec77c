/** Translates the driver's errors. */
import { SignInError, StorageUnavailable } from "../../core/errors.ts";

/** Time-out of one operation: shorter than that of a request. */
export const DEFAULT_TIMEOUT_MS = 4500;

const DUPLICATE_KEY = 11_000;

/** Codes of errors about the user, the password or the rights. */
const REFUSED_CODES: ReadonlySet<unknown> = new Set([13, 18, 8000]);

function field(error: unknown, name: string): unknown {
  return typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined;
}

/** The code of an error that the server sent. */
export function codeOf(error: unknown): unknown {
  return field(error, "code");
}

/** Whether the server refused the user or the operation. */
export function isRefused(error: unknown): boolean {
  return REFUSED_CODES.has(codeOf(error));
}

/** The names of the driver's errors when a connection fails, or is closed because others have failed. */
const NETWORK_FAULT = /^(?:Mongo)?(?:Network|PoolCleared)/u;

/** Whether the server may have run the command although it failed. */
export function isNetworkFault(error: unknown): boolean {
  // A bulk write error has another name, and contains the error of its command.
  return [error, field(error, "errorResponse")].some((each) =>
    NETWORK_FAULT.test(String(field(each, "name"))),
  );
}

/** Whether the driver has labelled the error. */
export function hasLabel(error: unknown, label: string): boolean {
  const labels = field(error, "errorLabels");
  return Array.isArray(labels) && labels.includes(label);
}

/** Whether a document with the same key exists already. */
export function isDuplicate(error: unknown): boolean {
  return codeOf(error) === DUPLICATE_KEY;
}

/** The kind of error. The driver's message is left out, because it repeats values. */
function describe(error: unknown): string {
  const words = ["name", "codeName", "code"].map((name) => field(error, name));
  return words.filter((word) => typeof word === "string" || typeof word === "number").join(", ");
}

/** Errors of this package are returned unchanged; all errors of the driver become `StorageUnavailable`. */
export function asFault(error: unknown): unknown {
  if (error instanceof SignInError || error instanceof TypeError) return error;
  const said = describe(error);
  return new StorageUnavailable(`MongoDB failed (${said})`, { reason: said });
}

/** The error of every call after `close()`. */
export function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to MongoDB is closed", { reason: "closed" });
}

/** The error of a call that took too long. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("MongoDB did not answer in time", { reason: "timeout" });
}
