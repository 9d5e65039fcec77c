/** The sweeper, and keys that are made at the start. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { openStorage } from "../../records/storage.ts";
import type { Storage } from "../../records/storage.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { readConfiguration } from "../../config/read.ts";
import { loadServiceKeys, type ServiceKeys } from "../../accounts/keys/service-keys.ts";
import { pino } from "pino";
import { type Noun, rowsOf } from "../../administration/tables.ts";
import { createSignInService, startSweeper } from "../../lib/service.ts";
import { createTestSignIn } from "../../testing/index.ts";

/** Milliseconds between two passes. */
const PASS_INTERVAL_MS = 30_000;

/** A store with so many expired artifacts, as the sweeper sees it. */
function expired(count: number) {
  let left = count;
  const passes: number[] = [];
  return {
    passes,
    left: () => left,
    async sweep(limit: number) {
      const purged = Math.min(limit, left);
      left -= purged;
      passes.push(purged);
      return purged;
    },
  } as unknown as Storage & { readonly passes: number[]; left(): number };
}

const SILENT = { failed: () => undefined, worked: () => undefined };

it("a start warns about mail that may go unencrypted to another machine", async () => {
  const deployments = { oauth2: { url: "http://127.0.0.1:3000" } };
  for (const [mail, count] of [
    [{ url: "smtp://mail.example", allowClearText: true }, 1],
    [{ url: "smtp://mail.example" }, 0],
    [{ url: "smtps://mail.example", allowClearText: true }, 0],
  ] as const) {
    const warned: unknown[] = [];
    const logger = pino({
      hooks: { logMethod: (args, _method, level) => void (level === 40 && warned.push(args)) },
    });
    const service = await createSignInService({ deployments, storage: "sqlite::memory:", mail, logger });
    await service.close();
    expect(warned.filter((args) => JSON.stringify(args).includes("mail.allowClearText is on"))).toHaveLength(
      count,
    );
  }
});

/** Own and inherited members, whether or not a type has them. */
function members(object: object): string[] {
  const all: string[] = [];
  for (let each = object; each !== Object.prototype; each = Object.getPrototypeOf(each) as object)
    all.push(...Object.getOwnPropertyNames(each));
  return all;
}

it("a host application reaches no internal call and no hash, at run time neither [D-INTERNAL-1]", async () => {
  const deployments = { oauth2: { url: "http://127.0.0.1:3000" } };
  const logger = pino({ level: "silent" });
  const test = await createTestSignIn();
  const service = await createSignInService({ deployments, storage: "sqlite::memory:", logger });
  try {
    for (const { accounts, clients, directory } of [service, test.service]) {
      expect(members(accounts)).toEqual([...Object.keys(rowsOf("accounts")), "verifyPassword", "invite"]);
      expect(members(clients)).toEqual(Object.keys(rowsOf("clients")));
      expect(members(directory)).toEqual(["services", "groups", "portals", "apis"]);
      for (const [noun, entries] of Object.entries(directory) as [Noun, object][])
        expect(members(entries)).toEqual(Object.keys(rowsOf(noun)));
      await directory.services.put("internals", { name: "News" });
      const client = { name: "News", service: "internals", redirect_uris: ["https://news.example/callback"] };
      const { client_id } = await clients.register(client);
      const { sub, user_id } = await accounts.create({
        email: "internals@example.com",
        password: "grapefruit under the stairs",
      });
      const returned = [
        await accounts.find(sub),
        await accounts.findByLogin("internals@example.com"),
        await accounts.findByUserId(user_id),
        await accounts.list(),
        await accounts.update(sub, { name: "Ada" }),
        await accounts.assign(sub, "internals"),
        await accounts.factors(sub),
        await clients.find(client_id),
        await clients.list(),
        await clients.update(client_id, { name: "Daily News" }),
      ];
      expect(JSON.stringify(returned)).not.toMatch(/argon2|hash|"secrets|generation|epoch/u);
    }
  } finally {
    await service.close();
    await test.close();
  }
});

it("a start says that it made a database in a folder that did not exist, and only then", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sign-in-new-"));
  const deployments = { oauth2: { url: "http://127.0.0.1:3000" } };
  const said: string[] = [];
  const logger = pino({ level: "warn" }, { write: (line: string) => void said.push(line) });
  const startAt = async (path: string): Promise<readonly string[]> => {
    said.length = 0;
    const service = await createSignInService({ deployments, storage: `sqlite:${path}`, logger });
    await service.close();
    return said.filter((line) => line.includes("did not exist"));
  };
  const wrong = join(folder, "mistyped");
  expect(await startAt(join(folder, "sign-in.db"))).toEqual([]);
  expect(await startAt(join(wrong, "sign-in.db"))).toEqual([expect.stringContaining(wrong)]);
  expect(await startAt(join(wrong, "sign-in.db"))).toEqual([]);
  await rm(folder, { recursive: true });
});

