/** The database servers of the cluster: finds their programs and starts them. */
import { accessSync, constants, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { readVariable } from "../../config/environment.ts";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import type { ChildPlan } from "./children.ts";

/** Where test/machine.mjs installs the stand-in for MongoDB. */
export const SECANTUS: string = join(homedir(), ".cache/sign-in-service/secantusdb-0.7.0b3/bin/secantusd-py");
export const READY_TIMEOUT_MS = 60_000;

export function locate(names: readonly string[]): string | undefined {
  const folders = (readVariable("PATH") ?? "").split(delimiter);
  return names
    .flatMap((name) => (name.includes("/") ? [name] : folders.map((folder) => join(folder, name))))
    .find(isExecutable);
}

/** Whether the path is a program. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Servers to start, and the address of the store that they are together. */
export interface Store {
  /** They start at the same time: some wait for others. */
  readonly plans: readonly ChildPlan[];
  readonly url: string;
}

/** Longer than the sentinels wait: they have chosen another primary by then. */
const REDIS_RESTART_MS = 10_000;
/** How long a primary does not answer before the sentinels replace it. */
const DOWN_AFTER_MS = 2_000;

/**
 * A primary of Redis with a replica, and three sentinels that replace it, on five ports.
 * @throws CommandFailure if it isn't installed.
 */
export function redisStore(ports: readonly number[], folder: string): Store {
  const command = locate(["redis-server"]);
  if (command === undefined) throw new CommandFailure("redis-server is not installed.");
  const [first, second, ...sentinels] = ports;
  // Redis writes into its file whose replica it is, so that a restart does not undo a failover.
  const plan = (name: string, lines: readonly string[], more: Partial<ChildPlan> = {}): ChildPlan => {
    const own = join(folder, name.replace(" ", "-"));
    const file = join(own, "redis.conf");
    mkdirSync(own, { recursive: true });
    // With another port, it is another cluster on the same data.
    const known = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    if (!known.includes(String(lines[0])))
      writeFileSync(file, `${[...lines, "bind 127.0.0.1", `dir "${own}"`].join("\n")}\n`);
    return { name, command, args: [file], ready: /Ready to accept connections/, ...more };
  };
  const server = (name: string, port: number | undefined, lines: readonly string[]): ChildPlan =>
    plan(name, [`port ${port}`, 'save ""', "appendonly yes", "maxmemory-policy noeviction", ...lines], {
      restartMs: REDIS_RESTART_MS,
    });
  const watches = [
    `sentinel monitor main 127.0.0.1 ${first} 2`,
    `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
    "sentinel failover-timeout main 5000",
  ];
  return {
    plans: [
      server("redis 1", first, []),
      server("redis 2", second, [`replicaof 127.0.0.1 ${first}`]),
      ...sentinels.map((port, index) => {
        const { args, ...sentinel } = plan(`sentinel ${index + 1}`, [`port ${port}`, ...watches]);
        return { ...sentinel, args: [...args, "--sentinel"], ready: /Sentinel ID is/ };
      }),
    ],
    // No `replicas`: with one replica, nothing could be written while that one is down.
    url: `redis+sentinel://${sentinels.map((port) => `127.0.0.1:${port}`).join()}/0?master=main`,
  };
}

/** MongoDB, or its stand-in. @throws CommandFailure if neither is installed. */
export function mongoStore(port: number, folder: string): Store & { readonly plans: readonly [ChildPlan] } {
  const command = locate(["mongod", SECANTUS]);
  if (command === undefined) {
    throw new CommandFailure(
      "mongod is not installed. Install it, or use a running server: MONGODB_URL=mongodb://…",
    );
  }
  mkdirSync(folder, { recursive: true });
  const isMongod = command.endsWith("mongod");
  const args = isMongod
    ? [`--port=${port}`, "--bind_ip=127.0.0.1", `--dbpath=${folder}`, "--quiet", "--replSet=rs0"]
    : [`--port=${port}`, `--storage-path=${join(folder, "data")}`, "--log-level=WARNING", "--sync-on-commit"];
  const url = `mongodb://127.0.0.1:${port}/sign-in?directConnection=true`;
  const name = isMongod ? "mongod" : "secantusdb (in place of mongod)";
  // Neither prints a stable text when it is ready, so ask it.
  return { plans: [{ name, command, args, ready: () => untilWritable(url) }], url };
}

/** Waits until MongoDB accepts writes. Turns a new mongod into a replica set of one node. */
export async function untilWritable(url: string): Promise<void> {
  const end = performance.now() + READY_TIMEOUT_MS;
  while (!(await isWritable(url))) {
    if (performance.now() > end) throw new CommandFailure("MongoDB does not accept writes.");
    await pause(100);
  }
}

async function isWritable(url: string): Promise<boolean> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 500 });
  try {
    const admin = client.db("admin");
    const answer = await admin.command({ hello: 1 });
    if (answer["isreplicaset"] === true) {
      const { host } = new URL(url);
      await admin.command({ replSetInitiate: { _id: "rs0", members: [{ _id: 0, host }] } });
    }
    return answer["isWritablePrimary"] === true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}
