/** What a receiver does with a request, whatever framework brings it. */
import { createHash, timingSafeEqual } from "node:crypto";
import { InvalidArgument } from "../core/errors.ts";
import { signingKey } from "./signature.ts";
import {
  headerOf,
  InvalidNotification,
  readNotification,
  type ReceivedNotification,
  type RequestHeaders,
  verifyNotification,
} from "./verify.ts";

/** What the service sends in `Authorization: Basic`. */
export interface ReceiverCredentials {
  readonly client_id: string;
  /** At least 16 characters. */
  readonly client_secret: string;
}

/**
 * Remembers which notifications were handled: delivery is at least once, so some arrive again. In a table of the
 * receiver's own database the ids survive a restart, and several processes share them. Keep them for as long as the
 * service may send again: four days for automatic retries, 90 days for redrives by an operator.
 */
export interface SeenNotifications {
  /** Whether the notification with this `webhook-id` was handled. */
  has(id: string): boolean | Promise<boolean>;
  /** Remembers a notification after it was handled. Adding it twice is no error. */
  add(id: string): void | Promise<void>;
}

export interface NotificationReceiverOptions {
  /** The credentials of this receiver; several during a rotation. */
  readonly credentials: ReceiverCredentials | readonly ReceiverCredentials[];
  /** Signing secrets, `whsec_` and the Base64 of at least 24 bytes. Default: none, and then signature and timestamp are not checked. */
  readonly secrets?: readonly string[];
  /**
   * Handles a notification. When it throws or rejects, the response is 503 and the service sends the notification
   * again. It may run twice for one notification if the process dies in between, so it must be idempotent.
   */
  readonly onNotification: (notification: ReceivedNotification) => void | Promise<void>;
  /** Which notifications were handled. Default: {@link rememberInMemory}. */
  readonly seen?: SeenNotifications;
  /** The only path to answer; requests for others fall through. Default: every path. */
  readonly path?: string;
  /** Called with what the handler threw; the response is 503. Default: the `error` event of Koa, or else `process.emitWarning`. */
  readonly onError?: (error: Error) => void;
  /** Milliseconds since the epoch. Default: the system's clock. */
  readonly now?: () => number;
}

/** Remembers the newest notifications in the memory of one process. @param limit default 100,000, about 15 MB. */
export function rememberInMemory(limit = 100_000): SeenNotifications {
  const ids = new Set<string>();
  return {
    has: (id) => ids.has(id),
    add(id) {
      ids.add(id);
      // A set keeps the order of insertion.
      const [oldest] = ids;
      if (ids.size > limit && oldest !== undefined) ids.delete(oldest);
    },
  };
}

/** Anyone who guesses the secret can send notifications, and only its length makes that hard. */
const MIN_SECRET_LENGTH = 16;

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Checks a header against the credentials. All are compared, in constant time. */
function createCheck(all: readonly ReceiverCredentials[]): (authorization: string) => boolean {
  const expected = all.map(({ client_id, client_secret }) => digest(`${client_id}:${client_secret}`));
  return (authorization) => {
    const [, encoded = ""] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization) ?? [];
    const presented = digest(Buffer.from(encoded, "base64").toString());
    let matches = 0;
    for (const each of expected) matches |= Number(timingSafeEqual(each, presented));
    return matches === 1;
  };
}

/**
 * Handles each notification once, even if it arrives again in the meantime: concurrent requests with one id share one
 * call of the handler, as `notificationReceiver` promises.
 */
function createOnce({
  onNotification,
  seen = rememberInMemory(),
}: Pick<NotificationReceiverOptions, "onNotification" | "seen">): (
  notification: ReceivedNotification,
) => Promise<void> {
  const running = new Map<string, Promise<void>>();
  const handle = async (notification: ReceivedNotification): Promise<void> => {
    if (await seen.has(notification.id)) return;
    await onNotification(notification);
    // Only now: a notification whose handler failed must be accepted again.
    await seen.add(notification.id);
  };
  return (notification) => {
    const { id } = notification;
    const known = running.get(id);
    if (known !== undefined) return known;
    const started = handle(notification).finally(() => running.delete(id));
    running.set(id, started);
    return started;
  };
}

/** The parts of a request that the receiver reads. */
export interface Incoming {
  readonly method: string;
  readonly path: string;
  readonly headers: RequestHeaders;
  /** @throws InvalidNotification `malformed` when the body is too large or incomplete. */
  readonly body: () => Promise<string | Uint8Array>;
}

/** A response. Its body is JSON. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error?: string };
}

function answer(status: number, error?: string): Answer {
  return {
    status,
    headers: {
      "cache-control": "no-store",
      // Part of the body of the request may still be unread.
      ...(status >= 400 && status < 500 && { connection: "close" }),
      ...(status === 405 && { allow: "POST" }),
      ...(status === 401 && { "www-authenticate": 'Basic realm="notifications", charset="UTF-8"' }),
    },
    body: error === undefined ? {} : { error },
  };
}

/** Anything can be thrown. */
function toError(thrown: unknown): Error {
  return thrown instanceof Error
    ? thrown
    : new Error("a value that is not an error was thrown", { cause: thrown });
}

/** @throws InvalidArgument for credentials that are missing or short. */
function checkCredentials(all: readonly ReceiverCredentials[]): void {
  const isComplete = all.every(
    ({ client_id, client_secret }) => Boolean(client_id) && Boolean(client_secret),
  );
  if (all.length === 0 || !isComplete)
    throw new InvalidArgument({
      path: "credentials",
      message: "must have a client_id and a client_secret each",
    });
  if (all.some(({ client_secret }) => client_secret.length < MIN_SECRET_LENGTH))
    throw new InvalidArgument({
      path: "credentials",
      message: `a client_secret must have at least ${MIN_SECRET_LENGTH} characters`,
    });
}

/** Answers a request, or returns `undefined` if it is for another path. */
export type Receive = (request: Incoming, onError: (error: Error) => void) => Promise<Answer | undefined>;

/**
 * Checks the Basic credentials, the signature and its timestamp, and the form of the body; calls `onNotification` once for each
 * `webhook-id`.
 * @throws InvalidArgument for wrong options.
 */
export function createReceive(options: NotificationReceiverOptions): Receive {
  const { credentials, secrets = [], path, now = Date.now } = options;
  const all = [credentials].flat() as readonly ReceiverCredentials[];
  checkCredentials(all);
  for (const secret of secrets) signingKey(secret);
  const isExpected = createCheck(all);
  const handleOnce = createOnce(options);
  const read = secrets.length === 0 ? readNotification : verifyNotification;

  return async (request, onError) => {
    if (path !== undefined && request.path !== path) return undefined;
    if (request.method !== "POST") return answer(405, "only POST");
    if (!isExpected(headerOf(request.headers, "authorization") ?? ""))
      return answer(401, "the credentials are wrong");
    let notification: ReceivedNotification;
    try {
      notification = read(request.headers, await request.body(), secrets, { now });
    } catch (error) {
      if (!(error instanceof InvalidNotification)) throw error;
      return answer(error.reason === "malformed" ? 400 : 401, error.message);
    }
    try {
      await handleOnce(notification);
    } catch (error) {
      (options.onError ?? onError)(toError(error));
      return answer(503, "the notification could not be handled");
    }
    return answer(200);
  };
}
