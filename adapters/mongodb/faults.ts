/** What the driver's errors mean to the callers of the storage. */
import { SignInError, StorageUnavailable } from "../errors.ts";

/** How long an operation may take, in milliseconds: less than the time in which a request is answered. */
export const DEFAULT_WAIT = 4500;

const DUPLICATE_KEY = 11_000;

/** Codes of what is wrong with the user, the password or the rights, not with the network. */
const REFUSED_CODES: ReadonlySet<unknown> = new Set([13, 18, 8000]);

function field(error: unknown, name: string): unknown {
  return typeof error === "object" && error !== null ? Reflect.get(error, name) : undefined;
}

/** The code of a server's error. */
export function codeOf(error: unknown): unknown {
  return field(error, "code");
}

/** Whether the server answered that the user may not do this, or is not known. */
export function isRefused(error: unknown): boolean {
  return REFUSED_CODES.has(codeOf(error));
}

/** The names of what the driver says when a connection fails, or is given up because others have failed. */
const NETWORK_FAULT = /^(?:Mongo)?(?:Network|PoolCleared)/u;

/** Whether it is not known what the server made of it. */
export function isNetworkFault(error: unknown): boolean {
  // The error of a bulk write has another name, and the one of its command inside.
  return [error, field(error, "errorResponse")].some((each) =>
    NETWORK_FAULT.test(String(field(each, "name"))),
  );
}

/** Whether the driver has put this label on the error. */
export function hasLabel(error: unknown, label: string): boolean {
  const labels = field(error, "errorLabels");
  return Array.isArray(labels) && labels.includes(label);
}

/** Whether a document with the same key is there already. */
export function isDuplicate(error: unknown): boolean {
  return codeOf(error) === DUPLICATE_KEY;
}

/** What kind of error it is. The driver's own text is left out: it repeats the values that were sent. */
function describe(error: unknown): string {
  const words = ["name", "codeName", "code"].map((name) => field(error, name));
  return words.filter((word) => typeof word === "string" || typeof word === "number").join(", ");
}

/** Errors of this package as they are; all that the driver throws as `StorageUnavailable`. */
export function asFault(error: unknown): unknown {
  if (error instanceof SignInError || error instanceof TypeError) return error;
  return new StorageUnavailable(`MongoDB did not do it (${describe(error)})`);
}

/** What every call gets after `close()`. */
export function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to MongoDB is closed");
}

/** What a call gets that was not done in time. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("MongoDB did not answer in time");
}
