/** Which servers are behind an address with Sentinel or of a cluster, and how they are set up. Nothing is written. */
import type { RedisAddress, RedisHost } from "../../config/redis-address.ts";
import { ask, askSentinel, askSlots, type Login, type Logins, openLogins, Primary } from "./driver.ts";
import { reason } from "./faults.ts";

export interface ServerState {
  readonly name: string;
  readonly role: "primary" | "replica" | "sentinel";
  /** Why it does not answer. */
  readonly reason?: string;
  /** What it does when its memory is full; `undefined` if the user may not read it, and of a sentinel. */
  readonly policy?: string;
  /** Of a primary: how many replicas it has. */
  readonly replicas?: number;
  /** Of a primary: whether it stops taking writes when it has lost its replicas. */
  readonly isFenced?: boolean;
}

const nameOf = ({ host, port }: RedisHost): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

interface Info {
  readonly policy?: string;
  readonly isFenced: boolean;
  readonly replicas: readonly RedisHost[];
}

/** What INFO says, which the user may not be allowed to run. */
async function infoOf(login: Login, server: RedisHost): Promise<Info> {
  const text = await ask(server, login, "a server", (client) => client.info());
  const policy = /^maxmemory_policy:(\S+)/mu.exec(text)?.[1];
  const replicas = text.matchAll(/^slave\d+:ip=([^,]+),port=(\d+)/gmu);
  return {
    ...(policy !== undefined && { policy }),
    isFenced: /^min_slaves_good_slaves:/mu.test(text),
    replicas: [...replicas].map(([, host = "", port]) => ({ host, port: Number(port) })),
  };
}

async function stateOf(
  role: ServerState["role"],
  server: RedisHost,
  asked: () => Promise<Pick<ServerState, "policy" | "replicas" | "isFenced">>,
): Promise<ServerState> {
  try {
    return { name: nameOf(server), role, ...(await asked()) };
  } catch (error) {
    return { name: nameOf(server), role, reason: reason(error) };
  }
}

/** In a cluster, the slots are divided between the primaries. */
const SLOTS = 16_384;

export interface Topology {
  readonly servers: readonly ServerState[];
  /** Slots of the cluster that no primary has. */
  readonly unservedSlots: number;
}

/** @throws StorageUnavailable if nobody answers. */
async function primariesOf(
  address: RedisAddress,
  logins: Logins,
): Promise<Pick<Topology, "unservedSlots"> & { readonly primaries: readonly RedisHost[] }> {
  if (address.kind !== "cluster")
    return { primaries: [await new Primary(address, logins, "").find()], unservedSlots: 0 };
  const asked = address.hosts.map((host) => askSlots(logins.servers, host));
  const ranges = await Promise.any(asked).catch(() => Promise.race(asked));
  const owners = ranges.flatMap(({ nodes: [owner] }) => (owner === undefined ? [] : [owner]));
  const served = ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  return {
    primaries: [...new Map(owners.map((owner) => [nameOf(owner), owner])).values()],
    unservedSlots: SLOTS - served,
  };
}

/**
 * @throws StorageUnavailable if nobody says which servers there are.
 * @throws ConfigurationError for a file of the address that can't be used.
 */
export async function readTopology(key: "artifacts" | "queue", address: RedisAddress): Promise<Topology> {
  const logins = await openLogins(key, address);
  const { primaries, unservedSlots } = await primariesOf(address, logins);
  const servers: ServerState[] = [];
  for (const primary of primaries) {
    let replicas: Info["replicas"] = [];
    servers.push(
      await stateOf("primary", primary, async () => {
        const info = await infoOf(logins.servers, primary);
        replicas = info.replicas;
        return { ...info, replicas: replicas.length };
      }),
    );
    for (const replica of replicas)
      servers.push(
        await stateOf("replica", replica, async () => {
          const { policy } = await infoOf(logins.servers, replica);
          return policy === undefined ? {} : { policy };
        }),
      );
  }
  for (const sentinel of address.kind === "sentinel" ? address.hosts : [])
    servers.push(
      await stateOf("sentinel", sentinel, async () => {
        await askSentinel(logins.sentinels, sentinel, address.sentinel?.name);
        return {};
      }),
    );
  return { servers, unservedSlots };
}
