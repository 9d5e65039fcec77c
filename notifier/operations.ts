/** The operations on deliveries of notifications, and the one object of the library for them and for receivers. */
import { z } from "zod";
import { anyString, exactly, flag, ruled } from "../accounts/arguments.ts";
import { type Facade, NONE, operation, operations } from "../accounts/operations/operation.ts";
import { DELIVERED_TYPES, type EventBody } from "../accounts/events/event-types.ts";
import { NOTIFICATION_TYPES, type NotificationBody } from "../receiver/notification.ts";
import { subProblem } from "../accounts/text-rules.ts";
import { EVENT_TYPES } from "../config/events.ts";
import { DELIVERY_STATES } from "../records/deliveries/delivery.ts";
import { receiverName, type Receivers } from "./receiver-operations.ts";

/** A list of allowed values, which messages name. */
function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: `must be one of ${values.join(", ")}` });
}

/** What can happen to an account that is there. */
const EXPLAINED_TYPES = [
  ...NOTIFICATION_TYPES,
  ...EVENT_TYPES.filter((each) => each !== "account.invited"),
] as const;

const filterShape = {
  /** Only those about this account. */
  account: ruled(subProblem).exactOptional(),
  /** Only those to `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. */
  receiver: receiverName.exactOptional(),
  /** Only this type. */
  type: oneOf(DELIVERED_TYPES).exactOptional(),
};

const force = flag().default(false);

const deliveryShape = {
  /** Its `webhook-id`, the same on every attempt. */
  id: z.string(),
  /** `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. */
  receiver: z.string(),
  /**
   * The account; for an event about an invitation `invitation:ID`. A token that is limited to a service gets `unassigned` for an account
   * that is not, or no longer, assigned to it.
   */
  sub: z.string(),
  /** The documented `notification_type`, or the `type` of the event. */
  type: z.string(),
  /** When the action happened. */
  at: z.int(),
  /** Position in its lane, counted from 1 without gaps. */
  sequence: z.int(),
  /** `waiting`, `delivered`, `parked` (no longer retried, until somebody redrives it) or `discarded`. */
  state: oneOf(DELIVERY_STATES),
  /** How many attempts were made in total. */
  attempts: z.int(),
  /** How many attempts of the retry schedule were used up since the delivery was stored or redriven. */
  failures: z.int(),
  stored_at: z.int(),
  /**
   * Waiting only: the earliest time of the next attempt, which is in the past if it is made as soon as a worker is free.
   * `null` while nothing says when: the receiver is paused, or an earlier delivery of the lane comes first.
   */
  next_attempt_at: z.int().nullable(),
  /** When the delivery was delivered, parked or discarded; `null` while it waits. */
  finished_at: z.int().nullable(),
  /** How the last attempt failed: `HTTP 503`, or a short code; `null` if none was made, or it succeeded. */
  last_error: z.string().nullable(),
  /**
   * Why the delivery was parked or discarded; or why it still waits: `receiver_paused`, `circuit_open`, `behind` (an
   * earlier one about the same user comes first) or `attempt_failed`. `null` if it was delivered, or is due.
   */
  reason: z.string().nullable(),
};
const deliverySchema = exactly(deliveryShape);

/** A delivery without its payload. Times are seconds since the epoch. */
export interface ShownDelivery extends Readonly<z.output<typeof deliverySchema>> {}
const delivery: z.ZodType<ShownDelivery> = deliverySchema.meta({ id: "Delivery" });

const attemptSchema = exactly({
  /** Counted from 1 for each delivery; redriving does not reset it. */
  number: z.int(),
  started_at: z.int(),
  duration_ms: z.number(),
  /** The HTTP status; `null` without a response. */
  status: z.int().nullable(),
  /** A short code when no response came; otherwise `null`. */
  error: z.string().nullable(),
  /** The first 4 KiB of the response: text of the receiver, so escape it. `null` without a response. */
  answer: z.string().nullable(),
});

/** One attempt to deliver. Times are seconds since the epoch. */
export interface ShownAttempt extends Readonly<z.output<typeof attemptSchema>> {}
const attempt: z.ZodType<ShownAttempt> = attemptSchema.meta({ id: "Attempt" });

