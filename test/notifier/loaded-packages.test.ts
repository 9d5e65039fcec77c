/** Which of our dependencies each kind of process loads: those that it uses, and no others. */
import { accessSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createSignInService } from "../../lib/index.ts";
import { CLIENTS, seedOf } from "../faults/load.ts";
import { get, passwordGrant, send, tokensOf } from "../faults/person.ts";
import { newFolder, type Running, start } from "../examples/processes.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { closing } from "../closing.ts";

const { dependencies } = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"),
) as { readonly dependencies: Readonly<Record<string, string>> };
const TOLD = pathToFileURL(join(import.meta.dirname, "loaded-packages.ts")).href;
/** Addresses, the log, metrics, the configuration. */
const LEAN = ["ipaddr.js", "pino", "prom-client", "zod"];

/** The modules that only proofs, high-security clients, clients that nobody registered and OpenTelemetry need. */
const OFF = [
  "core/dpop-proof.ts",
  "core/telemetry.ts",
  "accounts/clients/fapi.ts",
  "accounts/documents/asking.ts",
  "accounts/documents/document.ts",
  "accounts/documents/fetching.ts",
  "accounts/documents/kept-copies.ts",
];

let folder: string;
let inbox: Inbox;
let redis: OwnRedis;
const running: Running[] = [];

beforeEach(async () => {
  folder = newFolder();
  inbox = closing(await openInbox());
  redis = closing(await openOwnRedis());
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop("SIGKILL")));
  rmSync(folder, { recursive: true });
});

function configOf(queue: string): SignInServiceConfig {
  return {
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    queue,
    notifications: { allowedReceivers: ["127.0.0.1"], poll: 0.05, worker: false },
  };
}

/** Has something to deliver. */
async function fill(config: SignInServiceConfig): Promise<void> {
  const service = await createSignInService({ ...config, logger: pino({ level: "silent" }) });
  const credentials = { client_id: "c", client_secret: "s" };
  const receiver = { url: inbox.url("/a"), ...credentials, types: ["PROFILE_CHANGED"] as const };
  await service.directory.services.put("1", { name: "1", receiver });
  const { sub } = await service.accounts.import({ email: "ada@example.com", services: { "1": 5 } });
  await service.accounts.update(sub, { name: "Ada" });
  await service.close();
}

/** The packages that the worker has loaded when it has delivered and ended. */
async function loadedBy(script: string, args: readonly string[]): Promise<string[]> {
  const worker = start(script, { args, cwd: folder, env: { NODE_OPTIONS: `--import ${TOLD}` } });
  running.push(worker);
  await Promise.race([
    inbox.until(({ length }) => length > 0),
    worker.ended.then(() => Promise.reject(new Error(worker.output()))),
  ]);
  await expect(worker.stop()).resolves.toBe(0);
  return packagesIn(worker.output());
}

function packagesIn(said: string): string[] {
  const names = /^loaded: (.*)\.$/m.exec(said)?.[1]?.split(" ") ?? [];
  return names.filter((name) => name in dependencies || name === "undici");
}

function modulesIn(said: string): string[] {
  return /^modules: (.*)$/m.exec(said)?.[1]?.split(" ") ?? [];
}

it("a worker loads no protocol core, no pages, no password hashing and no fetch", async () => {
  const config = configOf("embedded");
  await fill(config);
  const file = join(folder, "config.json");
  const seed = { accounts: [{ email: "eve@example.com", password: "correct horse battery staple" }] };
  writeFileSync(file, JSON.stringify({ ...config, port: 3999, seed }), { mode: 0o600 });
  await expect(loadedBy("cli/main.ts", ["worker", "--config", file])).resolves.toEqual(
    [...LEAN, "commander"].toSorted(),
  );
  expect(modulesIn(running.at(-1)?.output() ?? "")).not.toContain("core/telemetry.ts");
});

