/** For receivers: a Koa middleware that takes notifications. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, Middleware } from "koa";
import { signingKey } from "../signature.ts";
import { InvalidNotification, readNotification, type ReceivedNotification } from "./read-notification.ts";
import { readBody } from "./request-body.ts";
import { rememberInMemory, type SeenNotifications } from "./seen.ts";
import { verifyNotification } from "./verify-notification.ts";

/** What the service sends in `Authorization: Basic`. */
export interface ReceiverCredentials {
  readonly client_id: string;
  readonly client_secret: string;
}

export interface NotificationReceiverOptions {
  /** The credentials prepared for this receiver; several while they are being replaced. */
  readonly credentials: ReceiverCredentials | readonly ReceiverCredentials[];
  /** Signing secrets, `whsec_` and Base64. Default: none, and then signature and timestamp are not checked. */
  readonly secrets?: readonly string[];
  /**
   * Does what the notification asks for. When it throws or rejects, the answer is 503 and the notification comes
   * again. It may be called twice for one when the process dies in between: what it does must bear that.
   */
  readonly onNotification: (notification: ReceivedNotification) => void | Promise<void>;
  /** Which notifications were handled. Default: {@link rememberInMemory}. */
  readonly seen?: SeenNotifications;
  /** The only path that is answered; others fall through. Default: every path that comes here. */
  readonly path?: string;
  /** Milliseconds since the epoch. Default: the system's clock. */
  readonly now?: () => number;
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Whether a header has one of the credentials: all are compared, in the same time wherever they differ. */
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

function answer(ctx: Context, status: number, error?: string): void {
  ctx.status = status;
  ctx.set("cache-control", "no-store");
  // Something of the body may not have been read.
  if (status >= 400 && status < 500) ctx.set("connection", "close");
  if (status === 405) ctx.set("allow", "POST");
  if (status === 401) ctx.set("www-authenticate", 'Basic realm="notifications", charset="UTF-8"');
  ctx.body = error === undefined ? {} : { error };
}

/** Anything can be thrown, and Koa tells errors alone. */
function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error("what was thrown is no error", { cause: thrown });
}

function refuse(ctx: Context, error: unknown): void {
  if (!(error instanceof InvalidNotification)) throw error;
  answer(ctx, error.reason === "malformed" ? 400 : 401, error.message);
}

/** Handles a notification once, also when it comes again while it is being handled. */
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
    // Not before: what failed must come again.
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
 * Takes notifications as the interface document says ("Notification receiver"): checks the Basic credentials, the
 * signature and its time, the size and the form of the body; calls `onNotification` once for each `webhook-id`; and
 * answers
 *
 * - 200 when the notification was handled, now or before;
 * - 401 for wrong credentials, a wrong signature or a timestamp more than five minutes off;
 * - 400 for what is no notification, or more than 64 KiB;
 * - 405 for another method than POST;
 * - 503 when it could not be handled. The error goes to the application's `error` event.
 *
 * It must come before a body parser, or after one that keeps the text as `ctx.request.rawBody`.
 * @throws TypeError for wrong options.
 */
export function notificationReceiver(options: NotificationReceiverOptions): Middleware {
  const { credentials, secrets = [], path, now = Date.now } = options;
  const all = [credentials].flat() as readonly ReceiverCredentials[];
  const isComplete = all.every(
    ({ client_id, client_secret }) => Boolean(client_id) && Boolean(client_secret),
  );
  if (all.length === 0 || !isComplete) {
    throw new TypeError("credentials: must have a client_id and a client_secret each");
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
      return refuse(ctx, error);
    }
    try {
      await handleOnce(notification);
    } catch (error) {
      ctx.app.emit("error", toError(error), ctx);
      return answer(ctx, 503, "the notification could not be handled");
    }
    answer(ctx, 200);
  }

  return async function receiveNotification(ctx, next) {
    if (path !== undefined && ctx.path !== path) await next();
    else if (ctx.method !== "POST") answer(ctx, 405, "only POST");
    else if (isExpected(ctx.get("authorization"))) await receive(ctx);
    else answer(ctx, 401, "the credentials are not the expected ones");
  };
}
