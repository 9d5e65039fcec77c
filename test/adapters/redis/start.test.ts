/** Opening: when to wait, what is refused and why, and what the warnings say. */
import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openRedis } from "../../../adapters/redis/record-store.ts";
import { openStorage } from "../../../records/storage.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { freePorts } from "../../examples/processes.ts";
import { documentedRights, type OwnRedis, openOwnRedis, redisProcess } from "../../servers/redis.ts";
import { newMutualTls, newRedisTls } from "../../servers/redis-tls.ts";
import { find, ref, thing } from "../../../testing/storage/stage.ts";
import { newFolder } from "../../closing.ts";

const clock = createSystemClock();
const SECRET = "a-secret-that-is-nowhere";
const opened: { close(): Promise<void> }[] = [];

async function redisWith(...options: string[]): Promise<OwnRedis> {
  const redis = await openOwnRedis(options);
  opened.push(redis);
  return redis;
}

interface Attempt {
  readonly store?: RecordStore;
  readonly warnings: readonly string[];
  /** The error's code and text. */
  readonly refused?: string;
}

async function attempt(url: string, startTimeoutMs = 10_000): Promise<Attempt> {
  const warnings: string[] = [];
  try {
    const store = await openRedis({ url, clock, startTimeoutMs, onWarning: (text) => warnings.push(text) });
    opened.push(store);
    return { store, warnings };
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    expect(`${JSON.stringify(error)} ${message} ${String((error as Error).stack)}`).not.toContain(SECRET);
    return { warnings, refused: `${code}: ${message}` };
  }
}

const put = (store: RecordStore, key: string, fill = ""): Promise<void> =>
  store.commit({
    id: randomUUID(),
    deadline: clock.now() + 4000,
    put: [thing(key, { value: { fill }, index: [{ name: "all", at: "x", order: 1 }] })],
  });

/** Does everything that a store can do. */
async function works(store: RecordStore): Promise<void> {
  const query = { kind: "thing", index: "all", at: "x", limit: 9 };
  await put(store, "k");
  expect(await store.list([query])).toMatchObject([{ records: [{ key: "k" }] }]);
  expect(await store.count([query])).toEqual([1]);
  expect((await store.scan("thing", undefined, 9)).records).toHaveLength(1);
  const child = { ...thing("child", { parent: ref("k"), expiresAt: clock.now() + 60_000 }) };
  await store.commit({ id: randomUUID(), deadline: clock.now() + 4000, put: [child] });
  await store.commit({ id: randomUUID(), deadline: clock.now() + 4000, remove: [ref("k")] });
  expect(await find(store, "child")).toBeUndefined();
  expect(await store.next("people")).toBeGreaterThan(0);
  await store.sweep(9, clock.now());
  await store.ping();
}

/** The address with a user and password in it. */
function as(redis: OwnRedis, user: string, password: string): string {
  return redis.url.replace("redis://", `redis://${user}:${encodeURIComponent(password)}@`);
}

afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each.close();
});

