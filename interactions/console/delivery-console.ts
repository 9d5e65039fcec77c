/** The notifications as the delivery console sees them. */
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import type { EntryKind } from "../../records/directory/directory.ts";
import type { Notifications, ShownAttempt, ShownDelivery } from "../../notifier/notifications.ts";
import type { ReceiverReport, TestResult } from "../../notifier/receivers.ts";
import { within } from "../../core/with-timeout.ts";

/** The parts of a delivery that the console shows. */
export type ConsoleDelivery = Omit<ShownDelivery, "sequence" | "failures" | "storedAt">;

/** A delivery with its attempts, oldest first. */
export interface ConsoleDeliveryDetail extends ConsoleDelivery {
  readonly history: readonly ShownAttempt[];
}

export type ConsoleReceiver = Omit<ReceiverReport, "types">;

export type ConsoleTest = Pick<TestResult, "ok" | "status" | "error" | "duration">;

/** The work continues, but the page does not wait for it any longer. */
export type UnderWay = "under way";

type Options<Call extends "redriveAll" | "test"> = NonNullable<Parameters<Notifications[Call]>[1]>;

/** Storage faults reject with `StorageUnavailable`. */
export interface DeliveryConsole extends Pick<
  Notifications,
  "redrive" | "sendNow" | "discard" | "pause" | "resume" | "lastHour"
> {
  /** One page of the list, newest deliveries first. */
  page(
    page: NonNullable<Parameters<Notifications["page"]>[0]>,
  ): Promise<{ readonly deliveries: readonly ConsoleDelivery[]; readonly next?: string }>;
  find(id: string): Promise<ConsoleDeliveryDetail | undefined>;
  receivers(): Promise<readonly ConsoleReceiver[]>;
  /** The names of the services, groups and portals of receivers. An entry that no longer exists has none. */
  names(receivers: readonly string[]): Promise<ReadonlyMap<string, string>>;
  redriveAll(
    filter: NonNullable<Parameters<Notifications["redriveAll"]>[0]>,
    options: Options<"redriveAll">,
  ): Promise<Awaited<ReturnType<Notifications["redriveAll"]>> | UnderWay>;
  test(receiver: string, options: Options<"test">): Promise<ConsoleTest | undefined | UnderWay>;
}

/** How long a console page waits for a long operation: less than a request may take. */
const CONSOLE_WAIT_MS = 3_000;

/**
 * The calls of the console's pages. A long operation continues in the background, and the page says so.
 */
export function createDeliveryConsole(
  notifications: Notifications,
  directory: Pick<DirectoryRecords, "findEntry">,
  onDefect: (error: unknown) => void,
  waitMs: number = CONSOLE_WAIT_MS,
): DeliveryConsole {
  const briefly = <T>(work: Promise<T>): Promise<T | UnderWay> =>
    within(waitMs, work, (): UnderWay => {
      work.catch(onDefect);
      return "under way";
    });
  return {
    ...notifications,
    page: (asked) => notifications.page({ ...asked, first: "newest" }),
    async names(receivers) {
      const found = await Promise.all(
        receivers.map(async (receiver) => {
          const [kind, key = ""] = receiver.split(":", 2);
          const entry = await directory.findEntry(kind as EntryKind, key);
          return [receiver, entry?.name ?? ""] as const;
        }),
      );
      return new Map(found.filter(([, name]) => name !== ""));
    },
    redriveAll: (filter, options) => briefly(notifications.redriveAll(filter, options)),
    test: (receiver, options) => briefly(notifications.test(receiver, options)),
  };
}