describe("the sweeper", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("deletes all expired records in one pass, in batches, and repeats", async () => {
    const store = expired(1_200);
    const sweeper = startSweeper(store, SILENT);
    expect(store.passes).toEqual([]);
    await jest.advanceTimersByTimeAsync(PASS_INTERVAL_MS);
    expect(store.passes).toEqual([500, 500, 200]);
    await jest.advanceTimersByTimeAsync(PASS_INTERVAL_MS);
    expect(store.passes.length).toBe(4);
    await sweeper.stop();
    await jest.advanceTimersByTimeAsync(10 * PASS_INTERVAL_MS);
    expect(store.passes.length).toBe(4);
    expect(jest.getTimerCount()).toBe(0);
  });

  it("reports a failed pass and retries at the next", async () => {
    const reports: unknown[] = [];
    const store = expired(1);
    let away = true;
    const sweep = (limit: number): Promise<number> =>
      away ? Promise.reject(new Error("away")) : store.sweep(limit);
    const failing = { ...store, sweep };
    const sweeper = startSweeper(failing, {
      failed: (error) => void reports.push((error as Error).message),
      worked: () => void reports.push("works"),
    });
    await jest.advanceTimersByTimeAsync(2 * PASS_INTERVAL_MS);
    expect(reports).toEqual(["away", "away"]);
    away = false;
    await jest.advanceTimersByTimeAsync(PASS_INTERVAL_MS);
    expect(reports).toEqual(["away", "away", "works"]);
    await sweeper.stop();
  });

  it("stops between two batches and waits for the running one", async () => {
    const step = Promise.withResolvers<number>();
    let steps = 0;
    const slow = {
      sweep() {
        steps += 1;
        return step.promise;
      },
    };
    const sweeper = startSweeper(slow, SILENT);
    await jest.advanceTimersByTimeAsync(PASS_INTERVAL_MS);
    let stopped = false;
    const stopping = sweeper.stop().finally(() => {
      stopped = true;
    });
    await jest.advanceTimersByTimeAsync(1);
    expect(stopped).toBe(false);
    step.resolve(500);
    await stopping;
    expect(steps).toBe(1);
  });
});

const configurations = (folder: string, keys: SignInServiceConfig["keys"] = {}) =>
  readConfiguration({
    deployments: { oauth2: { url: "http://127.0.0.1:9" } },
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    keys,
  });

const shown = ({ cookies, signing, clientSecrets, forms }: ServiceKeys): unknown => ({
  cookies,
  signing: signing.inForce(),
  clientSecrets: clientSecrets.export().toString("hex"),
  forms: forms.map((key) => key.export().toString("hex")),
});

describe("with a real storage", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sign-in-keys-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** Opens the storage and its keys, as a start does. */
  async function start(keys: SignInServiceConfig["keys"] = {}): Promise<ServiceKeys> {
    const configuration = configurations(folder, keys);
    const storage = await openStorage(configuration);
    try {
      return await loadServiceKeys(configuration, storage);
    } finally {
      await storage.close();
    }
  }

  it("keys are made at the first start and kept", async () => {
    const first = await start();
    expect(shown(await start())).toEqual(shown(first));
    expect(first.signing.inForce()).toEqual([
      expect.objectContaining({ kty: "RSA", alg: "RS256", use: "sig" }),
      expect.objectContaining({ kty: "RSA", alg: "PS256", use: "sig" }),
      expect.objectContaining({ kty: "EC", alg: "ES256", use: "sig" }),
      expect.objectContaining({ kty: "OKP", alg: "EdDSA", use: "sig" }),
    ]);
    expect((await stat(join(folder, "sign-in.db.keys"))).mode & 0o777).toBe(0o600);
  });

  it("concurrent starts get the same keys", async () => {
    const all = await Promise.all([start(), start(), start()]);
    expect(new Set(all.map((keys) => JSON.stringify(shown(keys)))).size).toBe(1);
  });

  it("the start fails with a wrong secret or a lost key file", async () => {
    const right = randomBytes(32).toString("base64");
    await start({ secrets: [right] });
    const fresh = randomBytes(32).toString("base64");
    await expect(start({ secrets: [fresh] })).rejects.toMatchObject({ code: "unusable_secrets" });
    await expect(start()).rejects.toMatchObject({ code: "unusable_secrets" });
    await expect(start({ secrets: [fresh, right] })).resolves.toBeDefined();
  });

  it("configured keys take precedence, and a signing key has its algorithm", async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const curve = { ...privateKey.export({ format: "jwk" }), kty: "EC" as const, kid: "k" };
    const { cookies, signing } = await start({
      cookies: ["a cookie key of at least 32 characters"],
      signing: [curve],
    });
    expect(cookies).toEqual(["a cookie key of at least 32 characters"]);
    expect(signing.inForce()).toEqual([expect.objectContaining({ kid: "k", alg: "ES256", use: "sig" })]);
  });
});
