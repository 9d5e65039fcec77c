/** For the tests of those who build on sign-in-service: nothing here belongs into a running service. */
export { describeStorage } from "./testing/contract/storage.ts";
export { ManualClock, type StorageBackend } from "./testing/contract/stage.ts";
export type { TestRunner } from "./testing/contract/runner.ts";
