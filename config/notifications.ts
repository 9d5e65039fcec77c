/** The keys of `notifications`: how notifications are delivered. */
import { z } from "zod";
import {
  described,
  flag,
  fractionalSeconds,
  list,
  seconds,
  section,
  text,
  whole,
} from "./documented-schema.ts";
import { isHostName, isNetwork } from "./value-forms.ts";

const HOUR = 60 * 60;
const DAY = 24 * HOUR;

const receiver = text(
  253,
  (value) => isNetwork(value) || isHostName(value),
  "an IP address, a network such as `10.0.0.0/8`, or a host name in lower case",
);
const timeout = fractionalSeconds(0.001, 300);
const MAX_DELAY_SECONDS = 30 * DAY;
/** Ten attempts over 75.6 hours, so a receiver can be down for a weekend. */
const RETRY_DELAYS = [5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

const keys = section({
  /** Seconds before each retry: N delays make N + 1 attempts. Default `[5,300,1800,7200,18000,36000,50400,72000,86400]`. */
  retryDelays: described(
    z.array(fractionalSeconds(0, MAX_DELAY_SECONDS)).max(100).readonly().default(RETRY_DELAYS),
    { form: "a list of at most 100 numbers of seconds" },
  ),
  /** Time-outs of an attempt. */
  timeouts: section({
    /** Seconds to connect to a receiver. Default 5. */
    connect: timeout.default(5),
    /** Seconds for the whole attempt. Default 15. */
    total: timeout.default(15),
  }).prefault({}),
  /** Limits on parallel attempts. */
  concurrency: section({
    /** Parallel attempts of a process; one in five is reserved for receivers that have none. Default 50. */
    total: whole(1, 10_000).default(50),
    /** Parallel attempts of a process to one receiver. Default 10. */
    perReceiver: whole(1, 10_000).default(10),
  }).prefault({}),
  /** Receivers of notifications and logout tokens that may have private addresses or use plain http. Default `[]`. */
  allowedReceivers: list(receiver, 0).default([]),
  /** When a failing receiver is paused, and how often it is probed. */
  breaker: section({
    /** Consecutive failures after which the circuit of a receiver opens, and it is probed. Default 5. */
    failures: whole(1, 1000).default(5),
    /** Seconds until the first probe; doubled after each failed one. Default 30. */
    probe: timeout.default(30),
    /** Maximum seconds between two probes. Default 300. */
    longestProbe: timeout.default(300),
  }).prefault({}),
  /** How long finished deliveries are stored. */
  retention: section({
    /** Seconds for which payloads are stored after delivery. Default 604800. */
    payloads: seconds().default(7 * DAY),
    /** Seconds for which finished records are stored, and parked deliveries with their payloads. Default 7776000. */
    records: seconds().default(90 * DAY),
  }).prefault({}),
  /**
   * Seconds between polls for deliveries that other processes stored; with SQLite, and with PostgreSQL unless `pool_mode=transaction`, they are noticed sooner.
   * Default 1.
   */
  poll: timeout.default(1),
  /** Deliver in this process. Default `true`. */
  worker: flag().default(true),
});

/** How notifications are delivered. */
export interface NotificationSettings extends z.output<typeof keys> {}
export interface NotificationsInput extends z.input<typeof keys> {}

/** Its type has a name, as that of `interactions`. */
export const notifications: z.ZodType<NotificationSettings, NotificationsInput> = keys;
