/** The storage contract, for those who write a backend of their own. */
export type * from "./clock.ts";
export { ConditionFailed, StorageUnavailable } from "./errors.ts";
export * from "./record-store.ts";
