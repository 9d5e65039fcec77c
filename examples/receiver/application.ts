/** A receiver of notifications that prints what arrives. */
import Koa from "koa";
import { notificationReceiver } from "../../notifier/index.ts";
import { makeTrouble, type Trouble } from "./trouble.ts";

export interface ReceiverOptions {
  readonly client_id: string;
  readonly client_secret: string;
  /** `whsec_` and Base64; without one signatures are not checked. */
  readonly signing_secret?: string | undefined;
  /** Default: none. */
  readonly trouble?: Trouble;
  /** Gets each line. */
  readonly say: (line: string) => void;
}

/** Takes notifications at every path. */
export function createReceiver({
  client_id,
  client_secret,
  signing_secret,
  trouble,
  say,
}: ReceiverOptions): Koa {
  const app = new Koa();
  app.use(async function tellRefusals(ctx, next) {
    await next();
    if (ctx.status >= 400 && ctx.respond !== false) say(`${ctx.status} ${JSON.stringify(ctx.body)}`);
  });
  if (trouble !== undefined) app.use(makeTrouble(trouble, say));
  app.use(
    notificationReceiver({
      credentials: { client_id, client_secret },
      secrets: signing_secret === undefined ? [] : [signing_secret],
      // A real one does its work here, such as deleting what it keeps of the person.
      onNotification: ({ id, notification_type, data }) =>
        say(`${notification_type} ${id} ${JSON.stringify(data)}`),
    }),
  );
  return app;
}
