/** Opening: which Redis is accepted, which one is refused and why, and what the warnings say. */
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { newRedisTls } from "../../servers/redis-tls.ts";
import { type BullStage, openBullStage, until, wakeUps } from "./stage.ts";
import { closing } from "../../closing.ts";

jest.setTimeout(60_000);

const SECRET = "a-secret-that-is-nowhere";
const opened: OwnRedis[] = [];
let stage: BullStage;
beforeEach(async () => {
  stage = closing(await openBullStage());
  await stage.receiver("1");
});
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function redisWith(...options: string[]): Promise<OwnRedis> {
  const redis = await openOwnRedis(options);
  opened.push(redis);
  return redis;
}

/** The error's code and text. */
async function refused(url: string): Promise<string> {
  try {
    await stage.worker(url);
    return "taken";
  } catch (error) {
    const { code, message, stack } = error as Error & { code: string };
    expect(`${JSON.stringify(error)} ${message} ${String(stack)}`).not.toContain(SECRET);
    return `${code}: ${message}`;
  }
}

/** Delivers, with a worker of its own. */
async function delivers(url: string, id: string): Promise<void> {
  const worker = await stage.worker(url);
  worker.scheduler.start();
  await stage.add(`${id}@1/a`);
  worker.scheduler.wake();
  await stage.nothingWaits();
  expect(stage.posted.map((post) => post.id)).toContain(id);
  await worker.end();
}

/** The address with a user and password in it. */
function as(redis: OwnRedis, user: string, password: string): string {
  return redis.url.replace("redis://", `redis://${user}:${encodeURIComponent(password)}@`);
}

describe("an address", () => {
  it("sets user, password, database and the prefix of all keys", async () => {
    const redis = await redisWith();
    const rules = "resetkeys ~news:* +@all -@dangerous +info";
    await redis.client.call("ACL", "SETUSER", "news", "on", `>${SECRET}@/:%`, ...rules.split(" "));
    await delivers(`${as(redis, "news", `${SECRET}@/:%`)}/3?prefix=news`, "d1");
    expect(stage.warnings).toEqual([]);
    expect(await redis.client.dbsize()).toBe(0);
    await redis.client.select(3);
    const keys = await redis.client.keys("*");
    expect(keys).toContain("news:deliveries:meta");
    expect(keys.filter((key) => !key.startsWith("news:"))).toEqual([]);
  });

  it("with the password of the default user is accepted, and with a wrong one refused at once", async () => {
    const redis = await redisWith();
    await redis.client.config("SET", "requirepass", SECRET);
    await delivers(as(redis, "", SECRET), "d1");
    for (const url of [redis.url, as(redis, "", "wrong"), as(redis, "nobody", SECRET)]) {
      expect(await refused(url)).toMatch(
        /^storage_unavailable: the Redis of config\.queue can't be used \((?:NOAUTH|WRONGPASS)\)$/,
      );
    }
  });

  it("of a missing database is refused: the first database does not take its place", async () => {
    const redis = await redisWith();
    expect(await refused(`${redis.url}/16`)).toBe(
      "invalid_configuration: config.queue: this Redis has no database of this number",
    );
  });
});

