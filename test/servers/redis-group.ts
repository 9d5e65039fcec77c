/** Several Redis processes that replace a primary which is lost: with sentinels, or as a cluster. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { freePorts } from "../examples/processes.ts";
import { documentedRights, type RedisProcess, redisProcess } from "./redis.ts";
import { type MutualTls, newMutualTls } from "./redis-tls.ts";

/** One process. */
export interface RedisNode extends RedisProcess {
  readonly port: number;
  /** A connection of the test's own. */
  readonly client: Redis;
  close(): Promise<void>;
}

interface NodeOptions {
  readonly folder: string;
  /** With it, there is no port without TLS. */
  readonly tls: MutualTls | undefined;
  /** Of the test. */
  readonly login?: { readonly username: string; readonly password: string };
}

async function startNode(
  { folder, tls, login }: NodeOptions,
  port: number,
  options: readonly string[],
): Promise<RedisNode> {
  const client = new Redis({
    port,
    host: "127.0.0.1",
    ...(tls && { tls: tls.client }),
    ...login,
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: () => 50,
  });
  client.on("error", () => undefined);
  const ports = tls?.options(port) ?? ["--port", String(port)];
  const own = [...ports, "--bind", "127.0.0.1", "--dir", folder];
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
/** Whose keys are those of the queue. */
const QUEUE = { username: "queue", password: "only-a-queue" };
/** As whom the service asks the sentinels. They and the test are `watcher` there, too. */
const ASKING = { username: "asking", password: "only-a-question" };

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds().catch(() => false))) await pause(20);
}

interface GroupOptions {
  /** With TLS on every connection, and certificates on both sides. */
  readonly secured?: boolean;
}

