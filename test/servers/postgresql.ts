/** A PostgreSQL of the test's own, which can be stopped and started again. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { freePorts } from "../examples/processes.ts";
import { standStill } from "./stand-still.ts";

export interface OwnPostgres {
  /** An empty database. */
  newDatabase(): Promise<string>;
  /** Kills it, as if its machine lost power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Suspends all its processes: connections stay open, and data that is sent to it waits. */
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

/** Debian keeps the programs of each version in a folder of its own. */
function programs(): string {
  const root = "/usr/lib/postgresql";
  const [newest] = readdirSync(root).toSorted((one, other) => Number(other) - Number(one));
  return join(root, newest ?? "", "bin");
}

const id = (what: string): number => Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" }));

/** PostgreSQL refuses to run as root, so root runs it as the user of its package. */
function user(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  return { uid: id("-u"), gid: id("-g") };
}

/** A process may have ended by itself meanwhile. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (Reflect.get(Object(error), "code") !== "ESRCH") throw error;
  }
}

export async function openOwnPostgres(): Promise<OwnPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-postgres-"));
  const as = user();
  if (as.uid !== undefined && as.gid !== undefined) chownSync(folder, as.uid, as.gid);
  const data = join(folder, "data");
  const port = await freePorts();
  execFileSync(join(programs(), "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "-N"], {
    ...as,
    cwd: folder,
    stdio: "ignore",
  });
  const url = (database: string): string => `postgresql://postgres@127.0.0.1:${port}/${database}`;
  const settings = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
  ];
  let child: ChildProcess | undefined;

  async function isReady(): Promise<boolean> {
    const client = new Client({ connectionString: url("postgres"), connectionTimeoutMillis: 1_000 });
    try {
      await client.connect();
      await client.end();
      return true;
    } catch {
      return false;
    }
  }

  async function start(): Promise<void> {
    const options = ["-D", data, "-p", String(port), ...settings.flatMap((each) => ["-c", each])];
    child = spawn(join(programs(), "postgres"), options, {
      ...as,
      cwd: folder,
      stdio: "ignore",
    });
    const end = performance.now() + 30_000;
    while (!(await isReady())) {
      if (performance.now() > end) throw new Error("PostgreSQL does not start");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The server and its processes, one for each connection. They are not a process group. */
  function processes(): number[] {
    if (child?.pid === undefined) return [];
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
    return [child.pid, ...children.split(" ").filter(Boolean).map(Number)];
  }

  async function kill(): Promise<void> {
    const ending = child;
    if (ending === undefined) return;
    const all = processes();
    child = undefined;
    await new Promise((resolve) => {
      ending.once("exit", resolve);
      for (const pid of all) signal(pid, "SIGKILL");
    });
  }

  await start();
  let databases = 0;
  return {
    start,
    kill,
    async newDatabase() {
      const name = `test_${(databases += 1)}`;
      const client = new Client({ connectionString: url("postgres") });
      await client.connect();
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return url(name);
    },
    pause() {
      for (const pid of processes()) standStill(pid);
    },
    resume() {
      for (const pid of processes()) signal(pid, "SIGCONT");
    },
    async close() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
