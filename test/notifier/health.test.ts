/** What the health of a worker and of a server says of mail and receivers: it counts for the worker only. */
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createNotificationWorker, createSignInService } from "../../lib/index.ts";
import type { Health } from "../../records/health.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { TestReceiver } from "../../testing/test-receiver.ts";
import { storageIn } from "../flows/running-service.ts";
import { openSmtp } from "../servers/smtp.ts";
import { until } from "./bullmq/stage.ts";
import { newFolder } from "../closing.ts";

const opened: (() => Promise<unknown>)[] = [];
let folder: string;
let clock: TestClock;
let config: SignInServiceConfig;
let log: string[];

beforeEach(async () => {
  folder = newFolder();
  clock = new TestClock();
  log = [];
  config = {
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    ...(await storageIn(folder)),
    clock,
    logger: pino({}, { write: (line: string) => void log.push(line) }),
  };
});
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

const SENDING = { poll: 0.02, allowedReceivers: ["127.0.0.1"], breaker: { failures: 1 } };

async function openServer(more: Partial<SignInServiceConfig>) {
  const service = await createSignInService({ ...config, notifications: { worker: false }, ...more });
  opened.push(() => service.close());
  return service;
}

async function openWorker(more: Partial<SignInServiceConfig>) {
  const worker = await createNotificationWorker({ ...config, notifications: SENDING, ...more });
  opened.push(() => worker.close());
  return worker;
}

/** Whether the process can do its role, and one part. */
async function partOf(
  { health }: { readonly health: () => Promise<Health> },
  part: string,
): Promise<unknown[]> {
  const { ok, parts } = await health();
  return [ok, parts[part]?.ok, parts[part]?.required, parts[part]?.detail];
}

it("a dead mail server takes a worker out of service until mail is sent again, and no server [D-HEALTH-5]", async () => {
  const down = await openSmtp("dies");
  await down.close();
  const mail = { url: down.url, from: "sign-in@example.com" };
  const server = await openServer({ mail });
  const worker = await openWorker({ mail });
  expect(await partOf(worker, "mail")).toEqual([true, true, true, ""]);
  const { sub } = await server.accounts.create({ email: "ada@example.com", password: "the password of ada" });
  await server.accounts.setPassword(sub, "another password");
  await until(async () => !(await worker.health()).ok);
  expect(await partOf(worker, "mail")).toEqual([
    false,
    false,
    true,
    "the last mail could not be sent: connection",
  ]);
  // It sends none, so it has no such part.
  expect(await partOf(server, "mail")).toEqual([true, undefined, undefined, undefined]);
  expect(JSON.stringify([await worker.health(), log])).not.toContain("ada@");
  const back = await openSmtp("usual", down.port);
  opened.push(() => back.close());
  clock.advance(10);
  await back.until(1);
  await until(async () => (await worker.health()).ok);
  expect(await partOf(worker, "mail")).toEqual([true, true, true, ""]);
}, 30_000);

it("a server that sends by itself shows a dead mail server, and goes on [D-HEALTH-5]", async () => {
  const down = await openSmtp("dies");
  await down.close();
  const mail = { url: down.url, from: "sign-in@example.com" };
  const server = await openServer({ mail, notifications: SENDING });
  const { sub } = await server.accounts.create({ email: "ada@example.com", password: "the password of ada" });
  await server.accounts.setPassword(sub, "another password");
  await until(async () => (await server.health()).parts["mail"]?.ok === false);
  expect(await partOf(server, "mail")).toEqual([true, false, false, expect.stringContaining("connection")]);
  // What is out of date is not sent: nothing is left that could fail.
  clock.advance(4 * 86_400);
  await until(async () => (await server.health()).parts["mail"]?.ok === true);
}, 30_000);

it("receivers take a worker out of service if all of them fail, and no server [D-HEALTH-5]", async () => {
  const receivers: TestReceiver[] = [];
  const server = await openServer({});
  for (const key of ["1", "2"]) {
    const credentials = { client_id: key, client_secret: "of the receiver" };
    const receiver = await TestReceiver.open(`service:${key}`, credentials);
    opened.push(() => receiver.close());
    receivers.push(receiver);
    await server.directory.services.put(key, {
      name: key,
      receiver: { url: receiver.url, ...credentials, types: ["PROFILE_CHANGED"] },
    });
  }
  const worker = await openWorker({});
  const { sub } = await server.accounts.create({ email: "ada@example.com" });
  await server.accounts.assign(sub, "1", 1);
  await server.accounts.assign(sub, "2", 2);
  const [one, other] = receivers as [TestReceiver, TestReceiver];
  one.fail();
  await server.accounts.update(sub, { surname: "One" });
  await until(() => other.received.length > 0);
  await until(async () => (await worker.health()).parts["receivers"]?.detail !== "");
  expect(await partOf(worker, "receivers")).toEqual([true, true, true, "circuit open: service:1"]);
  other.fail();
  await server.accounts.update(sub, { surname: "Two" });
  await until(async () => !(await worker.health()).ok);
  expect(await partOf(worker, "receivers")).toEqual([
    false,
    false,
    true,
    "circuit open: service:1, service:2",
  ]);
  expect((await server.health()).ok).toBe(true);
  one.recover();
  clock.advance(3_600);
  await until(async () => (await worker.health()).ok);
}, 30_000);
