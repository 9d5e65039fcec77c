/** A receiver of notifications that prints what arrives. */
import Koa from "koa";
import { notificationReceiver, type ReceivedNotification } from "../../notifier/index.ts";
import type { TroubleMaker } from "./trouble.ts";

/** One address that takes notifications. */
export interface Endpoint {
  /** Said in front of each line; default: nothing. */
  readonly name?: string | undefined;
  /** Default: every path. */
  readonly path?: string | undefined;
  readonly client_id: string;
  readonly client_secret: string;
  /** `whsec_` and Base64; during a rotation two with a space between. Without one signatures are not checked. */
  readonly signing_secret?: string | undefined;
}

export interface ReceiverOptions {
  readonly endpoints: readonly Endpoint[];
  /** Default: none. */
  readonly trouble?: TroubleMaker;
  /** Gets each line. */
  readonly say: (line: string) => void;
}

/** Takes notifications at each endpoint. */
export function createReceiver({ endpoints, trouble, say }: ReceiverOptions): Koa {
  const app = new Koa();
  if (trouble !== undefined) app.use(trouble.middleware);
  app.use(async function tellRefusals(ctx, next) {
    await next();
    if (ctx.status >= 400) say(`${ctx.status} ${ctx.method} ${ctx.path} ${JSON.stringify(ctx.body ?? "")}`);
  });
  for (const { name, path, client_id, client_secret, signing_secret } of endpoints) {
    app.use(
      notificationReceiver({
        ...(path !== undefined && { path }),
        credentials: { client_id, client_secret },
        secrets: signing_secret?.split(" ") ?? [],
        // A real one does its work here, such as deleting what it keeps of the person.
        onNotification: (notification) => say(lineOf(name, notification)),
      }),
    );
  }
  return app;
}

function lineOf(name: string | undefined, { id, notification_type, data }: ReceivedNotification): string {
  const { user_email, user_id, services } = data;
  const parts = [notification_type, user_email, `user_id ${user_id}`, `services ${JSON.stringify(services)}`];
  return [...(name === undefined ? [] : [name]), ...parts, `webhook-id ${id}`].join("  ");
}
