/** Which servers are behind an address with Sentinel or of a cluster, and how they are set up. Nothing is written. */
import type { RedisAddress, RedisHost } from "../../config/redis-address.ts";
import { ask, askSentinel, askSlots, Primary } from "./driver.ts";
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
async function infoOf(address: RedisAddress, server: RedisHost): Promise<Info> {
  const { username, password, tls } = address;
  const text = await ask(server, { username, password, tls }, "a server", (client) => client.info());
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

/** @throws StorageUnavailable if nobody answers. */
async function primariesOf(address: RedisAddress): Promise<readonly RedisHost[]> {
  if (address.kind !== "cluster") return [await new Primary(address, "").find()];
  const slots = await Promise.any(address.hosts.map((host) => askSlots(address, host)));
  const owners = slots.flatMap(({ nodes: [owner] }) => (owner === undefined ? [] : [owner]));
  return [...new Map(owners.map((owner) => [nameOf(owner), owner])).values()];
}

/** @throws StorageUnavailable if nobody says which servers there are. */
export async function serverStates(address: RedisAddress): Promise<readonly ServerState[]> {
  const states: ServerState[] = [];
  for (const primary of await primariesOf(address)) {
    let replicas: Info["replicas"] = [];
    states.push(
      await stateOf("primary", primary, async () => {
        const info = await infoOf(address, primary);
        replicas = info.replicas;
        return { ...info, replicas: replicas.length };
      }),
    );
    for (const replica of replicas)
      states.push(
        await stateOf("replica", replica, async () => {
          const { policy } = await infoOf(address, replica);
          return policy === undefined ? {} : { policy };
        }),
      );
  }
  for (const sentinel of address.kind === "sentinel" ? address.hosts : [])
    states.push(
      await stateOf("sentinel", sentinel, async () => {
        await askSentinel(address, sentinel);
        return {};
      }),
    );
  return states;
}
