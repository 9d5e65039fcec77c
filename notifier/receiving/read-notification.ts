/** What comes in at a receiver, checked against the documented form. */
import { z } from "zod";
import { SignInError } from "../../lib/errors.ts";
import { NOTIFICATION_TYPES, type NotificationBody } from "../plan.ts";

/** A notification with what tells it from others. */
export interface ReceivedNotification extends NotificationBody {
  /** `webhook-id`: the same when the notification is sent again. */
  readonly id: string;
}

/** Headers of a request, in the forms in which Node, Koa and `fetch` have them; names in lower case. */
export type RequestHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * A request is not a notification that may be believed. `reason`: `malformed` (a header or the body is missing or
 * not in the documented form), `timestamp` (more than five minutes off), `signature` (none fits). The message holds
 * nothing of the request.
 */
export class InvalidNotification extends SignInError {
  readonly reason: "malformed" | "timestamp" | "signature";

  constructor(reason: InvalidNotification["reason"], message: string, options?: ErrorOptions) {
    super("invalid_notification", message, options);
    this.reason = reason;
  }
}

/** Not `z.record`, which leaves out a key such as `__proto__`. */
const services = z.custom<NotificationBody["data"]["services"]>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((id) => id === null || Number.isSafeInteger(id)),
);

/** Members that are not documented are left out, so that a later version may add some. */
const body: z.ZodType<NotificationBody> = z.object({
  notification_type: z.enum(NOTIFICATION_TYPES),
  data: z.object({
    user_id: z.int(),
    user_uuid: z.guid(),
    user_email: z.string(),
    timestamp: z.int(),
    services,
  }),
});

/** The value of a header; `undefined` when it is missing, or came more than once. */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const value = headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];
  return typeof value === "string" ? value : undefined;
}

/** @throws InvalidNotification `malformed` */
export function idOf(headers: RequestHeaders): string {
  const id = headerOf(headers, "webhook-id") ?? "";
  // No dot: it separates what is signed.
  if (/^[\w-]{1,256}$/.test(id)) return id;
  throw new InvalidNotification("malformed", "webhook-id is missing or malformed");
}

function parseJson(bytes: string | Uint8Array): unknown {
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return JSON.parse(text);
  } catch {
    // The error of the parser repeats what it has read.
    throw new InvalidNotification("malformed", "the body is not JSON");
  }
}

/**
 * The notification in a body, with nothing but the form checked.
 * @throws InvalidNotification `malformed`
 */
export function readNotification(headers: RequestHeaders, bytes: string | Uint8Array): ReceivedNotification {
  const id = idOf(headers);
  const { success, data, error } = body.safeParse(parseJson(bytes));
  if (success) return { id, ...data };
  const [member = "the body"] = error.issues.map(({ path }) => path.slice(0, 2).join("."));
  throw new InvalidNotification("malformed", `the body is not a notification: ${member || "no object"}`);
}
