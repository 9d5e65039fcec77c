/** The database servers of the cluster: finds their programs and starts them. */
import { execFileSync } from "node:child_process";
import { accessSync, chownSync, constants, existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { Client } from "pg";
import { readVariable } from "../../config/environment.ts";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import type { ChildPlan } from "./children.ts";

/** Where test/machine.mjs installs the stand-in for MongoDB. */
export const SECANTUS: string = join(homedir(), ".cache/sign-in-service/secantusdb-0.7.0b3/bin/secantusd-py");
const READY_TIMEOUT_MS = 60_000;

function locate(names: readonly string[]): string | undefined {
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

/** A server to start, and its URL. */
export interface Store {
  readonly plan: ChildPlan;
  readonly url: string;
}

/** Redis, with persistence. @throws CommandFailure if it isn't installed. */
export function redisStore(port: number, folder: string): Store {
  const command = locate(["redis-server"]);
  if (command === undefined) throw new CommandFailure("redis-server is not installed.");
  mkdirSync(folder, { recursive: true });
  const where = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const how = ["--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"];
  return {
    plan: { name: "redis", command, args: [...where, ...how], ready: /Ready to accept connections/ },
    url: `redis://127.0.0.1:${port}`,
  };
}

/** MongoDB, or its stand-in. @throws CommandFailure if neither is installed. */
export function mongoStore(port: number, folder: string): Store {
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
  return { plan: { name, command, args, ready: () => untilWritable(url) }, url };
}

/** Debian installs each version in its own folder. */
function postgresPrograms(): string | undefined {
  const versions = ["18", "17", "16", "15", "14"].map(
    (version) => `/usr/lib/postgresql/${version}/bin/postgres`,
  );
  const command = locate(["postgres", ...versions]);
  return command === undefined ? undefined : dirname(command);
}

/** PostgreSQL refuses to run as root, so root runs it as the user of its package. */
function postgresUser(): ChildPlan["as"] {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = ["-u", "-g"].map((what) =>
    Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" })),
  );
  return { uid: uid ?? 0, gid: gid ?? 0 };
}

/** Creates the data folder. Trusts all connections, because the server listens only on this machine. */
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
    throw new CommandFailure(
      `PostgreSQL can't create its files in ${data}.\n${String(Reflect.get(Object(error), "stderr"))}`,
      { cause: error },
    );
  }
}

/** PostgreSQL. @throws CommandFailure if it isn't installed. */
export function postgresStore(port: number, folder: string): Store {
  const programs = postgresPrograms();
  if (programs === undefined) {
    throw new CommandFailure(
      "PostgreSQL is not installed. Install it, or use a running server: POSTGRESQL_URL=postgresql://…",
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

/** Waits until PostgreSQL accepts connections. */
export async function untilConnected(url: string): Promise<void> {
  const end = performance.now() + READY_TIMEOUT_MS;
  while (!(await takesConnections(url))) {
    if (performance.now() > end) throw new CommandFailure("PostgreSQL does not accept connections.");
    await pause(100);
  }
}

async function takesConnections(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 500 });
  // Ignore connections that break later.
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