const detailsSchema = exactly({
  ...deliveryShape,
  /** Its attempts, oldest first. */
  history: z.array(attempt).readonly(),
});

/** A delivery with its attempts. */
export interface DeliveryDetails extends Readonly<z.output<typeof detailsSchema>> {}
const details: z.ZodType<DeliveryDetails> = detailsSchema.meta({ id: "DeliveryDetails" });

const countsSchema = exactly({
  redriven: z.int(),
  /** A `PROFILE_CHANGED` or an event that a newer one has superseded. */
  superseded: z.int(),
  /** Somebody else was faster. */
  waiting: z.int(),
  /** Its payload is gone. */
  purged: z.int(),
  unknown: z.int(),
});

/** How many deliveries had each result. */
export interface RedriveCounts extends Readonly<z.output<typeof countsSchema>> {}
const counts: z.ZodType<RedriveCounts> = countsSchema.meta({ id: "RedriveCounts" });

const resumedSchema = exactly({
  /** The names of the receivers. */
  receivers: z.array(z.string()).readonly(),
  /** How many mails there were. */
  mails: z.int(),
});

/** What was held since a restore, and is sent now. */
export interface Resumed extends Readonly<z.output<typeof resumedSchema>> {}
const resumed: z.ZodType<Resumed> = resumedSchema.meta({ id: "Resumed" });

const explanationSchema = exactly({
  /** `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. */
  receiver: z.string(),
  /**
   * `notified`, `no_receiver` (none is configured there), `type_not_taken` (it is configured for other types) or `not_a_reader` (no
   * client of its services may read the attributes that change).
   */
  reason: z.enum(["notified", "no_receiver", "type_not_taken", "not_a_reader"]),
  /** The keys of the affected services, sorted. Events have none. */
  services: z.array(z.string()).readonly(),
  /**
   * What would be sent, with the current time; `null` if nothing would be. Members of an event that depend on what changes are
   * examples.
   */
  body: z.custom<NotificationBody | EventBody>().meta({ type: "object" }).nullable(),
  /** The notification would wait until the receiver is resumed. */
  paused: z.boolean(),
});

/** What one receiver would get, or the reason why it gets nothing. */
export interface Explanation extends Readonly<z.output<typeof explanationSchema>> {}
const explanation: z.ZodType<Explanation> = explanationSchema.meta({ id: "Explanation" });

const explainedSchema = exactly({
  /** The account. */
  account: anyString,
  /** What happens to it: the type of a notification, or that of an account event. */
  type: oneOf(EXPLAINED_TYPES),
  /** `UNASSINGED_FROM_SERVICE` only: the services that the account loses. Default: all. */
  services: z.array(anyString, { error: "must be a list of service keys" }).readonly().exactOptional(),
  /** `PROFILE_CHANGED` only: the attributes that change, and nothing else. Default: something that every service may read. */
  attributes: z.array(anyString, { error: "must be a list of attributes" }).readonly().exactOptional(),
});

/** A possible action on an account. */
export interface ExplainedAction extends Readonly<z.output<typeof explainedSchema>> {}
const explained: z.ZodType<ExplainedAction, ExplainedAction> = explainedSchema;

const acknowledgementSchema = exactly({
  /** Its `webhook-id`. */
  id: z.string(),
  receiver: z.string(),
  type: z.string(),
  /** When the action happened. */
  at: z.int(),
  state: oneOf(DELIVERY_STATES),
  /** When the receiver last answered with 2xx; `null` if it never has. */
  acknowledged_at: z.int().nullable(),
});

/** A delivery about an account: whether and when its receiver accepted it. Times are seconds since the epoch. */
export interface Acknowledgement extends Readonly<z.output<typeof acknowledgementSchema>> {}
const acknowledgement: z.ZodType<Acknowledgement> = acknowledgementSchema.meta({ id: "Acknowledgement" });

