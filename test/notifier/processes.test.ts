import { rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createNotificationWorker, createSignInService } from "../../lib/index.ts";
import type { SignInService } from "../../lib/service.ts";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { newFolder, type Running, start } from "../examples/processes.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { rounds } from "../rounds.ts";
import { type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

/** Milliseconds of a lease: the time of an attempt, and 15 seconds. */
const LEASE = 20_000;
const ACCOUNTS = rounds(15, 40);
const SECRET = Buffer.alloc(32, 7).toString("base64");

let folder: string;
let config: SignInServiceConfig;
let service: SignInService;
let inbox: Inbox;
let sub: string;
const running: Running[] = [];

/** Opens an app that does not deliver, on an empty storage, and a receiver. */
async function openApp(storage: Pick<SignInServiceConfig, "storage" | "keys">): Promise<void> {
  inbox = closing(await openInbox());
  config = {
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    ...storage,
    notifications: {
      allowedReceivers: ["127.0.0.1"],
      timeouts: { total: 5 },
      retryDelays: [0.1],
      poll: 0.05,
      worker: false,
    },
  };
  service = closing(await createSignInService({ ...config, logger: pino({ level: "silent" }) }));
  const receiver = { url: inbox.url("/a"), client_id: "c", client_secret: "s", types: NOTIFICATION_TYPES };
  await service.directory.services.put("1", { name: "1", receiver });
  ({ sub } = await service.accounts.import({ email: "ada@example.com", services: { "1": 5 } }));
}

beforeEach(() => {
  folder = newFolder();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop("SIGKILL")));
  rmSync(folder, { recursive: true });
});

/** @param ahead milliseconds by which its clock is ahead. */
async function startWorker(ahead = 0): Promise<Running> {
  const args = [JSON.stringify(config), String(ahead)];
  const worker = start("test/notifier/worker-process.ts", { args, cwd: folder });
  running.push(worker);
  await worker.until(/ready/);
  return worker;
}

const states = async (): Promise<string[]> =>
  (await storedDeliveries(service.notifications)).map(({ state }) => state);

/** Changes the accounts three times each, through each app in turn, and expects all deliveries, each lane in order. */
async function changeMany(apps: readonly SignInService[]): Promise<void> {
  const subs = await Promise.all(
    Array.from({ length: ACCOUNTS }, async (_, index) => {
      const account = { email: `n${index}@example.com`, services: { "1": index } };
      return (await service.accounts.import(account)).sub;
    }),
  );
  for (const name of ["one", "two", "three"]) {
    await Promise.all(subs.map((each, index) => apps[index % apps.length]!.accounts.update(each, { name })));
  }
  await inbox.until((arrived) => arrived.length >= 3 * ACCOUNTS);
  for (const each of subs) {
    const own = inbox.arrived.filter(({ body }) => body.includes(each));
    const listed = await storedDeliveries(service.notifications, { account: each });
    const inOrder = listed.toSorted((one, other) => one.sequence - other.sequence);
    expect(own.map(({ id }) => id)).toEqual(inOrder.map(({ id }) => id));
  }
}

/** For storages that notify other processes of changes. */
function describeHints(): void {
  it("gets a hint about new deliveries and resumed receivers, long before its next poll", async () => {
    config = { ...config, notifications: { ...config.notifications, poll: 300 } };
    const worker = await startWorker();
    await service.accounts.update(sub, { name: "Ada" });
    await worker.until(/succeeded/);
    await service.notifications.pause("service:1");
    await service.accounts.update(sub, { name: "Augusta" });
    await service.notifications.resume("service:1");
    await worker.until(/succeeded[^]*succeeded/);
    await expect(worker.stop()).resolves.toBe(0);
  });
}

