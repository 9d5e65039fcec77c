/** Several Redis processes that replace a primary which is lost: with sentinels, or as a cluster. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { freePorts } from "../examples/processes.ts";
import { type RedisProcess, redisProcess } from "./redis.ts";

/** One process. */
export interface RedisNode extends RedisProcess {
  readonly port: number;
  /** A connection of the test's own. */
  readonly client: Redis;
  close(): Promise<void>;
}

/** @param login of the test. */
async function startNode(
  folder: string,
  port: number,
  options: readonly string[],
  login: { readonly username?: string; readonly password?: string } = {},
): Promise<RedisNode> {
  const client = new Redis({
    port,
    ...login,
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: () => 50,
  });
  client.on("error", () => undefined);
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const process = redisProcess([...options, ...own]);
  await process.start();
  await client.connect();
  return {
    ...process,
    port,
    client,
    async close() {
      client.disconnect();
      await process.kill();
    },
  };
}

const NOT_SAVED = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"];

export interface RedisGroup {
  /** Its address, for `artifacts` and `queue`. */
  readonly url: string;
  readonly nodes: readonly RedisNode[];
  close(): Promise<void>;
}

/** How long a primary does not answer before it is replaced. */
const DOWN_AFTER_MS = 500;

/** As whom the sentinels and the replica connect; the service and the test are somebody else. */
const WATCHER = ["watcher", "only-a-test"] as const;
const SERVICE = { username: "sign-in", password: "only-a-test-as-well" };

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds().catch(() => false))) await pause(20);
}

/**
 * A primary, a replica and three sentinels.
 * @param options for both servers.
 */
export async function openSentinels(options: readonly string[] = []): Promise<
  RedisGroup & {
    readonly sentinels: readonly RedisNode[];
    /** The primary, as a sentinel sees it. */
    primary(): Promise<RedisNode>;
    /** Cuts a server off from the sentinels and from the other server, and from nobody else. */
    cutOff(node: RedisNode): Promise<void>;
    /** Ends that. */
    join(node: RedisNode): Promise<void>;
  }
> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-sentinel-"));
  const port = await freePorts(5);
  const started: RedisNode[] = [];
  const close = async (): Promise<void> => {
    for (const node of started.toReversed()) await node.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const [user, password] = WATCHER;
    const all = ["~*", "&*", "+@all"];
    const watcher = ["--user", user, "on", ...all, `>${password}`];
    const service = ["--user", SERVICE.username, "on", ...all, `>${SERVICE.password}`];
    const users = ["--user", "default", "off", ...watcher, ...service];
    const replication = ["--masteruser", user, "--masterauth", password, "--repl-diskless-sync-delay", "0"];
    const common = [...NOT_SAVED, ...users, ...replication, ...options];
    const primary = await startNode(folder, port, common, SERVICE);
    started.push(primary);
    const replica = await startNode(
      folder,
      port + 1,
      [...common, "--replicaof", `127.0.0.1 ${port}`],
      SERVICE,
    );
    started.push(replica);
    await until(async () => /master_link_status:up/u.test(await replica.client.info("replication")));
    const sentinels: RedisNode[] = [];
    for (const each of [port + 2, port + 3, port + 4]) {
      const file = join(folder, `sentinel-${each}.conf`);
      const lines = [
        `sentinel monitor main 127.0.0.1 ${port} 2`,
        `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
        "sentinel failover-timeout main 1000",
        `sentinel auth-user main ${user}`,
        `sentinel auth-pass main ${password}`,
      ];
      writeFileSync(file, `${lines.join("\n")}\n`);
      const sentinel = await startNode(folder, each, [file, "--sentinel"]);
      sentinels.push(sentinel);
      started.push(sentinel);
    }
    const state = async (sentinel: RedisNode): Promise<string> => {
      const flat = (await sentinel.client.call("SENTINEL", "MASTER", "main")) as string[];
      const fields = Object.fromEntries(flat.flatMap((name, at) => (at % 2 ? [] : [[name, flat[at + 1]]])));
      return `${fields["num-slaves"]} ${fields["num-other-sentinels"]}`;
    };
    for (const sentinel of sentinels) await until(async () => (await state(sentinel)) === "1 2");
    return {
      url: `redis+sentinel://${SERVICE.username}:${SERVICE.password}@${sentinels.map((each) => `127.0.0.1:${each.port}`).join()}/0?master=main`,
      nodes: [primary, replica],
      sentinels,
      close,
      async cutOff({ client }) {
        await client.call("ACL", "SETUSER", user, "off");
        await client.call("CLIENT", "KILL", "USER", user);
      },
      async join({ client }) {
        await client.call("ACL", "SETUSER", user, "on");
      },
      async primary() {
        const [, now] = (await sentinels[0]!.client.call(
          "SENTINEL",
          "GET-MASTER-ADDR-BY-NAME",
          "main",
        )) as string[];
        return [primary, replica].find((each) => String(each.port) === now)!;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A cluster of three primaries, each with a replica. */
export async function openCluster(options: readonly string[] = []): Promise<
  RedisGroup & {
    /** The primary that serves the slot, as one node sees it. */
    ofSlot(slot: number, asked?: Redis): Promise<RedisNode>;
    primaries(): Promise<readonly RedisNode[]>;
    /** From here on the two nodes have the keys of the slot together. */
    beginMove(slot: number, from: RedisNode, to: RedisNode): Promise<void>;
    /** Moves a slot with all its keys. */
    move(slot: number, from: RedisNode, to: RedisNode): Promise<void>;
  }
> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-redis-cluster-"));
  // Each has a second port for the other nodes.
  const port = await freePorts(12);
  const nodes: RedisNode[] = [];
  const close = async (): Promise<void> => {
    for (const node of nodes.toReversed()) await node.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    for (let at = 0; at < 6; at += 1) {
      const cluster = ["--cluster-enabled", "yes", "--cluster-config-file", `nodes-${at}.conf`];
      const ports = ["--cluster-port", String(port + 6 + at), "--cluster-node-timeout", "1000"];
      const how = [...NOT_SAVED, ...cluster, ...ports, "--repl-diskless-sync-delay", "0", ...options];
      nodes.push(await startNode(folder, port + at, how));
    }
    const hosts = nodes.map((node) => `127.0.0.1:${node.port}`);
    await promisify(execFile)("redis-cli", [
      "--cluster",
      "create",
      ...hosts,
      "--cluster-replicas",
      "1",
      "--cluster-yes",
    ]);
    for (const { client } of nodes)
      await until(async () => {
        const state = await client.cluster("INFO");
        return /cluster_state:ok/u.test(state) && /cluster_known_nodes:6/u.test(state);
      });
    const replicas = async (): Promise<number> => {
      const infos = await Promise.all(nodes.map(({ client }) => client.info("replication")));
      return infos.filter((info) => /master_link_status:up/u.test(info)).length;
    };
    await until(async () => (await replicas()) === 3);
    async function ofSlot(slot: number, asked = nodes[0]!.client): Promise<RedisNode> {
      const slots = await asked.cluster("SLOTS");
      const owner = slots.find(([first, last]) => first <= slot && slot <= last)?.[2];
      return nodes.find(({ port: own }) => own === owner?.[1])!;
    }
    const set = async (node: RedisNode, slot: number, ...how: string[]): Promise<unknown> =>
      node.client.call("CLUSTER", "SETSLOT", slot, ...how);
    const idOf = async ({ client }: RedisNode): Promise<string> =>
      String(await client.call("CLUSTER", "MYID"));
    async function beginMove(slot: number, from: RedisNode, to: RedisNode): Promise<void> {
      await set(to, slot, "IMPORTING", await idOf(from));
      await set(from, slot, "MIGRATING", await idOf(to));
    }
    async function move(slot: number, from: RedisNode, to: RedisNode): Promise<void> {
      await beginMove(slot, from, to);
      for (;;) {
        const keys = (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, 10)) as string[];
        if (keys.length === 0) break;
        await from.client.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", ...keys);
        await pause(1);
      }
      for (const node of [to, from]) await set(node, slot, "NODE", await idOf(to));
    }
    const primaries = async (): Promise<readonly RedisNode[]> => [
      ...new Set(await Promise.all([0, 8_000, 16_383].map((slot) => ofSlot(slot)))),
    ];
    const url = `redis+cluster://${hosts.join()}`;
    return { url, nodes, ofSlot, primaries, beginMove, move, close };
  } catch (error) {
    await close();
    throw error;
  }
}
