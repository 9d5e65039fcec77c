/**
 * What every backend can do beside serving: hand out all that it keeps, page by page, and take it in. A copy from one
 * storage to another goes through these records, which no backend keeps as they are.
 *
 * A copy is of a service that is stopped. Rate limits stay behind: they are over in minutes.
 */
import type { Artifact } from "./artifacts.ts";
import type { Delivery, DeliveryAttempt, LaneKey, ReceiverState } from "./deliveries.ts";
import type { AccountRecord, AuditRecord, ClientRecord, EntryKind, EntryRecord } from "./directory.ts";

/** An account with the sign-in names that lead to it, in the order of their code units. */
export interface AccountTransfer {
  readonly record: AccountRecord;
  readonly names: readonly string[];
}

/** A delivery as a worker's next claim has to find it. Its attempts are records of their own. */
export interface DeliveryTransfer extends Delivery {
  /** Waiting only: when its last attempt failed, in milliseconds since the epoch; `null` before the first. */
  readonly failedAt: number | null;
}

export interface AttemptTransfer extends DeliveryAttempt {
  /** `id` of its delivery. */
  readonly delivery: string;
}

/** What a lane remembers beside its deliveries: with it the order goes on where it was. */
export interface LaneTransfer extends LaneKey {
  /** The highest sequence that was given out. */
  readonly lastSequence: number;
  /** The highest one that was delivered; 0: none. */
  readonly lastDelivered: number;
  /** Of the last claim; 0: none. */
  readonly fence: number;
  /** The claim that had not ended: who, until when, and `id` of the delivery. `null` without one. */
  readonly lease: { readonly owner: string; readonly end: number; readonly claimed: string } | null;
}

export interface ReceiverTransfer extends ReceiverState {
  readonly receiver: string;
}

/** One record of each part. */
export interface TransferRecords {
  readonly entries: { readonly kind: EntryKind; readonly record: EntryRecord };
  readonly clients: ClientRecord;
  readonly accounts: AccountTransfer;
  readonly audit: AuditRecord;
  readonly deliveries: DeliveryTransfer;
  readonly attempts: AttemptTransfer;
  readonly lanes: LaneTransfer;
  readonly receivers: ReceiverTransfer;
  readonly artifacts: Artifact;
  /** The counters that were used. */
  readonly counters: { readonly name: string; readonly value: number };
  readonly kept: { readonly name: string; readonly value: string };
}

export type PartName = keyof TransferRecords;

/**
 * The parts in the order in which they are written: attempts and lanes refer to deliveries, and without what is kept
 * last no service starts.
 */
export const PARTS: readonly PartName[] = [
  "entries",
  "clients",
  "accounts",
  "audit",
  "deliveries",
  "attempts",
  "lanes",
  "receivers",
  "artifacts",
  "counters",
  "kept",
];

/** The parts whose order is part of what they say: the oldest first. */
export const ORDERED: ReadonlySet<PartName> = new Set(["audit", "deliveries"]);

export interface TransferPage<Item> {
  readonly records: readonly Item[];
  /** Where the next page begins; missing at the end. A page in between may be empty. */
  readonly after?: string;
}

/** One part of a storage. */
export interface TransferPart<Item> {
  /** A store that can't keep its place may give a record again, on any page. Default: each comes once. */
  readonly repeats?: true;
  /** About how many records there are: for a progress bar. */
  count(): Promise<number>;
  /**
   * The records behind a place, always in the same order unless it `repeats`; what has expired is left out.
   * @param page.after of an earlier page, also one that another process was given; missing: from the first.
   * @param page.limit about how many at once.
   */
  read(page: { readonly after?: string; readonly limit: number }): Promise<TransferPage<Item>>;
  /**
   * Inserts or replaces, without the conditions of the service's own writes. Writing the same page again changes
   * nothing.
   * @param before how many records of this part come before these, where the order counts.
   */
  write(records: readonly Item[], before: number): Promise<void>;
}

export type TransferParts = { readonly [Name in PartName]: TransferPart<TransferRecords[Name]> };

/** The name under which {@link StorageTransfer.writeMark} keeps its text: a service that finds it does not start. */
export const UNFINISHED_COPY = "unfinished-copy";

/** A storage that is opened to be copied from or into. */
export interface StorageTransfer {
  readonly parts: TransferParts;
  /** The text that an unfinished copy into this storage left; it is no record of any part. */
  readMark(): Promise<string | undefined>;
  /** @param text `undefined` takes it away. */
  writeMark(text: string | undefined): Promise<void>;
  /** Lets go of files and connections. Safe to call twice. */
  close(): Promise<void>;
}
