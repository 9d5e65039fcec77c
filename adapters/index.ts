/** The storage contract, for backends of your own. */
export type { Clock } from "../core/clock.ts";
export { ConditionFailed, StorageUnavailable } from "../core/errors.ts";
export {
  checkCommit,
  type Commit,
  type Expectation,
  type Found,
  type IndexEntry,
  type JsonObject,
  type Page,
  type Query,
  type RecordData,
  type RecordStore,
  type Ref,
} from "./record-store.ts";
