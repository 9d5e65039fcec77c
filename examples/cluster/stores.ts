/** The servers of the cluster that are not ours: which programs there are, and how they are started here. */
import { accessSync, constants, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { readVariable } from "../../config/environment.ts";
import { StartFailure } from "../server/start-failure.ts";
import type { ChildPlan } from "./children.ts";

/** Where test/machine.mjs puts the server that stands in for MongoDB. */
export const SECANTUS: string = join(homedir(), ".cache/sign-in-service/secantusdb-0.7.0b3/bin/secantusd-py");
/** Milliseconds. */
const PATIENCE = 60_000;

function locate(names: readonly string[]): string | undefined {
  const folders = (readVariable("PATH") ?? "").split(delimiter);
  return names
    .flatMap((name) => (name.includes("/") ? [name] : folders.map((folder) => join(folder, name))))
    .find(isExecutable);
}

/** Whether there is a program of this path. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A server that is to be started, and where it will be. */
export interface Store {
  readonly plan: ChildPlan;
  readonly url: string;
}

/** Redis, which keeps what it has over a restart. @throws StartFailure where there is none. */
export function redisStore(port: number, folder: string): Store {
  const command = locate(["redis-server"]);
  if (command === undefined) throw new StartFailure("redis-server is not on this machine; install it.");
  mkdirSync(folder, { recursive: true });
  const where = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const how = ["--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"];
  return {
    plan: { name: "redis", command, args: [...where, ...how], ready: /Ready to accept connections/ },
    url: `redis://127.0.0.1:${port}`,
  };
}

/** MongoDB, or the server that stands in for it. @throws StartFailure where there is neither. */
export function mongoStore(port: number, folder: string): Store {
  const command = locate(["mongod", SECANTUS]);
  if (command === undefined) {
    throw new StartFailure(
      "mongod is not on this machine; install it, or say where one is: MONGODB_URL=mongodb://…",
    );
  }
  mkdirSync(folder, { recursive: true });
  const isMongod = command.endsWith("mongod");
  const args = isMongod
    ? [`--port=${port}`, "--bind_ip=127.0.0.1", `--dbpath=${folder}`, "--quiet", "--replSet=rs0"]
    : [`--port=${port}`, `--storage-path=${join(folder, "data")}`, "--log-level=WARNING", "--sync-on-commit"];
  const url = `mongodb://127.0.0.1:${port}/sign-in?directConnection=true`;
  const name = isMongod ? "mongod" : "secantusdb (in place of mongod)";
  // Neither of them says in words that stay the same when it is ready: that is asked.
  return { plan: { name, command, args, ready: () => untilWritable(url) }, url };
}

/** Waits until it takes writes; a new mongod is made a replica set of one node. */
export async function untilWritable(url: string): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await isWritable(url))) {
    if (performance.now() > end) throw new StartFailure("MongoDB does not take writes.");
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
