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
  /** @param port where it listens. Default: a free one. */
  newStandby(port?: number): Promise<Standby>;
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

/** Runs one of the programs of PostgreSQL, such as `pg_dump`. */
export function runProgram(cwd: string, program: string, args: readonly string[]): void {
  execFileSync(join(programs(), program), args, { ...user(), cwd, stdio: "ignore" });
}

/** A folder that PostgreSQL may write to. */
export function newServerFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-postgres-"));
  const { uid, gid } = user();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** A process may have ended by itself meanwhile. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (Reflect.get(Object(error), "code") !== "ESRCH") throw error;
  }
}

/** A server with its processes. */
export interface PostgresServer {
  readonly port: number;
  url(database: string): string;
  start(): Promise<void>;
  /** SIGKILL, for all its processes. */
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  /** Waits until this condition in SQL holds. */
  until(condition: string): Promise<void>;
  /** The answer to an expression in SQL; `undefined` while there is none. */
  ask(expression: string): Promise<unknown>;
}

/** @param data made by `initdb` or `pg_basebackup`, in `folder`. */
export function serverAt(folder: string, data: string, port: number): PostgresServer {
  let child: ChildProcess | undefined;
  const url = (database: string): string => `postgresql://postgres@127.0.0.1:${port}/${database}`;

  async function ask(expression: string): Promise<unknown> {
    const client = new Client({ connectionString: url("postgres"), connectionTimeoutMillis: 1_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ answer: unknown }>(`SELECT ${expression} AS answer`);
      return rows[0]?.answer;
    } catch {
      return undefined;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  async function until(condition: string): Promise<void> {
    const end = performance.now() + 30_000;
    while ((await ask(condition)) !== true) {
      if (performance.now() > end) throw new Error(`PostgreSQL does not get so far: ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The server and its processes, one for each connection. They are not a process group. */
  function processes(): number[] {
    if (child?.pid === undefined) return [];
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
    return [child.pid, ...children.split(" ").filter(Boolean).map(Number)];
  }

  return {
    port,
    url,
    ask,
    until,
    async start() {
      const settings = [
        "listen_addresses=127.0.0.1",
        `unix_socket_directories=${folder}`,
        "max_connections=200",
        "shared_buffers=64MB",
        "wal_retrieve_retry_interval=100ms",
      ];
      const options = ["-D", data, "-p", String(port), ...settings.flatMap((each) => ["-c", each])];
      child = spawn(join(programs(), "postgres"), options, { ...user(), cwd: folder, stdio: "ignore" });
      await until("true");
    },
    async kill() {
      const ending = child;
      if (ending === undefined) return;
      const all = processes();
      child = undefined;
      await new Promise((resolve) => {
        ending.once("exit", resolve);
        for (const pid of all) signal(pid, "SIGKILL");
      });
    },
    pause() {
      for (const pid of processes()) standStill(pid);
    },
    resume() {
      for (const pid of processes()) signal(pid, "SIGCONT");
    },
  };
}

/** Makes the data of a standby of a server. */
export function copyServer(server: PostgresServer, folder: string, data: string): void {
  const options = ["-D", data, "-d", server.url("postgres"), "-R", "-X", "stream", "-c", "fast", "-N"];
  runProgram(folder, "pg_basebackup", options);
}

export async function openOwnPostgres(): Promise<OwnPostgres> {
  const folder = newServerFolder();
  const data = join(folder, "data");
  const run = (program: string, args: readonly string[]): void => runProgram(folder, program, args);
  run("initdb", ["-D", data, "-U", "postgres", "-A", "trust", "-N"]);
  const server = serverAt(folder, data, await freePorts());

  async function newStandby(port?: number): Promise<Standby> {
    const own = join(folder, `standby-${randomUUID()}`);
    copyServer(server, folder, own);
    const standby = serverAt(folder, own, port ?? (await freePorts()));
    await standby.start();
    return {
      at: (address) => address.replace(`:${server.port}/`, `:${standby.port}/`),
      async promote() {
        const written = String(await server.ask("pg_current_wal_lsn()::text"));
        await standby.until(`pg_last_wal_replay_lsn() >= '${written}'`);
        run("pg_ctl", ["-D", own, "promote", "-w"]);
      },
      close: () => standby.kill(),
    };
  }

  await server.start();
  let databases = 0;
  return {
    folder,
    run,
    newStandby,
    start: () => server.start(),
    kill: () => server.kill(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    async newDatabase() {
      const name = `test_${(databases += 1)}`;
      const client = new Client({ connectionString: server.url("postgres") });
      await client.connect();
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return server.url(name);
    },
    async close() {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
