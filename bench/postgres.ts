/** A PostgreSQL for the benchmarks, on a free port. */
import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "./redis.ts";
import { type Core, cpuTimeOf, pinned } from "./side.ts";

export interface BenchPostgres {
  /** Creates an empty database. @param name of one that may exist; default: a new one. */
  newDatabase(name?: string): Promise<string>;
  readonly pid: number;
  /** Milliseconds of CPU of the server with its processes, one for each connection. */
  cpuTime(): number;
  /** The path of a program of this version, such as `pgbench`. */
  program(name: string): string;
  stop(): Promise<void>;
}

/** Where Debian installs the programs of each version. */
const PROGRAMS = "/usr/lib/postgresql";

const START_TIMEOUT_MS = 30_000;

/**
 * Enough memory for a few gigabytes of data. Everything else is the default, so commits are on disk when they are
 * acknowledged.
 */
const SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=",
  "shared_buffers=1GB",
  "max_wal_size=4GB",
];

const id = (what: string): number => Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" }));

/** PostgreSQL refuses to run as root. In that case the user of its package runs it. */
function user(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  return { uid: id("-u"), gid: id("-g") };
}

async function untilReady(url: string): Promise<void> {
  for (const end = performance.now() + START_TIMEOUT_MS; performance.now() < end; await pause(50)) {
    const client = new Client({ connectionString: url });
    try {
      await client.connect();
      return;
    } catch {
      // Not ready yet.
    } finally {
      await client.end().catch(() => undefined);
    }
  }
  throw new Error("PostgreSQL does not start");
}

/**
 * @param folder for its data. The user that runs PostgreSQL must be able to access it. Data of an earlier run is used again.
 * @param core to run on. Default: any.
 * @param more settings.
 */
export async function startPostgres(
  folder: string,
  core: Core = "any",
  more: readonly string[] = [],
): Promise<BenchPostgres> {
  const [version = ""] = readdirSync(PROGRAMS).toSorted((one, other) => Number(other) - Number(one));
  const program = (name: string): string => join(PROGRAMS, version, "bin", name);
  const as = user();
  const place = join(folder, "postgresql");
  const isNew = !existsSync(place);
  mkdirSync(place, { recursive: true });
  if (as.uid !== undefined && as.gid !== undefined) {
    chownSync(folder, as.uid, as.gid);
    chownSync(place, as.uid, as.gid);
  }
  const data = join(place, "data");
  const how = { ...as, cwd: place, stdio: "ignore" } as const;
  if (isNew) execFileSync(program("initdb"), ["-D", data, "-U", "postgres", "-A", "trust"], how);
  const port = await freePort();
  const url = (database: string): string => `postgresql://postgres@127.0.0.1:${port}/${database}`;
  const settings = [...SETTINGS, ...more].flatMap((each) => ["-c", each]);
  const server = [program("postgres"), "-D", data, "-p", String(port), ...settings];
  const [command = "", ...parameters] = pinned(core, server);
  const child = spawn(command, parameters, how);
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  let databases = 0;
  const stop = async (): Promise<void> => {
    // SIGINT closes open connections and stops.
    child.kill("SIGINT");
    await ended;
  };
  try {
    await untilReady(url("postgres"));
  } catch (error) {
    await stop();
    throw error;
  }
  const pid = child.pid ?? 0;
  return {
    pid,
    cpuTime() {
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
      return [pid, ...children.map(Number)].reduce((all, each) => all + cpuTimeOf(each), 0);
    },
    program,
    async newDatabase(name = `bench_${(databases += 1)}`) {
      const client = new Client({ connectionString: url("postgres") });
      await client.connect();
      const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [name]);
      if (rowCount === 0) await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return url(name);
    },
    stop,
  };
}
