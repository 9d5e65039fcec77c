/** The operations on receivers of notifications and of account events. */
import { z } from "zod";
import { exactly, ruled } from "../accounts/arguments.ts";
import { type Facade, NONE, operation, operations } from "../accounts/operations/operation.ts";
import { DELIVERED_TYPES } from "../accounts/events/event-types.ts";
import { parseReceiverName } from "../accounts/receivers.ts";

/** The audit records the name of the receiver, so it must not be free text, which could contain personal data. */
export const receiverName = ruled((name) =>
  parseReceiverName(name) === undefined
    ? "must be service:KEY, group:KEY, portal:KEY or events:KEY"
    : undefined,
);

const reportSchema = exactly({
  /** `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. */
  receiver: z.string(),
  /** `null` when it is no longer configured. */
  url: z.string().nullable(),
  types: z.array(z.string()).readonly(),
  /** At most 10,000: then there may be more. */
  waiting: z.int(),
  /** Likewise. */
  parked: z.int(),
  /** When the oldest waiting delivery was stored. */
  oldest_at: z.int().nullable(),
  paused: z.boolean(),
  /** Why it is paused; `null` if it is not. */
  reason: z.string().nullable(),
  /** Failed attempts in a row. */
  failures: z.int(),
  /** When it began to fail; `null` if it works. A receiver that was resumed works again with its first success. */
  failing_since: z.int().nullable(),
  /** How the last of these attempts failed: `HTTP 503`, or a short code; `null` if it works, or nothing could be sent. */
  last_error: z.string().nullable(),
  /** The circuit is open: nothing is sent before this time, and then one delivery as a probe. `null`: it is closed. */
  circuit_open_until: z.int().nullable(),
});

/** How a receiver is doing. Times are seconds since the epoch. */
export interface ReceiverReport extends Readonly<z.output<typeof reportSchema>> {}
const report: z.ZodType<ReceiverReport> = reportSchema.meta({ id: "ReceiverReport" });

const testSchema = exactly({
  /** The receiver answered with 2xx. */
  ok: z.boolean(),
  /** The `webhook-id` that was sent. It belongs to no delivery. */
  id: z.string(),
  type: z.enum(DELIVERED_TYPES),
  /** `false`: nothing was sent, because the address is not allowed or no key opens the credentials; `error` says which. */
  sent: z.boolean(),
  status: z.int().nullable(),
  /** A short code when no response came, or why nothing was sent: the address is not allowed, no key opens the credentials. */
  error: z.string().nullable(),
  duration_ms: z.number(),
  /** The first 4 KiB of the response: text of the receiver, so escape it. */
  answer: z.string().nullable(),
});

/** The result of a test. */
export interface TestResult extends Readonly<z.output<typeof testSchema>> {}
const test: z.ZodType<TestResult> = testSchema.meta({ id: "TestResult" });

const READS = {
  role: "viewer",
  deliveries: true,
  limited: { role: "viewer", by: "receiver" },
  confirm: "none",
  audit: [],
  errors: [],
  columns: [],
} as const;
const CHANGES = {
  effect: "verb",
  role: "administrator",
  deliveries: true,
  limited: false,
  store: "elsewhere",
  columns: [],
} as const;
const EXAMPLE = { target: ["service:news"], input: {} } as const;

export const receivers = operations("receiver", {
  /** Lists all receivers: what waits, and which of them fail, since when and why. */
  list: operation({
    ...READS,
    effect: "list",
    target: [],
    input: NONE,
    output: report,
    columns: [
      "receiver",
      "url",
      "waiting",
      "oldest_at",
      "parked",
      "failures",
      "failing_since",
      "last_error",
      "circuit_open_until",
      "paused",
      "reason",
    ],
    example: { target: [], input: {} },
  }),
  /**
   * Shows a receiver.
   * @returns `undefined` if it is not configured, and has neither deliveries nor a state.
   */
  find: operation({
    ...READS,
    effect: "read",
    target: ["receiver"],
    input: NONE,
    output: report,
    example: EXAMPLE,
  }),
  /**
   * Stops new deliveries to a receiver.
   *
   * One that is paused already keeps its reason.
   *
   * @throws NotFound if there is no such receiver.
   */
  pause: operation({
    ...CHANGES,
    target: ["receiver"],
    input: exactly({
      /** Shown while it is paused. Default: by hand. */
      reason: z
        .string({ error: "must be a string" })
        .min(1, { error: "must not be empty" })
        .max(200, { error: "must have at most 200 characters" })
        .default("by hand"),
    }),
    output: report,
    confirm: "page",
    audit: ["receiver.pause_requested"],
    errors: ["not_found"],
    example: { target: ["service:news"], input: { reason: "maintenance" } },
  }),
  /**
   * Sends everything that is waiting for a receiver, whatever stopped it.
   *
   * @throws NotFound if there is no such receiver.
   */
  resume: operation({
    ...CHANGES,
    target: ["receiver"],
    input: NONE,
    output: report,
    confirm: "none",
    audit: ["receiver.resume_requested"],
    errors: ["not_found"],
    example: EXAMPLE,
  }),
  /**
   * Sends a test notification, or a test event, about an account that does not exist, and shows the answer.
   *
   * Exits with 3 if the receiver did not answer, and with 1 if it did not accept the notification, or nothing was sent. The test is sent
   * from this machine, with the configuration of this command: notifications.allowedReceivers must be the server's.
   *
   * @throws NotFound if no such receiver is configured.
   */
  test: operation({
    ...CHANGES,
    target: ["receiver"],
    input: NONE,
    output: test,
    confirm: "none",
    audit: ["receiver.test_requested"],
    errors: ["not_found"],
    example: EXAMPLE,
  }),
});

/** The calls for receivers. */
export type Receivers = Facade<typeof receivers.rows>;
