/** Two PostgreSQL servers of the test's own: a primary, and a standby that follows it and takes its place. */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { freePorts } from "../examples/processes.ts";
import { copyServer, newServerFolder, type PostgresServer, runProgram, serverAt } from "./postgresql.ts";

interface Member {
  readonly data: string;
  readonly server: PostgresServer;
}

export interface PostgresPair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /** The address of a new database, with both hosts. */
  newDatabase(): Promise<string>;
  /** Whether commits wait for the standby. */
  setSynchronous(isSynchronous: boolean): Promise<void>;
  /** The standby gets nothing more. */
  cutOff(): Promise<void>;
  /** The standby becomes the primary, with what it has. Resolves when it takes writes. */
  promote(): void;
  /** The server that was the primary is gone, and becomes a standby of the other one. */
  rejoin(): Promise<void>;
  close(): Promise<void>;
}

async function run(server: PostgresServer, ...texts: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: server.url("postgres") });
  await client.connect();
  for (const text of texts) await client.query(text);
  await client.end();
}

const RELOAD = "SELECT pg_reload_conf()";

export async function openPostgresPair(): Promise<PostgresPair> {
  const folder = newServerFolder();
  const newMember = async (port?: number): Promise<Member> => {
    const data = join(folder, randomUUID());
    return { data, server: serverAt(folder, data, port ?? (await freePorts())) };
  };
  let [primary, standby] = [await newMember(), await newMember()];
  let databases = 0;

  async function follow(): Promise<void> {
    copyServer(primary.server, folder, standby.data);
    await standby.server.start();
    await primary.server.until("EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')");
  }

  runProgram(folder, "initdb", ["-D", primary.data, "-U", "postgres", "-A", "trust", "-N"]);
  await primary.server.start();
  await follow();
  return {
    get primary() {
      return primary.server;
    },
    get standby() {
      return standby.server;
    },
    async newDatabase() {
      const name = `test_${(databases += 1)}`;
      await run(primary.server, `CREATE DATABASE ${name}`);
      const { port } = primary.server;
      return primary.server.url(name).replace(`:${port}`, `:${port},127.0.0.1:${standby.server.port}`);
    },
    async setSynchronous(isSynchronous) {
      const names = isSynchronous ? "*" : "";
      await run(primary.server, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`, RELOAD);
      const state = isSynchronous ? "sync" : "async";
      await primary.server.until(
        `EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = '${state}' AND state = 'streaming')`,
      );
    },
    async cutOff() {
      await run(standby.server, "ALTER SYSTEM SET primary_conninfo = ''", RELOAD);
      await standby.server.until("NOT EXISTS (SELECT FROM pg_stat_wal_receiver)");
    },
    promote() {
      runProgram(folder, "pg_ctl", ["-D", standby.data, "promote", "-w"]);
      [primary, standby] = [standby, primary];
    },
    async rejoin() {
      await standby.server.kill();
      rmSync(standby.data, { recursive: true, force: true });
      standby = await newMember(standby.server.port);
      await follow();
    },
    async close() {
      await Promise.all([primary.server.kill(), standby.server.kill()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