/** What depends on the storage. */
function describeWorkers(): void {
  it("delivers what the app stores in the same storage, and ends with 0 at SIGTERM", async () => {
    await service.accounts.update(sub, { name: "Ada" });
    expect(inbox.arrived).toEqual([]);
    const worker = await startWorker();
    await worker.until(/succeeded/);
    await service.accounts.update(sub, { name: "Augusta" });
    await worker.until(/succeeded[^]*succeeded/);
    await expect(states()).resolves.toEqual(["delivered", "delivered"]);
    await expect(worker.stop()).resolves.toBe(0);
  });

  it("that is killed during a delivery loses nothing: the delivery is sent again with the same id, and the next one after it [D-NOTIFY-10]", async () => {
    inbox.react = () => () => {};
    await service.accounts.update(sub, { name: "Ada" });
    await service.accounts.delete(sub);
    const first = await startWorker();
    await inbox.until((arrived) => arrived.length === 1);
    await expect(first.stop("SIGKILL")).resolves.toBe("SIGKILL");
    inbox.react = () => 200;
    const second = await startWorker(LEASE);
    await second.until(/succeeded[^]*succeeded/);
    const [id, next] = (await storedDeliveries(service.notifications)).map((each) => each.id);
    expect(inbox.arrived.map((post) => post.id)).toEqual([id, id, next]);
    expect(inbox.arrived[1]?.body).toBe(inbox.arrived[0]?.body);
    await expect(states()).resolves.toEqual(["delivered", "delivered"]);
  });

  it("shares the work with another worker, and with apps that deliver themselves: each delivery arrives once, each lane in order", async () => {
    const notifications = { ...config.notifications, worker: true };
    const logger = pino({ level: "silent" });
    const apps = await Promise.all(
      [1, 2].map(() => createSignInService({ ...config, notifications, logger })),
    );
    const workers = [await startWorker(), await startWorker()];
    await changeMany([service, ...apps]);
    await Promise.all(apps.map((app) => app.close()));
    for (const worker of workers) await expect(worker.stop()).resolves.toBe(0);
    expect(inbox.arrived).toHaveLength(3 * ACCOUNTS);
  });
}

describe("a worker as a process of its own, on a SQLite file", () => {
  beforeEach(() => openApp({ storage: `sqlite:${join(folder, "sign-in.db")}` }));

  describeWorkers();
  describeHints();

  it("sees changes of a receiver by another process at once: a new address, a pause, and its end", async () => {
    const credentials = { client_id: "c", client_secret: "s", types: NOTIFICATION_TYPES };
    const receiver = (path: string) => ({ url: inbox.url(path), ...credentials });
    const paths = (): string[] => inbox.arrived.map(({ path }) => path);
    const worker = await startWorker();
    await service.accounts.update(sub, { name: "one" });
    await worker.until(/succeeded/);
    await service.directory.services.put("1", { name: "1", receiver: receiver("/b") });
    await service.accounts.update(sub, { name: "two" });
    await worker.until(/succeeded[^]*succeeded/);
    expect(paths()).toEqual(["/a", "/b"]);
    await service.notifications.pause("service:1");
    await service.directory.services.put("2", { name: "2", receiver: receiver("/c") });
    await service.accounts.assign(sub, "2", 7);
    // Deliveries to the other receiver show that the worker has polled twice.
    for (const name of ["three", "four"]) {
      const before = inbox.arrived.length;
      await service.accounts.update(sub, { name });
      await inbox.until((arrived) => arrived.length > before);
    }
    expect(paths()).toEqual(["/a", "/b", "/c", "/c"]);
    await service.notifications.resume("service:1");
    await inbox.until((arrived) => arrived.length === 6);
    expect(paths().slice(4)).toEqual(["/b", "/b"]);
  });

  it("finishes the delivery in flight at SIGTERM", async () => {
    let answer: ServerResponse | undefined;
    inbox.react = () => (response) => {
      answer = response;
    };
    await service.accounts.update(sub, { name: "Ada" });
    await service.accounts.update(sub, { name: "Augusta" });
    const worker = await startWorker();
    await inbox.until((arrived) => arrived.length === 1);
    const ended = worker.stop("SIGTERM");
    await worker.until(/ending/);
    answer?.writeHead(200).end();
    await expect(ended).resolves.toBe(0);
    expect(worker.output()).toContain("closed");
    await expect(states()).resolves.toEqual(["delivered", "waiting"]);
    expect(inbox.arrived).toHaveLength(1);
  });

  it("is refused for a storage in memory", async () => {
    await expect(createNotificationWorker({ ...config, storage: "sqlite::memory:" })).rejects.toMatchObject({
      code: "invalid_configuration",
      problems: [expect.stringContaining("config.storage")],
    });
  });
});

describe("a worker as a process of its own, on MongoDB", () => {
  let server: MongoServer;
  beforeAll(async () => {
    server = closing(await openMongoServer());
  });
  beforeEach(() => openApp({ storage: server.nextUrl(), keys: { secrets: [SECRET] } }));

  describeWorkers();
});

describe("a worker as a process of its own, on PostgreSQL", () => {
  let server: OwnPostgres;
  beforeAll(async () => {
    server = closing(await openOwnPostgres());
  });
  beforeEach(async () => openApp({ storage: await server.newDatabase(), keys: { secrets: [SECRET] } }));

  describeWorkers();
  describeHints();
});
