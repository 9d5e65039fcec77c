/** The collections and what they are found by: one row each. */
import type { IndexDescription } from "mongodb";

/** The collections by name. */
export type CollectionName =
  | "accounts"
  | "names"
  | "clients"
  | "entries"
  | "entry_guards"
  | "kept"
  | "counters"
  | "audit"
  | "artifacts"
  | "rate_limits"
  | "deliveries"
  | "attempts"
  | "lanes"
  | "receivers";

const once = { unique: true };
/** Only documents that have the field: with equality on it MongoDB uses the index all the same. */
const sparse = { sparse: true };
/** Deleted by the server some time after the date in the field. */
const expiring = { expireAfterSeconds: 0 };

/**
 * Beside `_id`, which every collection is found by. The order of the fields matters. An index that has been in a
 * release is never changed under its name: a new one gets a new row.
 */
export const COLLECTIONS: Readonly<Record<CollectionName, readonly IndexDescription[]>> = {
  accounts: [
    { key: { user_id: 1 }, ...once },
    { key: { services: 1 }, ...sparse },
    { key: { portal: 1 }, ...sparse },
  ],
  names: [{ key: { sub: 1 } }],
  clients: [{ key: { service: 1 }, ...sparse }],
  entries: [{ key: { kind: 1, key: 1 } }, { key: { group: 1 }, ...sparse }],
  /** What changes that refer to an entry write, so that they conflict with its removal. */
  entry_guards: [],
  kept: [],
  counters: [],
  audit: [],
  artifacts: [
    { key: { grant: 1 }, ...sparse },
    { key: { uid: 1 }, ...sparse },
    // The oldest first: a person may have more of them than are shown.
    { key: { account: 1, order: 1 }, ...sparse },
    { key: { client: 1 }, ...sparse },
    { key: { replay_until: 1 }, ...sparse },
    { key: { forget_at: 1 }, ...expiring },
  ],
  rate_limits: [{ key: { forget_at: 1 }, ...expiring }],
  deliveries: [
    { key: { state: 1, lane: 1, sequence: 1 } },
    // The last field so that counting needs nothing else.
    { key: { state: 1, receiver: 1, order: 1, stored_at: 1 } },
    { key: { state: 1, order: 1 } },
    { key: { receiver: 1, order: 1 } },
    { key: { sub: 1, order: 1 } },
    { key: { order: 1 } },
    { key: { finished_at: 1 }, ...sparse },
    { key: { spent_at: 1 }, ...sparse },
  ],
  attempts: [{ key: { delivery: 1, number: 1 }, ...once }],
  lanes: [
    { key: { "due.receiver": 1, "due.at": 1 }, ...sparse },
    { key: { "failed.receiver": 1, "failed.at": 1 }, ...sparse },
  ],
  receivers: [],
};
