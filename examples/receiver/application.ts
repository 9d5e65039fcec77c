/** The demo receiver: prints the notifications it gets. */
import Koa from "koa";
import { notificationReceiver, type ReceivedNotification } from "../../notifier/index.ts";
import type { FaultInjector } from "./faults.ts";

/** An endpoint for notifications. */
export interface Endpoint {
  /** Printed at the start of each line. Default: nothing. */
  readonly name?: string | undefined;
  /** Default: every path. */
  readonly path?: string | undefined;
  readonly client_id: string;
  readonly client_secret: string;
  /** `whsec_` and Base64; two with a space between during a rotation. Without it, signatures are not checked. */
  readonly signing_secret?: string | undefined;
}

interface ReceiverOptions {
  readonly endpoints: readonly Endpoint[];
  /** Default: none. */
  readonly faults?: FaultInjector;
  /** Prints a line. */
  readonly say: (line: string) => void;
}

/** Creates the receiver as a Koa application. */
export function createReceiver({ endpoints, faults, say }: ReceiverOptions): Koa {
  const app = new Koa();
  if (faults !== undefined) app.use(faults.middleware);
  app.use(async function tellRefusals(ctx, next) {
    await next();
    if (ctx.status >= 400) say(`${ctx.status} ${ctx.method} ${ctx.path} ${JSON.stringify(ctx.body ?? "")}`);
  });
  for (const [i, endpoint] of endpoints.entries()) {
    const take = toMiddleware(endpoint, say);
    const behind = endpoints.slice(i + 1).filter(({ path }) => path === endpoint.path);
    app.use((ctx, next) => (behind.some((other) => isFor(other, ctx)) ? next() : take(ctx, next)));
  }
  return app;
}

function toMiddleware(
  { name, path, client_id, client_secret, signing_secret }: Endpoint,
  say: ReceiverOptions["say"],
): Koa.Middleware {
  return notificationReceiver({
    ...(path !== undefined && { path }),
    credentials: { client_id, client_secret },
    secrets: signing_secret?.split(" ") ?? [],
    // A real receiver does its work here, such as deleting the data of the user.
    onNotification: (notification) => say(lineOf(name, notification)),
  });
}

/** Several endpoints can share a path. The credentials say which one a request is for. */
function isFor({ client_id, client_secret }: Endpoint, ctx: Koa.Context): boolean {
  const credentials = Buffer.from(`${client_id}:${client_secret}`).toString("base64");
  return ctx.get("authorization") === `Basic ${credentials}`;
}

function lineOf(name: string | undefined, { id, notification_type, data }: ReceivedNotification): string {
  const { user_email, user_id, services } = data;
  const parts = [notification_type, user_email, `user_id ${user_id}`, `services ${JSON.stringify(services)}`];
  return [...(name === undefined ? [] : [name]), ...parts, `webhook-id ${id}`].join("  ");
}
