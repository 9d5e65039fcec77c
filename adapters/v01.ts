/**
 * The data of version 0.1 as the migration reads it. Accounts, clients, entries and audit records are the JSON that
 * was stored; the rest comes from columns, documents and hashes.
 */
import type { JsonObject, RecordData } from "./record-store.ts";

export interface V01Artifact {
  readonly model: string;
  readonly key: string;
  readonly payload: JsonObject;
  readonly expiresAt: number;
  readonly consumedAt?: number;
  readonly replay?: string;
  readonly replayUntil?: number;
  /** When the request that consumed it was answered, by the store's clock. */
  readonly answeredAt?: number;
  readonly grantKey?: string;
  readonly uid?: string;
  readonly accountId?: string;
  readonly clientId?: string;
}

export interface V01Attempt {
  readonly number: number;
  readonly startedAt: number;
  readonly duration: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly answer: string | null;
}

export interface V01Lane {
  readonly receiver: string;
  readonly sub: string;
  readonly lastSequence: number;
  readonly lastDelivered: number;
  readonly fence: number;
  /** The last claim, if its result is not recorded; `sequence` is that of the delivery, 0 if the delivery is gone. */
  readonly lease: {
    readonly owner: string;
    readonly end: number;
    readonly claimed: string;
    readonly sequence: number;
  } | null;
  /** The sequence of the first waiting delivery; `null` if none waits. */
  readonly head: number | null;
}

export interface V01Delivery {
  readonly id: string;
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  readonly payload: string | null;
  readonly at: number;
  readonly sequence: number;
  readonly state: "waiting" | "delivered" | "parked" | "discarded";
  readonly attempts: number;
  readonly failures: number;
  readonly storedAt: number;
  readonly nextAttemptAt: number | null;
  readonly failedAt: number | null;
  readonly finishedAt: number | null;
  readonly reason: string | null;
  readonly history: readonly V01Attempt[];
  /** `undefined` only in a damaged storage. */
  readonly lane: V01Lane | undefined;
}

/** One item of each part. */
export interface V01Items {
  readonly entries: { readonly kind: "service" | "group" | "portal"; readonly record: JsonObject };
  readonly clients: JsonObject;
  readonly accounts: { readonly record: JsonObject; readonly names: readonly string[] };
  readonly audit: JsonObject;
  readonly receivers: {
    readonly receiver: string;
    readonly paused: boolean;
    readonly reason: string | null;
    readonly failures: number;
    readonly heldUntil: number | null;
    readonly holdSpan: number;
    readonly releaseUntil: number | null;
  };
  readonly lanes: V01Lane;
  readonly deliveries: V01Delivery;
  readonly grants: V01Artifact;
  readonly artifacts: V01Artifact;
  readonly kept: { readonly name: string; readonly value: string };
}

export type V01Part = keyof V01Items;

/**
 * The parts in the order of migration. Later records replace earlier ones: accounts replace clients with the same
 * identifier, and receivers with a state replace those of a lane. Codes and tokens need their grants.
 */
export const V01_PARTS: readonly V01Part[] = [
  "entries",
  "clients",
  "accounts",
  "audit",
  "deliveries",
  "lanes",
  "receivers",
  "grants",
  "artifacts",
  "kept",
];

export interface V01Page<Item> {
  readonly items: readonly Item[];
  /** The next position; missing at the end. A page before the end may be empty. */
  readonly after?: string;
}

/** The records that some items become. */
export interface Converted {
  readonly records: readonly RecordData[];
  /** For the next call with the same part: the last position of the records. */
  readonly last: number;
}

/** @param last from the previous call; 0 for the first items of a part. */
export type ConvertV01 = <Part extends V01Part>(
  part: Part,
  items: readonly V01Items[Part][],
  last: number,
) => Converted;

/** Reports how many items of a part are migrated, out of approximately `total`. */
export type OnV01Progress = (part: V01Part, done: number, total: number) => void;

/** How data of version 0.1 is converted. */
export interface V01Options {
  readonly convert: ConvertV01;
  readonly onProgress: OnV01Progress;
}

/** The old data that a migration left in a storage. */
export interface V01Remains {
  /** Whether there is any. */
  hasOld(): Promise<boolean>;
  /**
   * Deletes it.
   * @returns whether there was any.
   */
  removeOld(): Promise<boolean>;
  /** Safe to call twice. */
  close(): Promise<void>;
}

/** A storage of version 0.1 on a server. */
export interface V01Source extends V01Remains {
  /** The parts that it may contain. */
  readonly parts: readonly V01Part[];
  /** Whether it exists, in the reach of version 0.1. */
  isThere(): Promise<boolean>;
  /** Takes it out of the reach of version 0.1. A repeated call continues where the first one stopped. */
  takeAway(): Promise<void>;
  /** Reads pages of what was taken away, always in the same order. */
  read<Part extends V01Part>(
    part: Part,
    after: string | undefined,
    limit: number,
  ): Promise<V01Page<V01Items[Part]>>;
  /** Approximately how many items there are. */
  count(part: V01Part): Promise<number>;
  /** The number of the last account. */
  lastUserId(): Promise<number>;
}
