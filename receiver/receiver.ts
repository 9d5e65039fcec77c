/** The receiver for each kind of framework: a Koa middleware, a listener for Node.js and Express, a handler of Web requests. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createReceive, type NotificationReceiverOptions } from "./receive.ts";
import { InvalidNotification } from "./verify.ts";

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
 * The body as received, because a signature covers bytes and not what a parser made of them.
 * @param rawBody what a body parser that ran before has kept.
 * @throws TypeError when a body parser consumed the body and kept nothing: a mistake in the application.
 */
async function bodyOf(request: IncomingMessage, rawBody: unknown): Promise<string | Uint8Array> {
  if (typeof rawBody === "string" || rawBody instanceof Uint8Array) {
    if (Buffer.byteLength(rawBody) > MAX_BODY_BYTES) throw tooLarge();
    return rawBody;
  }
  if (request.readableEnded || request.readableDidRead)
    throw new TypeError("the receiver must come before a body parser, or after one that keeps rawBody");
  // The sender left while an earlier middleware ran: no more events will come.
  if (request.destroyed) throw incomplete();
  if (Number(request.headers["content-length"]) > MAX_BODY_BYTES) throw tooLarge();
  return readStream(request);
}

/** The same for a Web `Request`. */
async function webBodyOf(request: Request): Promise<Uint8Array> {
  if (request.bodyUsed) throw new TypeError("the receiver must come before whatever reads the body");
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of request.body ?? []) {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) break;
      chunks.push(chunk);
    }
  } catch {
    throw incomplete();
  }
  if (size > MAX_BODY_BYTES) throw tooLarge();
  return Buffer.concat(chunks);
}

/** The parts of a Koa context that the receiver uses. */
interface KoaContext {
  readonly req: IncomingMessage;
  readonly request: object;
  readonly app: { emit(event: "error", ...args: readonly unknown[]): unknown };
  readonly method: string;
  readonly path: string;
  status: number;
  body: unknown;
  set(headers: { [name: string]: string }): void;
}

/**
 * A middleware of Koa that accepts notifications according to the interface document ("Notification receiver"): it checks the
 * Basic credentials, the signature and its timestamp, and the size and form of the body; calls `onNotification` once for each
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
export function notificationReceiver(
  options: NotificationReceiverOptions,
): (ctx: KoaContext, next: () => Promise<unknown>) => Promise<void> {
  const receive = createReceive(options);
  return async function receiveNotification(ctx, next) {
    const { rawBody } = ctx.request as { readonly rawBody?: unknown };
    const { method, path, req } = ctx;
    const answer = await receive(
      { method, path, headers: req.headers, body: () => bodyOf(req, rawBody) },
      (error) => ctx.app.emit("error", error, ctx),
    );
    if (answer === undefined) {
      await next();
      return;
    }
    ctx.status = answer.status;
    ctx.set({ ...answer.headers });
    ctx.body = answer.body;
  };
}

/** Node prints it to standard error, with its stack. */
const warn = (error: Error): void => process.emitWarning(error);

/** A request of Node.js or Express: there, `originalUrl` has the whole path. A body parser may have kept the bytes as `rawBody`. */
type NodeRequest = IncomingMessage & { readonly originalUrl?: string; readonly rawBody?: unknown };

/**
 * The same for `http.createServer` and for Express (`app.use(notificationListener(…))`, before any body parser).
 * Requests for another path go to `next`, or get 404 without one.
 * @throws InvalidArgument for wrong options.
 */
export function notificationListener(
  options: NotificationReceiverOptions,
): (request: NodeRequest, response: ServerResponse, next?: (error?: unknown) => void) => void {
  const receive = createReceive(options);

  async function respond(
    request: NodeRequest,
    response: ServerResponse,
    next?: (error?: unknown) => void,
  ): Promise<void> {
    const { method = "", originalUrl, url = "/", headers, rawBody } = request;
    const [path = "/"] = (originalUrl ?? url).split("?", 1);
    const body = () => bodyOf(request, rawBody);
    try {
      const answer = await receive({ method, path, headers, body }, warn);
      if (answer !== undefined)
        response
          .writeHead(answer.status, { ...answer.headers, "content-type": "application/json" })
          .end(JSON.stringify(answer.body));
      else if (next !== undefined) next();
      else response.writeHead(404).end();
    } catch (error) {
      if (next !== undefined) next(error);
      else {
        warn(error as Error);
        response.writeHead(500).end();
      }
    }
  }

  return (request, response, next) => void respond(request, response, next);
}

/**
 * The same for Web requests, such as in route handlers of Next.js, Hono and Deno. Requests for another path get 404.
 * @throws InvalidArgument for wrong options.
 */
export function notificationHandler(
  options: NotificationReceiverOptions,
): (request: Request) => Promise<Response> {
  const receive = createReceive(options);
  return async (request) => {
    const { method, url } = request;
    const { pathname: path } = new URL(url);
    const answer = await receive(
      { method, path, headers: request.headers, body: () => webBodyOf(request) },
      warn,
    );
    if (answer === undefined) return new Response(null, { status: 404 });
    const headers = new Headers(answer.headers);
    // The connection is the runtime's.
    headers.delete("connection");
    return Response.json(answer.body, { status: answer.status, headers });
  };
}
