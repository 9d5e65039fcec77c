/** The storage contract, for those who write a backend, and how the chosen backend is opened. */
export type * from "./clock.ts";
export { ConditionFailed, StorageUnavailable } from "./errors.ts";
export type * from "./rate-limits.ts";
export * from "./record-store.ts";
