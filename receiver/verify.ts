/** For receivers: reads a notification from a request, and verifies that it comes from the service. */
import { InvalidArgument, SignInError } from "../core/errors.ts";
import { type NotificationBody, readBody } from "./notification.ts";
import { isSigned, signingKey } from "./signature.ts";

/** A notification with the id that distinguishes it from others. */
export interface ReceivedNotification extends NotificationBody {
  /** `webhook-id`: the same when the notification is sent again. */
  readonly id: string;
}

/** Request headers in the form of Node, Koa or `fetch`; names in lower case. */
export type RequestHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The request is not a notification to trust. `reason`: `malformed` (a header or the body is missing or not in the
 * documented form), `timestamp` (more than five minutes off), `signature` (none matches). The message contains no part
 * of the request.
 */
export class InvalidNotification extends SignInError {
  readonly reason: "malformed" | "timestamp" | "signature";

  constructor(reason: InvalidNotification["reason"], message: string, options?: ErrorOptions) {
    super("invalid_notification", message, options);
    this.reason = reason;
  }
}

/** The value of a header; `undefined` when it is missing or repeated. */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const value = headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];
  return typeof value === "string" ? value : undefined;
}

function idOf(headers: RequestHeaders): string {
  const id = headerOf(headers, "webhook-id") ?? "";
  // No dot: the signed text uses it as the separator.
  if (/^[\w-]{1,256}$/.test(id)) return id;
  throw new InvalidNotification("malformed", "webhook-id is missing or malformed");
}

function parseJson(bytes: string | Uint8Array): unknown {
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return JSON.parse(text);
  } catch {
    // No cause: the parser's error quotes the body.
    throw new InvalidNotification("malformed", "the body is not JSON");
  }
}

/**
 * Reads a notification and checks only its form.
 * @throws InvalidNotification `malformed`
 */
export function readNotification(headers: RequestHeaders, bytes: string | Uint8Array): ReceivedNotification {
  const id = idOf(headers);
  const body = readBody(parseJson(bytes));
  if (typeof body !== "string") return { id, ...body };
  throw new InvalidNotification("malformed", `the body is not a notification: ${body}`);
}

/** How far a timestamp may be from now, in either direction. */
const TOLERANCE_SECONDS = 300;

export interface VerifyOptions {
  /** Milliseconds since the epoch. Default: the system's clock. */
  readonly now?: () => number;
}

/**
 * Checks `webhook-signature` and `webhook-timestamp` according to Standard Webhooks 1.0, then the form of the body.
 *
 * @param headers of the request, names in lower case.
 * @param body the bytes as received, or their text: not parsed and serialized again.
 * @param secrets the receiver's signing secrets, `whsec_` and the Base64 of at least 24 bytes; several during a rotation.
 * @throws InvalidNotification
 * @throws InvalidArgument without a secret, or for a malformed one.
 */
export function verifyNotification(
  headers: RequestHeaders,
  body: string | Uint8Array,
  secrets: readonly string[],
  { now = Date.now }: VerifyOptions = {},
): ReceivedNotification {
  if (secrets.length === 0) throw new InvalidArgument({ path: "secrets", message: "must name at least one" });
  const id = idOf(headers);
  const sent = headerOf(headers, "webhook-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(sent)) {
    throw new InvalidNotification("malformed", "webhook-timestamp is missing or malformed");
  }
  const timestamp = Number(sent);
  if (Math.abs(Math.floor(now() / 1000) - timestamp) > TOLERANCE_SECONDS) {
    throw new InvalidNotification("timestamp", "webhook-timestamp is too far from now");
  }
  const header = headerOf(headers, "webhook-signature") ?? "";
  if (!isSigned(header, secrets.map(signingKey), { id, timestamp, body })) {
    throw new InvalidNotification("signature", "webhook-signature contains no valid signature");
  }
  return readNotification(headers, body);
}