describe("a Redis that does not answer", () => {
  it("is an error after a while, with one sentence", async () => {
    const { refused } = await attempt(`redis://user:${SECRET}@127.0.0.1:${await freePorts()}`, 300);
    expect(refused).toBe("storage_unavailable: the Redis of config.artifacts can't be used (ECONNREFUSED)");
  });

  it("is also an error when it accepts connections and sends nothing", async () => {
    const redis = await redisWith();
    redis.pause();
    const { refused } = await attempt(redis.url, 300);
    redis.resume();
    expect(refused).toBe("storage_unavailable: the Redis of config.artifacts can't be used (no answer)");
  });

  it("is an error when it has too many clients, which is not reported as a missing database", async () => {
    const full = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (sent: Buffer) => {
        const commands = sent.toString().match(/^\*\d+\r$/gmu) ?? [];
        socket.write("-ERR max number of clients reached\r\n".repeat(commands.length));
      });
    });
    await new Promise<void>((resolve) => full.listen(0, "127.0.0.1", resolve));
    const { port } = full.address() as AddressInfo;
    const { refused } = await attempt(`redis://127.0.0.1:${port}/3`, 300);
    full.close();
    expect(refused).toMatch(/^storage_unavailable: the Redis of config\.artifacts can't be used/);
  });

  it("may start later than the service", async () => {
    const redis = await redisWith();
    await redis.stop();
    const waiting = attempt(redis.url);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await redis.start();
    await works((await waiting).store!);
  });

  it("may still load its data, and is an error when that takes too long", async () => {
    const redis = await redisWith();
    await redis.client.mset(Object.fromEntries(Array.from({ length: 3000 }, (_, key) => [`k${key}`, "v"])));
    await redis.client.save();
    await redis.stop();
    const slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    const loading = redis.start(slowly);
    await expect(attempt(redis.url, 2000)).resolves.toMatchObject({
      refused: "storage_unavailable: the Redis of config.artifacts can't be used (LOADING)",
    });
    await works((await attempt(redis.url, 60_000)).store!);
    await loading;
  }, 60_000);

  it("beside a storage: health reports both, and a failed start leaves neither open", async () => {
    const folder = newFolder();
    const configuration = { storage: `sqlite:${join(folder, "a.db")}`, clock };
    const cluster = await redisWith("--cluster-enabled", "yes");
    await expect(openStorage({ ...configuration, artifacts: cluster.url })).rejects.toMatchObject({
      code: "invalid_configuration",
    });
    const redis = await redisWith();
    const storage = await openStorage({ ...configuration, artifacts: redis.url });
    expect(storage.parts.map(({ name }) => name)).toEqual(["storage", "artifacts"]);
    await redis.stop();
    const writes = await Promise.allSettled(storage.parts.map((part) => part.takesWrites()));
    expect(writes.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    await storage.close();
  });
});

/** Commands for a Redis that has lost the scripts, for counters, copies and replicas, which this start does not use. */
const UNTRIED = ["+eval", "+incr", "+scan", "+wait"];

