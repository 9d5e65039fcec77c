/** The bytes of a request as they came in: a signature is over bytes, not over what a parser made of them. */
import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import { InvalidNotification } from "./read-notification.ts";

/** Bytes of a body; a notification has a few hundred. */
const LIMIT = 64 * 1024;

const tooLarge = (): InvalidNotification => new InvalidNotification("malformed", "the body is over 64 KiB");
const incomplete = (): InvalidNotification => new InvalidNotification("malformed", "the body is incomplete");

function readStream(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= LIMIT) return;
      // The rest is left to Node, which throws it away with the connection after the answer.
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
 * The body; what a parser in front has read is taken from `rawBody`, where it keeps the text.
 * @throws InvalidNotification `malformed` when it is too large or incomplete.
 * @throws TypeError when a parser in front has read it and kept nothing: a fault of the application.
 */
export async function readBody(ctx: Context): Promise<string | Buffer> {
  const { rawBody } = ctx.request as unknown as { readonly rawBody?: unknown };
  if (typeof rawBody === "string") {
    if (Buffer.byteLength(rawBody) > LIMIT) throw tooLarge();
    return rawBody;
  }
  if (ctx.req.readableEnded || ctx.req.readableDidRead) {
    throw new TypeError(
      "notificationReceiver: must come before a body parser, or after one that keeps rawBody",
    );
  }
  // Whoever sent it left while something in front was at it: no event would come any more.
  if (ctx.req.destroyed) throw incomplete();
  if (Number(ctx.get("content-length")) > LIMIT) throw tooLarge();
  return readStream(ctx.req);
}
