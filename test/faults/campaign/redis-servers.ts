/** The Redis of the artifacts, or of the queue: one server, or several that replace each other. */
import { setTimeout as pause } from "node:timers/promises";
import { openOwnRedis } from "../../servers/redis.ts";
import { openCluster, openSentinels, type RedisNode } from "../../servers/redis-group.ts";
import type { StorageServer } from "./server.ts";

/** What is on it. Artifacts are never lost; the queue may be. */
type Use = "artifacts" | "queue";

export interface RedisServer extends StorageServer {
  /** Loses everything. */
  empty(): Promise<unknown>;
}

export interface OpenRedis {
  readonly url: string;
  readonly server: RedisServer;
  close(): Promise<void>;
}

/** Connections of one process. */
const CONNECTIONS: Readonly<Record<Use, number>> = { artifacts: 1, queue: 3 };
/** Where the primary is looked for, it is asked with connections of their own. */
const FOLLOWING = 3;

async function openOne(use: Use): Promise<OpenRedis> {
  const redis = await openOwnRedis(
    use === "artifacts" ? ["--appendonly", "yes", "--appendfsync", "always"] : [],
  );
  const port = Number(new URL(redis.url).port);
  return {
    url: redis.url,
    server: {
      ...redis,
      kill: () => redis.stop(),
      port,
      most: CONNECTIONS[use],
      empty: () => redis.client.flushall(),
    },
    close: () => redis.close(),
  };
}

/** Several servers of which another becomes the primary when it is lost; each write of artifacts is on two of them. */
interface Group {
  readonly url: string;
  readonly use: Use;
  readonly nodes: readonly RedisNode[];
  /** The primary, as this node sees it. */
  readonly primary: (asked: RedisNode) => Promise<RedisNode>;
  /** Begins to follow another primary. */
  readonly follow: (lost: RedisNode, primary: RedisNode) => Promise<unknown>;
  /** Starts one that was killed, as a replica. */
  readonly restart: (lost: RedisNode, primary: RedisNode) => Promise<void>;
  readonly move?: () => Promise<void>;
  readonly close: () => Promise<void>;
}

function replaceable({ url, use, nodes, primary, follow, restart, move, close }: Group): OpenRedis {
  let current = nodes[0]!;
  const next = async (lost: RedisNode): Promise<RedisNode> => {
    const other = nodes.find((node) => node !== lost)!;
    for (;;) {
      const found = await primary(other);
      if (found !== lost) return found;
      await pause(50);
    }
  };
  const server: RedisServer = {
    get port() {
      return current.port;
    },
    most: CONNECTIONS[use] + FOLLOWING,
    // Only when a replica can take over: nothing is promised for the loss of both.
    async kill() {
      current = await primary(nodes[0]!);
      while (!/^slave0:.*state=online/mu.test(await current.client.info("replication"))) await pause(50);
      await current.kill();
    },
    async start() {
      const lost = current;
      current = await next(lost);
      await restart(lost, current);
    },
    pause: () => current.pause(),
    resume() {
      const lost = current;
      lost.resume();
      void primary(nodes.find((node) => node !== lost)!).then((now) => now !== lost && follow(lost, now));
    },
    async empty() {
      current = await primary(nodes[0]!);
      await current.client.flushall();
    },
    ...(move && {
      async move() {
        await move();
        current = await primary(nodes[0]!);
      },
    }),
  };
  return { url, server, close };
}

async function openSentinelGroup(use: Use): Promise<OpenRedis> {
  const group = await openSentinels();
  return replaceable({
    ...group,
    use,
    url: use === "artifacts" ? `${group.url}&replicas=1` : group.url,
    primary: () => group.primary(),
    follow: ({ client }, { port }) => client.replicaof("127.0.0.1", port),
    restart: (lost, { port }) => lost.start(["--replicaof", `127.0.0.1 ${port}`]),
  });
}

async function openClusterGroup(use: Use): Promise<OpenRedis> {
  const group = await openCluster();
  let slot: number | undefined;
  const findSlot = async (): Promise<number> => {
    const { client } = group.nodes[0]!;
    if (use === "queue") return client.cluster("KEYSLOT", "{sign-in-service}");
    const keys = await Promise.all(group.nodes.map((node) => node.client.keys("sign-in:*")));
    return client.cluster("KEYSLOT", keys.flat()[0] ?? "");
  };
  const ownSlot = async (): Promise<number> => (slot ??= await findSlot());
  return replaceable({
    ...group,
    use,
    url: use === "artifacts" ? `${group.url}?replicas=1` : group.url,
    primary: async ({ client }) => group.ofSlot(await ownSlot(), client),
    // Nodes of a cluster do so themselves.
    follow: async () => undefined,
    restart: (lost) => lost.start(),
    move: async () => group.reshard(await ownSlot()),
  });
}

export const REDIS_SERVERS: Readonly<Record<string, (use: Use) => Promise<OpenRedis>>> = {
  redis: openOne,
  sentinel: openSentinelGroup,
  cluster: openClusterGroup,
};
