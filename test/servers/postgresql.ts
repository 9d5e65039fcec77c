/** A PostgreSQL of the test's own, which can be stopped and started again. */
import { randomUUID } from "node:crypto";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { freePorts } from "../examples/processes.ts";
import { standStill } from "./stand-still.ts";

/** Follows another server, which does not wait for it: what is written after its promotion is missing there. */
export interface Standby {
  /** The same database as at this address. */
  at(url: string): string;
  /** Waits until it has everything, and makes it a server of its own. The other one goes on. */
  promote(): Promise<void>;
  close(): Promise<void>;
}

export interface OwnPostgres {
  /** Where its Unix socket is. */
  readonly folder: string;
  /** An empty database. */
  newDatabase(): Promise<string>;
  /** Kills it, as if its machine lost power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Suspends all its processes: connections stay open, and data that is sent to it waits. */
  pause(): void;
  resume(): void;
  /** Runs one of the programs of PostgreSQL, such as `pg_dump`. */
  run(program: string, args: readonly string[]): void;
  newStandby(): Promise<Standby>;
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
  const run = (program: string, args: readonly string[]): void =>
    void execFileSync(join(programs(), program), args, { ...as, cwd: folder, stdio: "ignore" });
  run("initdb", ["-D", data, "-U", "postgres", "-A", "trust", "-N"]);
  const url = (database: string, at = port): string => `postgresql://postgres@127.0.0.1:${at}/${database}`;
  const settings = [
    "listen_addresses=127.0.0.1",
    `unix_socket_directories=${folder}`,
    "max_connections=200",
    "shared_buffers=64MB",
  ];
  let child: ChildProcess | undefined;

  /** The answer of a server; `undefined` while there is none. */
  async function ask(at: number, text: string): Promise<unknown> {
    const client = new Client({ connectionString: url("postgres", at), connectionTimeoutMillis: 1_000 });
    try {
      await client.connect();
      const { rows } = await client.query<{ answer: unknown }>(`SELECT ${text} AS answer`);
      await client.end();
      return rows[0]?.answer;
    } catch {
      return undefined;
    }
  }

  async function until(at: number, text: string): Promise<void> {
    const end = performance.now() + 30_000;
    while ((await ask(at, text)) !== true) {
      if (performance.now() > end) throw new Error(`PostgreSQL does not get so far: ${text}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async function launch(where: string, at: number): Promise<ChildProcess> {
    const options = ["-D", where, "-p", String(at), ...settings.flatMap((each) => ["-c", each])];
    const launched = spawn(join(programs(), "postgres"), options, { ...as, cwd: folder, stdio: "ignore" });
    await until(at, "true");
    return launched;
  }

  async function start(): Promise<void> {
    child = await launch(data, port);
  }

  async function newStandby(): Promise<Standby> {
    const own = join(folder, `standby-${randomUUID()}`);
    const at = await freePorts();
    run("pg_basebackup", ["-D", own, "-d", url("postgres"), "-R", "-X", "stream", "-c", "fast", "-N"]);
    await launch(own, at);
    return {
      at: (address) => address.replace(`:${port}/`, `:${at}/`),
      async promote() {
        const written = String(await ask(port, "pg_current_wal_lsn()::text"));
        await until(at, `pg_last_wal_replay_lsn() >= '${written}'`);
        run("pg_ctl", ["-D", own, "promote", "-w"]);
      },
      close: async () => run("pg_ctl", ["-D", own, "stop", "-m", "immediate", "-w"]),
    };
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
    folder,
    start,
    kill,
    run,
    newStandby,
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
