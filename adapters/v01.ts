/**
 * What version 0.1 kept, as its storage is read for the migration to records. Accounts, clients, entries and audit
 * records are the JSON that was stored; the rest is what its columns, documents and hashes said.
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
  /** By the clock of the store: when the request was answered that consumed it. */
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
  /** The last claim, while no result of it has been recorded; `sequence` is that of the delivery, 0 when it is gone. */
  readonly lease: {
    readonly owner: string;
    readonly end: number;
    readonly claimed: string;
    readonly sequence: number;
  } | null;
  /** The sequence of the first delivery that waits; `null`: none does. */
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
  /** `undefined` only in a storage that somebody has damaged. */
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
 * The parts in the order in which they are carried over. An account takes the place of a client with its identifier,
 * a receiver that was used takes the place of one that a lane names, and codes and tokens need their grants.
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
  /** Where the next page begins; missing at the end. A page in between may be empty. */
  readonly after?: string;
}

/** What some items of a part become. */
export interface Converted {
  readonly records: readonly RecordData[];
  /** To be handed to the next call for the same part: the last place in its order. */
  readonly last: number;
}

/** @param last what the call before gave back; 0 for the first items of a part. */
export type ConvertV01 = <Part extends V01Part>(
  part: Part,
  items: readonly V01Items[Part][],
  last: number,
) => Converted;

/** How far a migration is: so many of about so many items of a part. */
export type OnV01Progress = (part: V01Part, done: number, total: number) => void;

/** How records are made of what version 0.1 has kept. */
export interface V01Options {
  readonly convert: ConvertV01;
  readonly onProgress: OnV01Progress;
}

/** What is kept of a storage of version 0.1 that was carried over. */
export interface V01Remains {
  /** Deletes it. @returns whether there was something. */
  removeOld(): Promise<boolean>;
  /** Safe to call twice. */
  close(): Promise<void>;
}

/** A storage of version 0.1 on a server. */
export interface V01Source extends V01Remains {
  /** Which parts can be there. */
  readonly parts: readonly V01Part[];
  /** Whether it is there, and in the reach of version 0.1. */
  isThere(): Promise<boolean>;
  /** Takes it out of the reach of a process of version 0.1. Goes on where it was when it is called again. */
  takeAway(): Promise<void>;
  /** Reads what was taken away, a page at a time and always in the same order. */
  read<Part extends V01Part>(
    part: Part,
    after: string | undefined,
    limit: number,
  ): Promise<V01Page<V01Items[Part]>>;
  /** About how many items there are. */
  count(part: V01Part): Promise<number>;
  /** The number that the last account was given. */
  lastUserId(): Promise<number>;
}