describe("authentication", () => {
  it("uses the password, and a wrong one is refused at once", async () => {
    const redis = await redisWith();
    await redis.client.config("SET", "requirepass", SECRET);
    await works((await attempt(redis.url.replace("redis://", `redis://:${SECRET}@`))).store!);
    for (const url of [redis.url, as(redis, "", "wrong"), as(redis, "nobody", SECRET)]) {
      const { refused } = await attempt(url, 60_000);
      expect(refused).toMatch(
        /^storage_unavailable: the Redis of config\.artifacts can't be used \((?:NOAUTH|WRONGPASS)\)$/,
      );
    }
  });

  it("works with an ACL user that has the documented rights and its own prefix [D-REDIS-10]", async () => {
    const redis = await redisWith();
    const rules = documentedRights().artifacts;
    const password = `${SECRET}@/:%`;
    const allow = (...more: string[]) => redis.client.call("ACL", "SETUSER", "sign-in", ...more);
    await allow("on", `>${password}`, ...rules);
    const url = as(redis, "sign-in", password);
    const { store, warnings } = await attempt(url);
    await works(store!);
    expect(warnings).toEqual([]);
    expect((await attempt(`${url}?prefix=other:`)).refused).toMatch(/Redis answered/);
    const needed = rules.filter(
      (rule) => rule.startsWith("+") && !["+@connection", "+info", ...UNTRIED].includes(rule),
    );
    expect(needed.length).toBeGreaterThan(10);
    for (const rule of needed) {
      await allow(rule.replace("+", "-"));
      const { refused } = await attempt(url);
      expect(`${rule} ${refused}`).toMatch(/the Redis of config\.artifacts can't be used \(.*NOPERM\)/);
      await allow(rule);
    }
    await allow("-info");
    expect((await attempt(url)).warnings).toEqual([
      "the maxmemory-policy of the Redis of config.artifacts can't be read (the user may not use INFO): make sure that it is noeviction",
    ]);
  });
});

describe("the server", () => {
  it("a Redis cluster is refused where the address names one server", async () => {
    const redis = await redisWith("--cluster-enabled", "yes");
    expect((await attempt(redis.url)).refused).toBe(
      "invalid_configuration: config.artifacts: this is a Redis cluster: begin the address with redis+cluster://",
    );
  });

  it("a replica is refused", async () => {
    const redis = await redisWith("--replicaof", "127.0.0.1 1");
    expect((await attempt(redis.url)).refused).toBe(
      "invalid_configuration: config.artifacts: this Redis is a replica: name the primary",
    );
  });

  it("one that may evict keys causes a warning, also when CONFIG is forbidden", async () => {
    const redis = await redisWith("--maxmemory-policy", "allkeys-lru", "--rename-command", "CONFIG", "");
    const { store, warnings } = await attempt(redis.url);
    expect(warnings).toEqual([
      "the Redis of config.artifacts has maxmemory-policy allkeys-lru: set it to noeviction, or people are signed out and what was ended may come back when its memory is full",
    ]);
    await works(store!);
  });

  it("one whose memory is full refuses new records and keeps the others", async () => {
    const redis = await redisWith();
    const { store } = await attempt(redis.url);
    await put(store!, "before");
    await redis.client.config("SET", "maxmemory", "1mb");
    await expect(put(store!, "fill", "x".repeat(2_000_000))).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    await expect(put(store!, "after")).rejects.toMatchObject({ message: "Redis answered OOM" });
    await expect(find(store!, "before")).resolves.toBeDefined();
    await redis.client.config("SET", "maxmemory", "0");
    await put(store!, "later");
  });
});

describe("TLS", () => {
  const trusted = getCACertificates("default");
  afterEach(() => setDefaultCACertificates(trusted));

  it("is used with rediss://, and the certificate must be trusted and issued for this host", async () => {
    const { options, port, cert, remove } = await newRedisTls();
    await redisWith(...options);
    const url = `rediss://localhost:${port}`;
    expect((await attempt(url, 500)).refused).toContain("DEPTH_ZERO_SELF_SIGNED_CERT");
    setDefaultCACertificates([...trusted, cert]);
    await works((await attempt(url)).store!);
    expect((await attempt(`rediss://127.0.0.1:${port}`, 500)).refused).toContain(
      "ERR_TLS_CERT_ALTNAME_INVALID",
    );
    // Gives up at each moment of the handshake.
    for (let startTimeoutMs = 0; startTimeoutMs < 30; startTimeoutMs += 1) {
      const wrong = Array.from({ length: 10 }, () => attempt(`rediss://127.0.0.1:${port}`, startTimeoutMs));
      for (const { refused } of await Promise.all(wrong)) expect(refused).toContain("storage_unavailable");
    }
    // Plain text is not mistaken for an answer.
    expect((await attempt(`redis://localhost:${port}`, 500)).refused).toContain("storage_unavailable");
    remove();
  });

  it("reads passwords and certificates in files again for each connection [D-REDIS-11, D-REDIS-13]", async () => {
    const folder = newFolder();
    const tls = newMutualTls(folder);
    const port = await freePorts();
    const redis = redisProcess([...tls.options(port), "--save", "", "--dir", folder]);
    opened.push({ close: redis.kill });
    const passwordFile = join(folder, "password");
    const startWith = async (password: string): Promise<void> => {
      writeFileSync(passwordFile, `${password}\n`);
      await redis.start(["--user", "sign-in", "on", `>${password}`, ...documentedRights().artifacts]);
    };
    await startWith(`${SECRET}-1`);
    const url = `rediss://sign-in@localhost:${port}?password_file=${passwordFile}&${tls.parameters}`;
    const { store } = await attempt(url);
    await works(store!);
    await redis.kill();
    // The files are the same, and what they contain is not.
    newMutualTls(folder);
    await startWith(`${SECRET}-2`);
    while ((await store!.ping().catch(() => undefined)) === undefined) await pause(20);
    await works(store!);
    // Nobody loses a connection because a file is gone for a moment.
    rmSync(passwordFile);
    await redis.kill();
    await redis.start(["--user", "sign-in", "on", `>${SECRET}-2`, ...documentedRights().artifacts]);
    while ((await store!.ping().catch(() => undefined)) === undefined) await pause(20);
    const refusals = [
      ["", `config.artifacts: the file of password_file, ${passwordFile}, can't be read (ENOENT)`],
      [SECRET, "(WRONGPASS)"],
    ] as const;
    for (const [content, why] of refusals) {
      if (content !== "") writeFileSync(passwordFile, content);
      expect((await attempt(url)).refused).toContain(why);
    }
    writeFileSync(passwordFile, `${SECRET}-2`);
    const spoiled = url.replace("client-key.pem", "password");
    expect((await attempt(spoiled)).refused).toMatch(
      /: config\.artifacts: the files of ca_file, cert_file and key_file can't be used for TLS \(ERR_/,
    );
  });
});
