/** For receivers: a Koa middleware that accepts notifications. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Context, Middleware } from "koa";
import { InvalidArgument } from "../../core/errors.ts";
import { signingKey } from "../signature.ts";
import {
  InvalidNotification,
  readNotification,
  type ReceivedNotification,
  verifyNotification,
} from "./verify-notification.ts";

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

/** A notification has a few hundred bytes. */
const MAX_BODY_BYTES = 64 * 1024;

const tooLarge = (): InvalidNotification => new InvalidNotification("malformed", "the body is over 64 KiB");
const incomplete = (): InvalidNotification => new InvalidNotification("malformed", "the body is incomplete");

function readStream(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= MAX_BODY_BYTES) return;
      // Node discards the rest when it closes the connection after the response.
      request.off("data", take);
      request.pause();
      reject(tooLarge());
    };
    request.on("data", take);
    request.on("end", () => resolve(Buffer.concat(chunks)));
    request.on("close", () => reject(incomplete()));
    request.on("error", () => undefined);
  });
}

/**
 * The body as received, because a signature covers bytes and not what a parser made of them. If a body parser ran
 * before, the text in `rawBody`.
 * @throws InvalidNotification `malformed` when the body is too large or incomplete.
 * @throws TypeError when a body parser consumed it without keeping the text: a mistake in the application.
 */
async function readBody(ctx: Context): Promise<string | Buffer> {
  const { rawBody } = ctx.request as unknown as { readonly rawBody?: unknown };
  if (typeof rawBody === "string") {
    if (Buffer.byteLength(rawBody) > MAX_BODY_BYTES) throw tooLarge();
    return rawBody;
  }
  if (ctx.req.readableEnded || ctx.req.readableDidRead) {
    throw new TypeError(
      "notificationReceiver: must come before a body parser, or after one that keeps rawBody",
    );
  }
  // The sender left while an earlier middleware ran: no more events will come.
  if (ctx.req.destroyed) throw incomplete();
  if (Number(ctx.get("content-length")) > MAX_BODY_BYTES) throw tooLarge();
  return readStream(ctx.req);
}

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

function respond(ctx: Context, status: number, error?: string): void {
  ctx.status = status;
  ctx.set("cache-control", "no-store");
  // Part of the request body may still be unread.
  if (status >= 400 && status < 500) ctx.set("connection", "close");
  if (status === 405) ctx.set("allow", "POST");
  if (status === 401) ctx.set("www-authenticate", 'Basic realm="notifications", charset="UTF-8"');
  ctx.body = error === undefined ? {} : { error };
}

/** Koa's `error` event takes errors only, but anything can be thrown. */
function toError(thrown: unknown): Error {
  return thrown instanceof Error
    ? thrown
    : new Error("a value that is not an error was thrown", { cause: thrown });
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

/**
 * Accepts notifications according to the interface document ("Notification receiver"): checks the Basic credentials,
 * the signature and its timestamp, and the size and form of the body; calls `onNotification` once for each
 * `webhook-id`; and responds with
 *
 * - 200 when the notification was handled, now or before;
 * - 401 for wrong credentials, a wrong signature or a timestamp more than five minutes off;
 * - 400 for a body that is no notification, or larger than 64 KiB;
 * - 405 for methods other than POST;
 * - 503 when the handler failed. The error goes to the application's `error` event.
 *
 * Mount it before any body parser, or after one that keeps the text as `ctx.request.rawBody`.
 * @throws InvalidArgument for wrong options.
 */
export function notificationReceiver(options: NotificationReceiverOptions): Middleware {
  const { credentials, secrets = [], path, now = Date.now } = options;
  const all = [credentials].flat() as readonly ReceiverCredentials[];
  const isComplete = all.every(
    ({ client_id, client_secret }) => Boolean(client_id) && Boolean(client_secret),
  );
  if (all.length === 0 || !isComplete) {
    throw new InvalidArgument({
      path: "credentials",
      message: "must have a client_id and a client_secret each",
    });
  }
  if (all.some(({ client_secret }) => client_secret.length < MIN_SECRET_LENGTH)) {
    throw new InvalidArgument({
      path: "credentials",
      message: `a client_secret must have at least ${MIN_SECRET_LENGTH} characters`,
    });
  }
  for (const secret of secrets) signingKey(secret);
  const isExpected = createCheck(all);
  const handleOnce = createOnce(options);

  async function receive(ctx: Context): Promise<void> {
    let notification: ReceivedNotification;
    try {
      const body = await readBody(ctx);
      const read = secrets.length === 0 ? readNotification : verifyNotification;
      notification = read(ctx.headers, body, secrets, { now });
    } catch (error) {
      if (!(error instanceof InvalidNotification)) throw error;
      return respond(ctx, error.reason === "malformed" ? 400 : 401, error.message);
    }
    try {
      await handleOnce(notification);
    } catch (error) {
      ctx.app.emit("error", toError(error), ctx);
      return respond(ctx, 503, "the notification could not be handled");
    }
    respond(ctx, 200);
  }

  return async function receiveNotification(ctx, next) {
    if (path !== undefined && ctx.path !== path) await next();
    else if (ctx.method !== "POST") respond(ctx, 405, "only POST");
    else if (isExpected(ctx.get("authorization"))) await receive(ctx);
    else respond(ctx, 401, "the credentials are wrong");
  };
}
