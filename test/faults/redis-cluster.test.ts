/** Codes, tokens and sessions on a Redis cluster of six processes, with TLS and the documented rights of ACL users. */
import { setTimeout as pause } from "node:timers/promises";
import * as runner from "@jest/globals";
import { openRedis } from "../../adapters/redis/record-store.ts";
import { doctor, write } from "../cli/doctor-stage.ts";
import { closing } from "../closing.ts";
import { rounds } from "../rounds.ts";
import { openCluster, type RedisNode } from "../servers/redis-group.ts";
import { describeStorage } from "../../testing/storage/suite.ts";

import { expectRefusals, queueThroughFault, statusOf, throughFault } from "./failover.ts";
import { exchange, send } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";

const { beforeAll, describe, expect, it, jest } = runner;

jest.setTimeout(60_000);

/** An operator's tool moves up to 5,461 slots before it comes to this one. */
const MOVES_WITH = rounds<"MIGRATE" | "reshard">("MIGRATE", "reshard");

let group: Awaited<ReturnType<typeof openCluster>>;

beforeAll(async () => {
  group = closing(await openCluster({ secured: true }));
});

const name = ({ port }: RedisNode): string => `127.0.0.1:${port}`;

let stores = 0;
describeStorage(
  "a Redis cluster",
  {
    open: (clock) => {
      stores += 1;
      return openRedis({ url: group.url, clock, storageId: `store-${stores}` });
    },
    reopen: (clock) => openRedis({ url: group.url, clock, storageId: `store-${stores}` }),
  },
  runner,
);

describe("a service", () => {
  let stage: Stage;
  let slot: number;

  beforeAll(async () => {
    // Without `replicas`, what was acknowledged in the last moment of a primary would be lost.
    stage = closing(await openStage({ artifacts: `${group.url}&replicas=1` }));
    const keys = await Promise.all(group.nodes.map(({ client }) => client.keys("sign-in:*")));
    const own = keys.flat().find((key) => !key.includes("{store-"));
    slot = await group.nodes[0]!.client.cluster("KEYSLOT", own!);
  });

  it("whose slot moves to another node while requests run loses and repeats nothing [D-REDIS-3]", async () => {
    const from = await group.ofSlot(slot);
    const to = (await group.primaries()).find((node) => node !== from)!;
    await throughFault(stage, async () => {
      await (MOVES_WITH === "MIGRATE" ? group.move(slot, from, to) : group.reshard(slot));
    });
    expect(await group.ofSlot(slot)).not.toBe(from);
  });

  it("refuses what it is asked while its keys are on two nodes, and writes none of it [D-REDIS-3]", async () => {
    const from = await group.ofSlot(slot);
    const to = (await group.primaries()).find((node) => node !== from)!;
    const keysOf = async ({ client }: RedisNode): Promise<string[]> =>
      (await client.call("CLUSTER", "GETKEYSINSLOT", slot, 10_000)) as string[];
    await group.beginMove(slot, from, to);
    const [first] = await keysOf(from);
    await from.client.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", first!);
    const before = [await keysOf(from), await keysOf(to)];
    const asked = send(exchange(stage.oauth2, stage.clients.news, "no-such-code"));
    expect(await statusOf(asked)).toBe(503);
    const after = [await keysOf(from), await keysOf(to)];
    expect(after.map((keys, at) => keys.filter((key) => !before[at]!.includes(key)))).toEqual([[], []]);
    await group.move(slot, from, to);
    while (!(await stage.service.health()).ok) await pause(20);
  });

  it("whose primary is killed goes on with its replica [D-REDIS-1]", async () => {
    const old = await group.ofSlot(slot);
    await throughFault(stage, async () => {
      await old.kill();
      await replaced(old);
      await old.start();
    });
  });

  it("whose primary hangs goes on with its replica [D-REDIS-1]", async () => {
    const old = await group.ofSlot(slot);
    await throughFault(stage, async () => {
      old.pause();
      await replaced(old);
      old.resume();
    });
  });

  it("whose queue moves, too, wakes its workers [D-REDIS-3]", async () => {
    const own = await group.nodes[0]!.client.cluster("KEYSLOT", "{sign-in-service}");
    const from = await group.ofSlot(own);
    const to = (await group.primaries()).find((node) => node !== from)!;
    await queueThroughFault(group.queueUrl, () => group.move(own, from, to));
  });

  it("is told at the start what is wrong with its address, without a secret [D-REDIS-11]", async () => {
    await expectRefusals(group.url, "a node of the cluster");
  });

  it("doctor names a primary without a replica, one that evicts keys, and slots that nobody serves [D-REDIS-12]", async () => {
    const config = write(
      {
        deployments: { oauth2: { url: stage.oauth2 }, openid: { url: stage.openid } },
        storage: `sqlite:${stage.file}`,
        artifacts: group.url,
        queue: group.queueUrl,
      },
      "cluster.json",
    );
    const found = async (): Promise<readonly (string | undefined)[]> => {
      const { lines } = await doctor(["--config", config]);
      return lines.filter(({ check }) => check === "redis").map(({ level, what }) => `${level}: ${what}`);
    };
    const primaries = await group.primaries();
    const own = await group.ofSlot(slot);
    const other = primaries.find((node) => node !== own)!;
    const replicas = await group.replicasOf(other);
    await own.client.config("SET", "maxmemory-policy", "allkeys-lru");
    for (const node of group.nodes) await node.client.config("SET", "cluster-require-full-coverage", "no");
    for (const replica of replicas) await replica.kill();
    const ranges = await other.client.cluster("SLOTS");
    const [lost] = ranges.find(([, , owner]) => owner?.[1] === other.port)!;
    // The owner first: the others believe what it says.
    for (const node of [other, ...group.nodes.filter((each) => each !== other && !replicas.includes(each))])
      await node.client.call("CLUSTER", "DELSLOTS", lost);
    const texts = await found();
    for (const key of ["artifacts", "queue"])
      expect(texts).toEqual(
        expect.arrayContaining([
          `problem: The primary ${name(own)} of config.${key} has maxmemory-policy allkeys-lru.`,
          `warning: The primary ${name(other)} of config.${key} has no replica.`,
          `problem: No primary of the cluster of config.${key} serves 1 of its 16384 slots.`,
        ]),
      );
    expect(texts.filter((text) => text?.includes("acknowledges what no replica has"))).toHaveLength(
      primaries.length,
    );
    await other.kill();
    // It may be that of the queue, which does not keep back what there is to say about the others.
    expect(await found()).toContain(
      `warning: The primary ${name(other)} of config.artifacts can't be asked (ECONNREFUSED).`,
    );
  });

  async function replaced(old: RedisNode): Promise<void> {
    const others = group.nodes.filter((node) => node !== old);
    for (const { client } of others) while ((await group.ofSlot(slot, client)) === old) await pause(20);
  }
});
