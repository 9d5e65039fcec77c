/** An app and workers as separate processes with one Redis, and what happens when some of them are killed or stopped. */
import { rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { createSignInService, type SignInService } from "../../../lib/service.ts";
import { NOTIFICATION_TYPES } from "../../../receiver/notification.ts";
import { freePorts, newFolder, type Running, start } from "../../examples/processes.ts";
import { type Inbox, openInbox } from "../../flows/inbox.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { newRedisTls } from "../../servers/redis-tls.ts";
import { standStill } from "../../servers/stand-still.ts";
import { until, wakeUps } from "./stage.ts";
import { closing } from "../../closing.ts";
import { storedDeliveries } from "../stored-deliveries.ts";

jest.setTimeout(120_000);

const SECRET = "a-secret-that-is-nowhere";
/** Milliseconds of a lease: the time of an attempt, and 15 seconds. */
const LEASE = 16_000;
const folder = newFolder();
const running: Running[] = [];
let redis: OwnRedis;
let inbox: Inbox;
let config: SignInServiceConfig & { readonly storage: string };
let service: SignInService;

beforeEach(async () => {
  redis = closing(await openOwnRedis());
  inbox = closing(await openInbox());
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((worker) => worker.stop("SIGKILL")));
  redis.resume();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens an app that leaves deliveries to workers. */
async function openApp(perReceiver = 10, queue = redis.url): Promise<void> {
  config = {
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: `sqlite:${join(newFolder(), "sign-in.db")}`,
    queue,
    notifications: {
      allowedReceivers: ["127.0.0.1"],
      timeouts: { connect: 1, total: 1 },
      concurrency: { perReceiver },
      worker: false,
    },
  };
  service = closing(await createSignInService({ ...config, logger: pino({ level: "silent" }) }));
  for (const key of ["1", "2"]) {
    const receiver = {
      url: inbox.url(`/${key}`),
      client_id: "c",
      client_secret: "s",
      types: NOTIFICATION_TYPES,
    };
    await service.directory.services.put(key, { name: key, receiver });
  }
}

function account(name: string, key = "1"): Promise<string> {
  return service.accounts
    .import({ email: `${name}@example.com`, services: { [key]: 1 } })
    .then(({ sub }) => sub);
}

/** @param ahead milliseconds by which its clock is ahead. */
async function startWorker(env: Readonly<Record<string, string>> = {}, ahead = 0): Promise<Running> {
  const args = [JSON.stringify(config), String(ahead)];
  const worker = start("test/notifier/worker-process.ts", { args, env });
  running.push(worker);
  await worker.until(/^ready$/mu);
  return worker;
}

/** Pauses the workers outside transactions: a paused writer would lock SQLite for all processes. */
function pauseOutsideTransactions(workers: readonly Running[]): void {
  const file = new DatabaseSync(config.storage.replace("sqlite:", ""), { timeout: 0 });
  for (let isFree = false; !isFree;) {
    for (const { pid } of workers) standStill(pid);
    try {
      file.exec("BEGIN IMMEDIATE; ROLLBACK");
      isFree = true;
    } catch {
      for (const { pid } of workers) process.kill(pid, "SIGCONT");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
  file.close();
}

const delivered = (count: number): Promise<void> =>
  until(async () => (await storedDeliveries(service.notifications, { state: "delivered" })).length === count);

const idsOf = async (sub: string): Promise<string[]> =>
  (await storedDeliveries(service.notifications, { account: sub })).map(({ id }) => id);

describe("a worker process", () => {
  it("that is killed loses its lease, and its delivery is sent again with the same webhook-id [D-NOTIFY-10]", async () => {
    await openApp();
    const sub = await account("ada");
    const first = await startWorker();
    inbox.react = () => () => undefined;
    await service.accounts.update(sub, { name: "Ada" });
    await inbox.until((arrived) => arrived.length === 1);
    await expect(first.stop("SIGKILL")).resolves.toBe("SIGKILL");
    inbox.react = () => 200;
    const second = await startWorker({}, LEASE);
    await service.accounts.update(sub, { name: "Lovelace" });
    await delivered(2);
    const [id, next] = await idsOf(sub);
    expect(inbox.arrived.map((post) => post.id)).toEqual([id, id, next]);
    await expect(second.stop()).resolves.toBe(0);
  });

  it("that stands still loses its lease: its delivery is sent again after the lease, and once [D-NOTIFY-10]", async () => {
    await openApp();
    const sub = await account("ada");
    const workers = [await startWorker(), await startWorker()];
    const answers: ServerResponse[] = [];
    const times: number[] = [];
    inbox.react = () => (response) => {
      times.push(performance.now());
      answers.push(response);
      // Either of them may have sent it.
      if (answers.length === 1) pauseOutsideTransactions(workers);
      else response.writeHead(200).end();
    };
    await service.accounts.update(sub, { name: "Ada" });
    await inbox.until((arrived) => arrived.length === 1);
    await startWorker();
    await delivered(1);
    for (const { pid } of workers) process.kill(pid, "SIGCONT");
    answers[0]?.writeHead(200).end();
    await service.accounts.update(sub, { name: "Lovelace" });
    await delivered(2);
    const [id, next] = await idsOf(sub);
    expect(inbox.arrived.map((post) => post.id)).toEqual([id, id, next]);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(LEASE - 1_000);
    await expect(service.notifications.find(id ?? "")).resolves.toMatchObject({ attempts: 1 });
    for (const worker of running) await expect(worker.stop()).resolves.toBe(0);
  });

  it("that is killed leaves its wake-ups to other workers, long before its leases end", async () => {
    await openApp(1);
    const subs = [await account("a"), await account("b"), await account("c")];
    // Two workers with one attempt each have no slot for the third.
    const workers = [await startWorker(), await startWorker()];
    inbox.react = () => () => undefined;
    for (const sub of subs) await service.accounts.update(sub, { name: "Ada" });
    await inbox.until((arrived) => arrived.length === 2);
    const taken = inbox.arrived.map(({ id }) => id);
    await Promise.all(workers.map((worker) => worker.stop("SIGKILL")));
    inbox.react = () => 200;
    await startWorker();
    await inbox.until((arrived) => arrived.length === 3);
    // For this one the leases are over.
    await startWorker({}, LEASE);
    await delivered(3);
    const third = (await storedDeliveries(service.notifications))
      .map(({ id }) => id)
      .find((id) => !taken.includes(id));
    const ids = inbox.arrived.map(({ id }) => id);
    expect(ids.slice(0, 3)).toEqual([...taken, third]);
    expect(ids.slice(3).toSorted()).toEqual(taken.toSorted());
  });

  it("has at most two wake-ups of a dead receiver in Redis with three other workers, and serves the other receiver", async () => {
    await openApp(3);
    const dead = await Promise.all(Array.from({ length: 60 }, (_, index) => account(`d${index}`)));
    const living = await Promise.all(Array.from({ length: 20 }, (_, index) => account(`l${index}`, "2")));
    // It never responds; time-outs let the next deliveries start.
    inbox.react = ({ path }) => (path === "/2" ? 200 : () => undefined);
    await Promise.all(Array.from({ length: 4 }, () => startWorker()));
    let most = 0;
    const watching = new AbortController();
    const watch = until(async () => {
      const held = await wakeUps(redis.client);
      most = Math.max(most, held.filter((data) => data.includes("service:1")).length);
      return watching.signal.aborted;
    });
    await Promise.all(dead.map((sub) => service.accounts.update(sub, { name: "Ada" })));
    for (const sub of living) {
      const before = inbox.arrived.filter(({ path }) => path === "/2").length;
      await service.accounts.update(sub, { name: "Ada" });
      await inbox.until((arrived) => arrived.filter(({ path }) => path === "/2").length > before);
    }
    await delivered(20);
    watching.abort();
    await watch;
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2);
  });
});

describe("without Redis", () => {
  it.each(["stop", "pause"] as const)(
    "(%s) a worker and an app end at SIGTERM, and the delivery in flight is recorded",
    async (how) => {
      await openApp();
      const sub = await account("ada");
      const worker = await startWorker();
      let answer: ServerResponse | undefined;
      inbox.react = () => (response) => {
        answer = response;
      };
      await service.accounts.update(sub, { name: "Ada" });
      await inbox.until((arrived) => arrived.length === 1);
      await redis[how]();
      const ended = worker.stop();
      answer?.writeHead(200).end();
      await expect(ended).resolves.toBe(0);
      await delivered(1);
      await service.close();
      service = closing(
        await createSignInService({
          ...config,
          queue: "embedded",
          logger: pino({ level: "silent" }),
        }),
      );
      await expect(storedDeliveries(service.notifications, { state: "delivered" })).resolves.toHaveLength(1);
      expect(worker.output()).not.toMatch(/unhandled|uncaught/iu);
    },
  );

  it("a service does not start, and the error says why", async () => {
    await openApp();
    const queue = `redis://:${SECRET}@127.0.0.1:${await freePorts()}`;
    const starting = createSignInService({ ...config, queue, logger: pino({ level: "silent" }) });
    await expect(starting).rejects.toMatchObject({
      code: "storage_unavailable",
      message: "the Redis of config.queue can't be used (ECONNREFUSED)",
    });
  });
});

it("over TLS, with a private CA and a user, no output contains the password, even when Redis fails", async () => {
  const { options, port, cert, certFile, remove } = await newRedisTls();
  const user = ["--user", "news", "on", `>${SECRET}`, "~sign-in-service:*", "+@all", "-@dangerous", "+info"];
  const trusted = getCACertificates("default");
  const own = await openOwnRedis([...options, ...user]);
  try {
    setDefaultCACertificates([...trusted, cert]);
    await openApp(10, `rediss://news:${SECRET}@localhost:${port}/1`);
    const sub = await account("ada");
    const worker = await startWorker({ NODE_EXTRA_CA_CERTS: certFile });
    await service.accounts.update(sub, { name: "Ada" });
    await delivered(1);
    await own.stop();
    await worker.until(/work in the background fails/u);
    await own.start();
    await service.accounts.update(sub, { name: "Lovelace" });
    await delivered(2);
    await expect(worker.stop()).resolves.toBe(0);
    expect(worker.output()).not.toContain(SECRET);
    expect(worker.output()).not.toContain("localhost");
  } finally {
    setDefaultCACertificates(trusted);
    await own.close();
    remove();
  }
});
