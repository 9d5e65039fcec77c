/** What a receiver sees after a crash of the database: the end of a lane again, in order, with the same ids. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeAll, expect, it } from "@jest/globals";
import Koa from "koa";
import { Client } from "pg";
import { createLogger } from "../../core/logger.ts";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { createSignInService } from "../../lib/service.ts";
import { notificationReceiver } from "../../notifier/index.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

let postgres: OwnPostgres;

beforeAll(async () => {
  postgres = closing(await openOwnPostgres());
}, 30_000);

/** Marks of success are written to disk by the log writer alone, as late as PostgreSQL allows. */
async function delayLogWriter(storage: string): Promise<void> {
  const client = new Client({ connectionString: storage });
  await client.connect();
  await client.query("ALTER SYSTEM SET wal_writer_delay = '10s'");
  await client.query("SELECT pg_reload_conf()");
  await client.end();
}

it("a receiver with notificationReceiver does not go back to old data when a crash repeats the end of a lane [D-NOTIFY-19]", async () => {
  const storage = await postgres.newDatabase();
  await delayLogWriter(storage);
  /** Each request in the order of arrival, and what was handled. */
  const arrived: string[] = [];
  const handled: string[] = [];
  let known = "";
  const credentials = { client_id: "news", client_secret: "a secret of news" };
  const app = new Koa();
  app.use(async (ctx, next) => {
    arrived.push(ctx.get("webhook-id"));
    await next();
  });
  app.use(
    notificationReceiver({
      credentials,
      onNotification({ id, data }) {
        handled.push(id);
        known = data.user_email;
      },
    }),
  );
  const handle = app.callback();
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;

  const service = await createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage,
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
    logger: createLogger({ level: "silent" }),
    // What was claimed at the crash is sent when its lease ends, 15 seconds after the time-out.
    notifications: { allowedReceivers: ["127.0.0.1"], poll: 0.05, timeouts: { connect: 1, total: 1 } },
  });
  try {
    const receiver = { url, ...credentials, types: NOTIFICATION_TYPES };
    await service.directory.services.put("1", { name: "News", receiver });
    const { sub } = await service.accounts.import({ email: "a0@example.com", services: { "1": 1 } });
    // Held until all are stored, so that nothing durable is written after the marks.
    await service.notifications.pause("service:1");
    for (const number of [1, 2, 3]) await service.accounts.update(sub, { email: `a${number}@example.com` });
    const ids = (await storedDeliveries(service.notifications, { account: sub })).map(({ id }) => id);
    const delivered = new Promise<void>((resolve) =>
      service.events.on("delivery.succeeded", ({ id }) => void (id === ids.at(-1) && resolve())),
    );
    await service.notifications.resume("service:1");
    await delivered;
    expect(arrived).toEqual(ids);
    await postgres.kill();
    const again = new Promise<void>((resolve) =>
      service.events.on("delivery.succeeded", ({ id }) => void (id === ids.at(-1) && resolve())),
    );
    await postgres.start();
    await again;

    const repeated = arrived.slice(ids.length);
    expect(repeated.length).toBeGreaterThan(0);
    expect(repeated).toEqual(ids.slice(-repeated.length));
    expect(handled).toEqual(ids);
    expect(known).toBe("a3@example.com");
    expect(await storedDeliveries(service.notifications, { state: "waiting" })).toEqual([]);
  } finally {
    await service.close();
    server.closeAllConnections();
    server.close();
  }
}, 90_000);