describe("a user without enough rights", () => {
  it("is refused at the start, for the keys, for scripts and for what they use", async () => {
    const redis = await redisWith();
    const url = as(redis, "news", SECRET);
    const setUser = (...rules: string[]): Promise<unknown> =>
      redis.client.call("ACL", "SETUSER", "news", "reset", "on", `>${SECRET}`, ...rules);
    for (const rules of [
      ["~other:*", "+@all"],
      ["~*", "+@all", "-@scripting"],
      ["~*", "+@all", "-xadd"],
      ["~*", "+@all", "-zadd"],
      ["~*", "+@all", "-hmset", "-hset"],
    ]) {
      await setUser(...rules);
      expect(await refused(url)).toBe(
        "storage_unavailable: the Redis of config.queue can't be used (NOPERM)",
      );
    }
  });

  it("works without INFO: a warning asks the operator to check the eviction policy", async () => {
    const redis = await redisWith();
    const rules = "resetkeys ~sign-in-service:* +@all -@dangerous";
    await redis.client.call("ACL", "SETUSER", "news", "on", `>${SECRET}`, ...rules.split(" "));
    const warn = jest.spyOn(console, "warn").mockImplementation(() => undefined);
    await delivers(as(redis, "news", SECRET), "d1");
    expect(JSON.stringify(warn.mock.calls)).not.toContain(SECRET);
    warn.mockRestore();
    expect(stage.warnings).toEqual([
      "the maxmemory-policy of the Redis of config.queue can't be read (the user may not use INFO): make sure that it is noeviction",
    ]);
  });
});

describe("what this Redis is", () => {
  it("one that may evict keys is used with a warning, also when CONFIG is forbidden", async () => {
    const redis = await redisWith("--maxmemory-policy", "allkeys-lru", "--rename-command", "CONFIG", "");
    await delivers(redis.url, "d1");
    expect(stage.warnings).toEqual([
      "the Redis of config.queue has maxmemory-policy allkeys-lru: set it to noeviction, or wake-ups get lost and notifications are late when its memory is full",
    ]);
  });

  it("a Redis cluster is refused where the address names one server", async () => {
    const redis = await redisWith("--cluster-enabled", "yes");
    expect(await refused(redis.url)).toBe(
      "invalid_configuration: config.queue: this is a Redis cluster: begin the address with redis+cluster://",
    );
  });

  it("a replica is refused", async () => {
    const redis = await redisWith("--replicaof", "127.0.0.1 1");
    expect(await refused(redis.url)).toBe(
      "invalid_configuration: config.queue: this Redis is a replica: name the primary",
    );
  });

  it("one that becomes a replica is left for the primary that takes its address", async () => {
    const redis = await redisWith();
    const { scheduler } = await stage.worker(redis.url);
    await redis.client.call("REPLICAOF", "127.0.0.1", "1");
    await stage.add("d1@1/a");
    scheduler.wake();
    await until(() => !scheduler.ok);
    await redis.client.call("REPLICAOF", "NO", "ONE");
    await until(() => scheduler.ok);
    await until(async () => (await wakeUps(redis.client)).length === 1);
  });

  it("one whose memory is full delays, and loses nothing", async () => {
    const redis = await redisWith();
    const { scheduler } = await stage.worker(redis.url);
    await redis.client.config("SET", "maxmemory", "1");
    await stage.add("d1@1/a");
    scheduler.wake();
    await until(() => stage.faults.length > 0);
    await redis.client.config("SET", "maxmemory", "0");
    await until(async () => (await wakeUps(redis.client)).length === 1);
    scheduler.start();
    await stage.nothingWaits();
    expect(stage.faults).toHaveLength(1);
  });

  it("one that starts later than the service is waited for", async () => {
    const redis = await redisWith();
    await redis.stop();
    const starting = delivers(redis.url, "d1");
    await new Promise((resolve) => setTimeout(resolve, 300));
    await redis.start();
    await starting;
  });
});

describe("TLS", () => {
  const trusted = getCACertificates("default");
  afterEach(() => setDefaultCACertificates(trusted));

  it("is used with rediss://, and the certificate must be trusted and issued for this host", async () => {
    const { options, port, cert, remove } = await newRedisTls();
    await redisWith(...options);
    const url = `rediss://localhost:${port}`;
    expect(await refused(url)).toContain("DEPTH_ZERO_SELF_SIGNED_CERT");
    setDefaultCACertificates([...trusted, cert]);
    await delivers(url, "d1");
    expect(await refused(`rediss://127.0.0.1:${port}`)).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
    expect(await refused(`redis://localhost:${port}`)).toContain("storage_unavailable");
    remove();
  });
});