/** A primary, a replica and three sentinels. */
export async function openSentinels({ secured = false }: GroupOptions = {}): Promise<
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
    const common = [...NOT_SAVED, ...users, ...replication];
    const tls = secured ? newMutualTls(folder) : undefined;
    const how = { folder, tls, login: SERVICE };
    const primary = await startNode(how, port, common);
    started.push(primary);
    const replica = await startNode(how, port + 1, [...common, "--replicaof", `127.0.0.1 ${port}`]);
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
        `sentinel sentinel-user ${user}`,
        `sentinel sentinel-pass ${password}`,
        "user default off",
        `user ${user} on ${all.join(" ")} >${password}`,
        `user ${ASKING.username} on ${documentedRights().sentinel.join(" ")} >${ASKING.password}`,
      ];
      writeFileSync(file, `${lines.join("\n")}\n`);
      const login = { username: user, password };
      const sentinel = await startNode({ folder, tls, login }, each, [file, "--sentinel"]);
      sentinels.push(sentinel);
      started.push(sentinel);
    }
    const state = async (sentinel: RedisNode): Promise<string> => {
      const flat = (await sentinel.client.call("SENTINEL", "MASTER", "main")) as string[];
      const fields = Object.fromEntries(flat.flatMap((name, at) => (at % 2 ? [] : [[name, flat[at + 1]]])));
      return `${fields["num-slaves"]} ${fields["num-other-sentinels"]}`;
    };
    for (const sentinel of sentinels) await until(async () => (await state(sentinel)) === "1 2");
    const parameters = [
      `master=main&sentinel_user=${ASKING.username}&sentinel_password=${ASKING.password}`,
      ...(tls === undefined ? [] : [tls.parameters]),
    ].join("&");
    return {
      url: `redis${secured ? "s" : ""}+sentinel://${SERVICE.username}:${SERVICE.password}@${sentinels.map((each) => `127.0.0.1:${each.port}`).join()}/0?${parameters}`,
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

/**
 * A cluster of three primaries, each with a replica. If it is secured, the users of the addresses have the documented rights
 * and no other.
 */
export async function openCluster({ secured = false }: GroupOptions = {}): Promise<
  RedisGroup & {
    /** The address for `queue`, with a user that can reach only the keys of the queue. */
    readonly queueUrl: string;
    /** The primary that serves the slot, as one node sees it. */
    ofSlot(slot: number, asked?: Redis): Promise<RedisNode>;
    primaries(): Promise<readonly RedisNode[]>;
    replicasOf(primary: RedisNode): Promise<readonly RedisNode[]>;
    /** From here on the two nodes have the keys of the slot together. */
    beginMove(slot: number, from: RedisNode, to: RedisNode): Promise<void>;
    /** Moves a slot with all its keys. */
    move(slot: number, from: RedisNode, to: RedisNode): Promise<void>;
    /** Moves a slot with `redis-cli --cluster reshard`, and all slots before it of the same primary. */
    reshard(slot: number): Promise<void>;
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
    const tls = secured ? newMutualTls(folder) : undefined;
    const rights = documentedRights();
    const userFor = ({ username, password }: typeof QUEUE, rules: readonly string[]): string[] => [
      "--user",
      username,
      "on",
      `>${password}`,
      ...rules,
      ...rights.cluster,
    ];
    const ofQueue = rights.queue.filter((rule) => !rule.startsWith("~"));
    const users = [
      ...userFor(SERVICE, rights.artifacts),
      ...userFor(QUEUE, ["~{sign-in-service}:*", ...ofQueue]),
    ];
    for (let at = 0; at < 6; at += 1) {
      const cluster = ["--cluster-enabled", "yes", "--cluster-config-file", `nodes-${at}.conf`];
      const ports = ["--cluster-port", String(port + 6 + at), "--cluster-node-timeout", "1000"];
      const how = [...NOT_SAVED, ...cluster, ...ports, "--repl-diskless-sync-delay", "0", ...users];
      nodes.push(await startNode({ folder, tls }, port + at, how));
    }
    const hosts = nodes.map((node) => `127.0.0.1:${node.port}`);
    await promisify(execFile)("redis-cli", [
      "--cluster",
      "create",
      ...hosts,
      "--cluster-replicas",
      "1",
      "--cluster-yes",
      ...(tls?.flags ?? []),
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
    async function primaries(): Promise<readonly RedisNode[]> {
      const slots = await nodes[0]!.client.cluster("SLOTS");
      const owners = new Set(slots.map(([, , owner]) => owner?.[1]));
      return nodes.filter((node) => owners.has(node.port));
    }
    async function reshard(slot: number): Promise<void> {
      const from = await ofSlot(slot);
      const to = (await primaries()).find((node) => node !== from)!;
      const ranges = (await from.client.cluster("SLOTS")).filter(([, , owner]) => owner?.[1] === from.port);
      const upTo = ranges.map(([first, last]) => Math.max(0, Math.min(last, slot) - first + 1));
      await promisify(execFile)("redis-cli", [
        "--cluster",
        "reshard",
        `127.0.0.1:${from.port}`,
        "--cluster-from",
        await idOf(from),
        "--cluster-to",
        await idOf(to),
        "--cluster-slots",
        String(upTo.reduce((all, each) => all + each, 0)),
        "--cluster-yes",
        ...(tls?.flags ?? []),
      ]);
      await until(async () => (await ofSlot(slot)) === to);
    }
    const [scheme, query] = tls === undefined ? ["redis", ""] : ["rediss", `?${tls.parameters}`];
    const urlOf = ({ username, password }: typeof QUEUE): string =>
      `${scheme}+cluster://${secured ? `${username}:${password}@` : ""}${hosts.join()}${query}`;
    return {
      url: urlOf(SERVICE),
      queueUrl: urlOf(QUEUE),
      nodes,
      ofSlot,
      primaries,
      replicasOf: async ({ client }) => {
        const found = [...(await client.info("replication")).matchAll(/^slave\d+:.*port=(\d+)/gmu)];
        return nodes.filter(({ port: own }) => found.some(([, each]) => String(own) === each));
      },
      beginMove,
      move,
      reshard,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
