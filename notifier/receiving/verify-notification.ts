/** For receivers: whether a notification comes from the service, whole and recent. */
import { isSigned } from "../signature.ts";
import {
  headerOf,
  idOf,
  InvalidNotification,
  readNotification,
  type ReceivedNotification,
  type RequestHeaders,
} from "./read-notification.ts";

/** Seconds by which a timestamp may differ from now, both ways. */
const TOLERANCE = 300;

export interface VerifyOptions {
  /** Milliseconds since the epoch. Default: the system's clock. */
  readonly now?: () => number;
}

/**
 * Checks `webhook-signature` and `webhook-timestamp` as Standard Webhooks 1.0 says, then the form of the body.
 *
 * @param headers of the request, names in lower case.
 * @param body the bytes as they came in, or their text: not parsed and written again.
 * @param secrets the receiver's signing secrets, `whsec_` and Base64; several while one is being replaced.
 * @throws InvalidNotification
 * @throws TypeError without a secret, or for one of another form.
 */
export function verifyNotification(
  headers: RequestHeaders,
  body: string | Uint8Array,
  secrets: readonly string[],
  { now = Date.now }: VerifyOptions = {},
): ReceivedNotification {
  if (secrets.length === 0) throw new TypeError("secrets: must name at least one");
  const id = idOf(headers);
  const sent = headerOf(headers, "webhook-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(sent)) {
    throw new InvalidNotification("malformed", "webhook-timestamp is missing or malformed");
  }
  const timestamp = Number(sent);
  if (Math.abs(Math.floor(now() / 1000) - timestamp) > TOLERANCE) {
    throw new InvalidNotification("timestamp", "webhook-timestamp is too far from now");
  }
  const header = headerOf(headers, "webhook-signature") ?? "";
  if (!isSigned(header, secrets, { id, timestamp, body })) {
    throw new InvalidNotification("signature", "webhook-signature has no signature that fits");
  }
  return readNotification(headers, body);
}
