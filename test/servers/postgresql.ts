/** A PostgreSQL of the test's own, which can be stopped and started again. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { freePorts } from "../examples/processes.ts";
import { standStill } from "./stand-still.ts";

export interface OwnPostgres {
  /** A database with nothing in it. */
  newDatabase(): Promise<string>;
  /** Ends it as a machine that loses power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops all its processes where they are: connections stay, and what is sent waits there. */
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

/** PostgreSQL refuses to run as root: then it runs as the user that its package has made. */
function user(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  return { uid: id("-u"), gid: id("-g") };
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
      detached: true,
    });
    const end = performance.now() + 30_000;
    while (!(await isReady())) {
      if (performance.now() > end) throw new Error("PostgreSQL does not start");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** All its processes: each connection has one. */
  function signal(name: NodeJS.Signals): void {
    if (child?.pid !== undefined) process.kill(-child.pid, name);
  }

  async function kill(): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending?.pid === undefined) return;
    const { pid } = ending;
    await new Promise((resolve) => {
      ending.once("exit", resolve);
      process.kill(-pid, "SIGKILL");
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
      signal("SIGSTOP");
      if (child?.pid !== undefined) standStill(child.pid);
    },
    resume: () => signal("SIGCONT"),
    async close() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
