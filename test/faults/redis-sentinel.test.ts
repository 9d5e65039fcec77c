/** Codes, tokens and sessions on a Redis whose primary the sentinels replace, with TLS, and with ACL users for servers and sentinels. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeAll, expect, it, jest } from "@jest/globals";
import { openRedis } from "../../adapters/redis/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { rounds } from "../rounds.ts";
import { doctor, write } from "../cli/doctor-stage.ts";
import { closing } from "../closing.ts";
import { openSentinels, type RedisNode } from "../servers/redis-group.ts";
import { expectRefusals, queueThroughFault, throughFault } from "./failover.ts";
import { exchange, sendPatiently, signedIn, tokensOf } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";

jest.setTimeout(60_000);

/** How long the old primary of a split lives on. */
const SPLIT_MS = rounds(2_000, 10_000);

let group: Awaited<ReturnType<typeof openSentinels>>;
let stage: Stage;

beforeAll(async () => {
  group = closing(await openSentinels({ secured: true }));
  // Without `replicas`, what was acknowledged in the last moment of the old primary would be lost.
  stage = closing(await openStage({ artifacts: `${group.url}&replicas=1` }));
});

async function newPrimary(old: RedisNode): Promise<void> {
  while ((await group.primary()) === old) await pause(20);
}

/** Until the other server is a replica, so that commits are confirmed again. */
async function bothServe(): Promise<void> {
  const { client } = await group.primary();
  while (!/^slave0:.*state=online/mu.test(await client.info("replication"))) await pause(20);
}

const name = ({ port }: RedisNode): string => `127.0.0.1:${port}`;

/** How many connections of the service a server has. */
async function connections({ client }: RedisNode): Promise<number> {
  const list = String(await client.client("LIST"));
  return list.split("\n").filter((line) => line.includes(" user=sign-in ")).length - 1;
}

afterEach(bothServe);

it("a primary that is killed: the next one takes over, and what was acknowledged is there [D-REDIS-1]", async () => {
  const old = await group.primary();
  await throughFault(stage, async () => {
    await old.kill();
    await newPrimary(old);
    await old.start(["--replicaof", `127.0.0.1 ${(await group.primary()).port}`]);
    await bothServe();
  });
});

it("the queue on a primary that is killed wakes workers on the next one [D-REDIS-1]", async () => {
  const old = await group.primary();
  await queueThroughFault(group.url, async () => {
    await old.kill();
    await newPrimary(old);
  });
  await old.start(["--replicaof", `127.0.0.1 ${(await group.primary()).port}`]);
});

it("a primary that hangs, and wakes up when another has taken over [D-REDIS-1]", async () => {
  const old = await group.primary();
  await throughFault(stage, async () => {
    old.pause();
    await newPrimary(old);
    old.resume();
    // The sentinels make it a replica after ten seconds.
    await pause(SPLIT_MS);
    await old.client.replicaof("127.0.0.1", (await group.primary()).port);
    await bothServe();
  });
});

it("a primary that lives on, cut off from the sentinels: the service leaves it for the new one [D-REDIS-2]", async () => {
  const old = await group.primary();
  await throughFault(stage, async () => {
    await group.cutOff(old);
    await newPrimary(old);
    const now = await group.primary();
    // Nobody has told the old one, and yet the service leaves it.
    while ((await connections(old)) > 0) await pause(20);
    await pause(SPLIT_MS);
    expect(await old.client.info("replication")).toContain("role:master");
    expect([await connections(old), (await connections(now)) > 0]).toEqual([0, true]);
    await group.join(old);
    await old.client.replicaof("127.0.0.1", now.port);
    await bothServe();
  });
});

it("a sentinel that is lost is not missed, and doctor names it with the servers [D-REDIS-5]", async () => {
  const lost = group.sentinels[2]!;
  await lost.kill();
  const other = closing(await openStage({ artifacts: group.url }));
  const { code } = await signedIn(other);
  await tokensOf(await sendPatiently(exchange(other.oauth2, other.clients.news, code)));
  // `doctor` names all servers, and what is wrong with each.
  const now = await group.primary();
  const replica = group.nodes.find((node) => node !== now)!;
  await replica.client.config("SET", "maxmemory-policy", "allkeys-lru");
  const deployments = { oauth2: { url: other.oauth2 }, openid: { url: other.openid } };
  const config = { deployments, storage: `sqlite:${other.file}`, artifacts: group.url };
  const { lines } = await doctor(["--config", write(config, "sentinel.json")]);
  await replica.client.config("SET", "maxmemory-policy", "noeviction");
  const found = lines.filter(({ check }) => check === "redis").map(({ level, what }) => `${level}: ${what}`);
  expect(found.toSorted()).toEqual(
    [
      `note: The Redis of config.artifacts: primary ${name(now)}, replica ${name(replica)}, ${group.sentinels.map((each) => `sentinel ${name(each)}`).join(", ")}.`,
      `problem: The replica ${name(replica)} of config.artifacts has maxmemory-policy allkeys-lru.`,
      `warning: The primary ${name(now)} of config.artifacts acknowledges what no replica has: min-replicas-to-write is 0, and the address has no replicas.`,
      `warning: The sentinel ${name(lost)} of config.artifacts can't be asked (ECONNREFUSED).`,
    ].toSorted(),
  );
  await lost.start();
});

it("an address that the sentinels can't answer is refused at the start, in one sentence [D-REDIS-4, D-REDIS-11]", async () => {
  const clock = createSystemClock();
  const refused = async (url: string): Promise<unknown> => openRedis({ url, clock }).catch(String);
  expect(await refused(group.url.replace("master=main", "master=other"))).toBe(
    "StorageUnavailable: the Redis of config.artifacts can't be used (the sentinels know no primary of this name)",
  );
  await expectRefusals(group.url, "the primary");
  const sentinelPassword = /sentinel_password=[^&]+/u;
  expect(await refused(group.url.replace(sentinelPassword, "sentinel_password=wrong"))).toBe(
    "StorageUnavailable: the Redis of config.artifacts can't be used (a sentinel can't be asked (WRONGPASS))",
  );
  const [tls] = /ca_file=.+$/u.exec(group.url)!;
  // A sentinel lets this user ask for the primary, and for what it is itself.
  const asking = /sentinel_user=([^&]+)&sentinel_password=([^&]+)/u.exec(group.url)!.slice(1).join(":");
  expect(await refused(`rediss://${asking}@127.0.0.1:${group.sentinels[0]!.port}?${tls}`)).toMatch(
    /this is a sentinel: begin the address with redis\+sentinel:\/\//,
  );
});