const statsSchema = exactly({
  /** The last hour in spans of five minutes, the oldest first. */
  last_hour: z
    .array(
      exactly({
        /** The beginning of the span, in seconds since the epoch. */
        from: z.int(),
        /** How many deliveries were stored in it. */
        stored: z.int(),
        /** How many of these are parked. */
        parked: z.int(),
      }).readonly(),
    )
    .readonly(),
  /** How many mails are held since the storage was restored or promoted. */
  held_mails: z.int(),
});

/** What was stored in the last hour, how much of it is parked, and how many mails are held. */
export interface DeliveryStats extends Readonly<z.output<typeof statsSchema>> {}
const stats: z.ZodType<DeliveryStats> = statsSchema.meta({ id: "DeliveryStats" });

const READS = {
  role: "viewer",
  deliveries: true,
  limited: false,
  confirm: "none",
  audit: [],
  errors: [],
  columns: [],
} as const;
const CHANGES = {
  effect: "verb",
  role: "administrator",
  limited: false,
  store: "elsewhere",
  columns: [],
} as const;
const SENDS = {
  ...CHANGES,
  role: "support",
  deliveries: true,
  limited: { role: "support", by: "receiver" },
} as const;
const OF_ITS_RECEIVER = { limited: { role: "viewer", by: "receiver" } } as const;
const ONE = { target: ["id"], example: { target: ["ID"], input: {} } } as const;

export const deliveries = operations("delivery", {
  /**
   * Lists deliveries, newest first.
   *
   * @returns a page that looks at about a thousand deliveries, to stay fast when matches are rare: it may have fewer than `limit`, even
   *   none, although there is a next one.
   */
  list: operation({
    ...READS,
    ...OF_ITS_RECEIVER,
    effect: "list",
    target: [],
    input: exactly({
      /** Only those in this state. */
      state: oneOf(DELIVERY_STATES).exactOptional(),
      ...filterShape,
      /** Which come first. Default: newest. */
      order: oneOf(["newest", "oldest"]).default("newest"),
    }),
    output: delivery,
    columns: [
      "id",
      "receiver",
      "type",
      "sub",
      "state",
      "attempts",
      "at",
      "reason",
      "last_error",
      "next_attempt_at",
    ],
    latest: 100,
    example: { target: [], input: { state: "waiting", order: "oldest" } },
  }),
  /**
   * Shows a delivery with its attempts.
   *
   * The answer shown for an attempt is text from the receiver.
   *
   * @returns `undefined` if there is none.
   */
  find: operation({ ...READS, ...OF_ITS_RECEIVER, ...ONE, effect: "read", input: NONE, output: details }),
  /**
   * Sends a delivery again, as the next one of its account.
   *
   * It has all attempts of the schedule.
   *
   * @throws NotFound if there is no such delivery.
   * @throws SignInError `superseded` for a `PROFILE_CHANGED` older than what its lane has delivered since; `purged` when its
   *   payload is gone; `not_applicable` when it waits.
   */
  redrive: operation({
    ...SENDS,
    ...ONE,
    input: exactly({
      /** Also a `PROFILE_CHANGED` that a newer one has superseded. */
      force,
    }),
    output: delivery,
    confirm: "none",
    audit: ["delivery.redrive_requested"],
    errors: ["not_found", "superseded", "purged", "not_applicable"],
    example: { target: ["ID"], input: { force: true } },
  }),
  /** Sends all parked deliveries that match again, in order, and counts the results. */
  redriveAll: operation({
    ...SENDS,
    target: [],
    input: exactly({
      ...filterShape,
      /** Also each `PROFILE_CHANGED` that a newer one has superseded. */
      force,
    }),
    output: counts,
    confirm: "page",
    audit: ["delivery.redrive_all_requested"],
    errors: [],
    example: { target: [], input: { receiver: "service:news" } },
  }),
  /**
   * Sends a waiting delivery now instead of at its next attempt.
   *
   * It is sent as soon as a worker is free.
   *
   * @throws NotFound if there is no such delivery.
   * @throws SignInError `behind` when an earlier one about the same account comes first; `receiver_stopped` when its receiver is
   *   paused or its circuit is open; `not_waiting` when it was delivered, parked or discarded.
   */
  sendNow: operation({
    ...SENDS,
    ...ONE,
    input: NONE,
    output: delivery,
    confirm: "none",
    audit: ["delivery.send_now_requested"],
    errors: ["not_found", "behind", "receiver_stopped", "not_waiting"],
  }),
  /**
   * Gives up a waiting or parked delivery.
   *
   * @throws NotFound if there is no such delivery.
   * @throws SignInError `not_waiting` when it was delivered or discarded.
   */
  discard: operation({
    ...CHANGES,
    ...ONE,
    input: NONE,
    output: delivery,
    deliveries: true,
    confirm: "final",
    audit: ["delivery.discard_requested"],
    errors: ["not_found", "not_waiting"],
  }),
  /**
   * Sends the deliveries and the mail that have been held since the storage was restored or promoted.
   *
   * Review the waiting deliveries first: some may have been delivered after the backup was made, and are delivered again with the same
   * webhook-id. Receivers that are paused for another reason stay paused.
   */
  resume: operation({
    ...CHANGES,
    target: [],
    input: NONE,
    output: resumed,
    confirm: "page",
    audit: ["receiver.resume_requested", "mail.resume_requested"],
    errors: [],
    example: { target: [], input: {} },
  }),
  /**
   * Shows which receivers would be told of an action, and which would not, with the reason.
   *
   * Sends nothing. For a type such as `account.updated` it is about the receivers of events.
   *
   * @throws NotFound if there is no such account.
   */
  explain: operation({
    // Its answer holds the address of the person: the role `deliveries` sees no account.
    role: "viewer",
    limited: false,
    confirm: "none",
    audit: [],
    effect: "read",
    target: [],
    input: explained,
    output: z.array(explanation).readonly(),
    errors: ["not_found"],
    columns: ["receiver", "reason", "services", "paused"],
    path: "explain",
    example: { target: [], input: { account: "SUB", type: "DELETE_ACCOUNT" } },
  }),
  /** The notifications about an account, oldest first, for as long as the records are kept. */
  acknowledgements: operation({
    ...READS,
    effect: "read",
    target: ["sub"],
    input: NONE,
    output: z.array(acknowledgement).readonly(),
    surfaces: ["library", "rest", "console"],
    path: "/accounts/{sub}/acknowledgements",
    example: { target: ["SUB"], input: {} },
  }),
  /** What was stored in the last hour, how much of it is parked, and how many mails are held. */
  stats: operation({
    ...READS,
    effect: "read",
    target: [],
    input: NONE,
    output: stats,
    surfaces: ["library", "rest", "console"],
    path: "stats",
    example: { target: [], input: {} },
  }),
});

