/** Body parsers that a host application may have in front of the service. */
import type { IncomingMessage } from "node:http";
import type Koa from "koa";

/** The whole body. */
export async function readAll(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** A parser of another make: members and the text, on the Koa request. */
export const textAndMembers: Koa.Middleware = async (ctx, next) => {
  const text = await readAll(ctx.req);
  Object.assign(ctx.request, { rawBody: text, body: membersOf(text) });
  await next();
};

/** Members; a name that comes twice is a list. */
function membersOf(text: string): object {
  const fields = new URLSearchParams(text);
  const lists = Object.groupBy(fields, ([name]) => name);
  const entries = Object.entries(lists).map(([name, pairs = []]) => {
    const values = pairs.map(([, value]) => value);
    return [name, values.length === 1 ? values[0] : values];
  });
  return Object.fromEntries(entries) as object;
}

/** A parser of another make: members without the text. */
export const membersOnly: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.request, { body: membersOf(await readAll(ctx.req)) });
  await next();
};

/** A parser in front of Koa itself, as Express has them. */
export const beforeKoa: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.req, { body: membersOf(await readAll(ctx.req)) });
  await next();
};

/** One that keeps the text in place of the members. */
export const textOnly: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.request, { body: await readAll(ctx.req) });
  await next();
};