it("nor does a worker over Redis, and one that names the main entry: only the drivers are added", async () => {
  const config = configOf(redis.url);
  await fill(config);
  await expect(loadedBy("test/notifier/worker-process.ts", [JSON.stringify(config)])).resolves.toEqual(
    [...LEAN, "bullmq", "ioredis"].toSorted(),
  );
});

it("a worker with telemetry loads what gives spans, and says that there is no SDK [D-OTEL-7]", async () => {
  const config = { ...configOf("embedded"), telemetry: true };
  await fill(config);
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ ...config, port: 3999 }), { mode: 0o600 });
  await loadedBy("cli/main.ts", ["worker", "--config", file]);
  const said = running.at(-1)?.output() ?? "";
  expect(modulesIn(said)).toContain("core/telemetry.ts");
  expect(said).toContain("no OpenTelemetry SDK that takes spans");
});

it("--help loads nothing but the reader of the command line and the schemas, so that it is fast", async () => {
  const env = { NODE_OPTIONS: `--import ${TOLD}` };
  for (const words of [["--help"], ["serve", "--help"]]) {
    const program = start("cli/main.ts", { args: words, cwd: folder, env });
    running.push(program);
    await expect(program.ended).resolves.toBe(0);
    expect(packagesIn(program.output())).toEqual(["commander", "zod"]);
  }
});

it("a server at rest has loaded what the first page needs and password hashing, and no metrics, no telemetry, no demo, no drivers, nothing that reads bodies and nothing for second factors", async () => {
  const file = join(folder, "config.json");
  const config = {
    ...configOf("embedded"),
    // Passkeys are on, and first factors are confirmed by mail.
    deployments: { oauth2: { url: "http://localhost:3999" } },
    interactions: { registration: true },
    mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
    secondFactor: { remember: 30 },
    port: 0,
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const env = { NODE_OPTIONS: `--import ${TOLD}` };
  const server = start("cli/main.ts", { args: ["serve", "--config", file], cwd: folder, env });
  running.push(server);
  await server.until(/listening on port/);
  await expect(server.stop()).resolves.toBe(0);
  expect(packagesIn(server.output())).toEqual([
    "@node-rs/argon2",
    "commander",
    "ejs",
    "ipaddr.js",
    // oidc-provider signs with it.
    "jose",
    "koa",
    "koa-compose",
    "oidc-provider",
    "pino",
    // Node loads it when a module imports `node:http` by name, as oidc-provider does.
    "undici",
    "zod",
  ]);
});

it("a server without DPoP and FAPI loads nothing for them when a client sends proofs all the same [D-DPOP-10]", async () => {
  const file = join(folder, "config.json");
  const config = { ...configOf("embedded"), port: 0, seed: seedOf(["ada"]) };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const env = { NODE_OPTIONS: `--import ${TOLD}` };
  const server = start("cli/main.ts", { args: ["serve", "--config", file], cwd: folder, env });
  running.push(server);
  const [, port] = await server.until(/listening on port (\d+)/);
  const base = `http://127.0.0.1:${port}`;
  const dpop = "x.y.z";
  const granted = passwordGrant(base, CLIENTS[0]!, "ada");
  const { access_token } = await tokensOf(await send({ ...granted, headers: { ...granted.headers, dpop } }));
  for (const [scheme, status] of [
    ["Bearer", 200],
    ["DPoP", 400],
  ] as const) {
    const url = `${base}/resources/userinfo?client_id=${CLIENTS[0]!.client_id}`;
    const answer = await send(get(url, { authorization: `${scheme} ${access_token}`, dpop }));
    expect([scheme, answer.status]).toEqual([scheme, status]);
  }
  await expect(server.stop()).resolves.toBe(0);
  const modules = modulesIn(server.output());
  expect(modules).toContain("compat/proofs.ts");
  for (const name of OFF) {
    // Otherwise this test would go on passing when the module gets another name.
    accessSync(join(import.meta.dirname, "../..", name));
    expect(modules).not.toContain(name);
  }
});
