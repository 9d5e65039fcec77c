/** The servers of the cluster that are not ours: which programs there are, and how they are started here. */
import { execFileSync } from "node:child_process";
import { accessSync, chownSync, constants, existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { Client } from "pg";
import { readVariable } from "../../config/environment.ts";
import { FAILED, StartFailure } from "../server/start-failure.ts";
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

/** Debian keeps the programs of each version in a folder of its own. */
function postgresPrograms(): string | undefined {
  const versions = ["18", "17", "16", "15", "14"].map(
    (version) => `/usr/lib/postgresql/${version}/bin/postgres`,
  );
  const command = locate(["postgres", ...versions]);
  return command === undefined ? undefined : dirname(command);
}

/** PostgreSQL refuses to run as root: then it runs as the user that its package has made. */
function postgresUser(): ChildPlan["as"] {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = ["-u", "-g"].map((what) =>
    Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" })),
  );
  return { uid: uid ?? 0, gid: gid ?? 0 };
}

/** Makes the files of a PostgreSQL that nobody else reaches: it listens on this machine only. */
function initPostgres(programs: string, data: string, as: ChildPlan["as"]): void {
  mkdirSync(data, { recursive: true, mode: 0o700 });
  if (as !== undefined) chownSync(data, as.uid, as.gid);
  if (existsSync(join(data, "PG_VERSION"))) return;
  try {
    execFileSync(join(programs, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust"], {
      ...as,
      cwd: "/",
      stdio: "pipe",
    });
  } catch (error) {
    throw new StartFailure(
      `PostgreSQL can't make its files in ${data}.\n${String(Reflect.get(Object(error), "stderr"))}`,
      FAILED,
      { cause: error },
    );
  }
}

/** PostgreSQL. @throws StartFailure where there is none. */
export function postgresStore(port: number, folder: string): Store {
  const programs = postgresPrograms();
  if (programs === undefined) {
    throw new StartFailure(
      "PostgreSQL is not on this machine; install it, or say where one is: POSTGRESQL_URL=postgresql://…",
    );
  }
  const as = postgresUser();
  initPostgres(programs, folder, as);
  const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories="].flatMap((each) => ["-c", each]);
  const args = ["-D", folder, "-p", String(port), ...settings];
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  const command = join(programs, "postgres");
  return {
    plan: { name: "postgresql", command, args, ...(as && { as }), ready: () => untilConnected(url) },
    url,
  };
}

/** Waits until it takes connections. */
export async function untilConnected(url: string): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await takesConnections(url))) {
    if (performance.now() > end) throw new StartFailure("PostgreSQL does not take connections.");
    await pause(100);
  }
}

async function takesConnections(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 500 });
  // A connection that breaks later is not waited for.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
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
