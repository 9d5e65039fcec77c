import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, jest } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { createSignInService } from "../../../lib/service.ts";
import { NOTIFICATION_TYPES } from "../../../notifier/plan.ts";
import { newFolder, type Running, start } from "../../examples/processes.ts";
import { openInbox } from "../../flows/inbox.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";

jest.setTimeout(120_000);

let redis: OwnRedis;
beforeAll(async () => {
  redis = await openOwnRedis();
});
afterAll(() => redis.close());

async function beginWorker(config: SignInServiceConfig): Promise<Running> {
  const running = start("test/notifier/bullmq/worker-process.ts", { args: [JSON.stringify(config)] });
  await running.until(/^works$/mu);
  return running;
}

it("a worker process that is killed loses its lease, and what it sent goes again with the same webhook-id [D-NOTIFY-10]", async () => {
  const folder = newFolder();
  const inbox = await openInbox();
  const config: SignInServiceConfig = {
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    queue: redis.url,
    notifications: {
      allowedReceivers: ["127.0.0.1"],
      timeouts: { connect: 1, total: 1 },
      worker: false,
    },
  };
  const service = await createSignInService({ ...config, logger: pino({ level: "silent" }) });
  let worker = await beginWorker(config);
  try {
    const receiver = { client_id: "service", client_secret: "a secret", types: NOTIFICATION_TYPES };
    await service.directory.services.put("1", { name: "1", receiver: { ...receiver, url: inbox.url("/a") } });
    const { sub } = await service.accounts.import({ email: "ada@example.com", services: { "1": 5 } });
    let killed: Promise<number | string> | undefined;
    inbox.react = () => {
      if (killed !== undefined) return 200;
      killed = worker.stop("SIGKILL");
      return () => undefined;
    };
    await service.accounts.update(sub, { name: "Ada" });
    await inbox.until((arrived) => arrived.length === 1);
    await expect(killed).resolves.toBe("SIGKILL");
    worker = await beginWorker(config);
    await service.accounts.update(sub, { name: "Lovelace" });
    await inbox.until((arrived) => arrived.length === 3);
    const sent = await service.notifications.list();
    const ids = sent.map(({ id }) => id);
    expect(ids).toHaveLength(2);
    expect(inbox.arrived.map(({ id }) => id)).toEqual([ids[0], ids[0], ids[1]]);
    await expect(worker.stop()).resolves.toBe(0);
    await expect(service.notifications.list({ state: "delivered" })).resolves.toHaveLength(2);
  } finally {
    await worker.stop("SIGKILL");
    await service.close();
    await inbox.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

it("a service over a Redis that is not there does not start, and says why", async () => {
  const starting = createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: "sqlite::memory:",
    queue: "redis://127.0.0.1:1",
    logger: pino({ level: "silent" }),
  });
  await expect(starting).rejects.toMatchObject({
    code: "storage_unavailable",
    message: "the Redis of config.queue can't be used (ECONNREFUSED)",
  });
});