type Deliveries = Facade<typeof deliveries.rows>;

/**
 * The calls for notifications, which are those about deliveries, and those about their receivers.
 *
 * Receivers are named `service:KEY`, `group:KEY`, `portal:KEY` and `events:KEY`. A wrong argument is an `InvalidArgument` that names it; a fault of
 * the storage is `StorageUnavailable`. Every call that changes or sends something first writes an audit record of what was requested.
 */
export interface Notifications extends Omit<Deliveries, "resume">, Omit<Receivers, "list" | "find"> {
  /** Sends what has been held since the storage was restored or promoted. */
  readonly resumeRestored: Deliveries["resume"];
  /** Lists all receivers, ordered by name: what waits, and which of them fail, since when and why. */
  readonly receivers: Receivers["list"];
  /** One receiver; `undefined` if it is not configured, and has neither deliveries nor a state. */
  readonly receiver: Receivers["find"];
}

/** The one object for both tables. */
export function notificationsOf(
  { resume: resumeRestored, ...others }: Deliveries,
  calls: Receivers,
): Notifications {
  const { list, find, ...more } = calls;
  return { ...others, ...more, resumeRestored, receivers: list, receiver: find };
}

/** The calls of the table of deliveries. */
export function deliveriesOf({ resumeRestored, ...others }: Notifications): Deliveries {
  return { ...others, resume: resumeRestored };
}

/** The calls of the table of receivers. */
export function receiversOf({
  receivers: list,
  receiver: find,
  pause,
  resume,
  test: tries,
}: Notifications): Receivers {
  return { list, find, pause, resume, test: tries };
}
