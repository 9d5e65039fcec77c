/** PostgreSQL of the cluster: a primary, and a standby that has each commit before it is acknowledged. */
import { execFile, execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import type { ChildPlan } from "./children.ts";
import { locate, READY_TIMEOUT_MS, type Store } from "./stores.ts";

/** Debian installs each version in its own folder. */
function postgresPrograms(): string | undefined {
  const versions = ["18", "17", "16", "15", "14"].map(
    (version) => `/usr/lib/postgresql/${version}/bin/postgres`,
  );
  const command = locate(["postgres", ...versions]);
  return command === undefined ? undefined : dirname(realpathSync(command));
}

/** PostgreSQL refuses to run as root, so root runs it as the user of its package. */
function postgresUser(): ChildPlan["as"] {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = ["-u", "-g"].map((what) =>
    Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" })),
  );
  return { uid: uid ?? 0, gid: gid ?? 0 };
}

/** One of the two servers. */
export interface Member {
  readonly name: string;
  readonly port: number;
  readonly data: string;
}

const membersOf = (ports: readonly number[], folder: string): readonly [Member, Member] => {
  const [first = 0, second = 0] = ports;
  const member = (number: number, port: number): Member => ({
    name: `postgresql ${number}`,
    port,
    data: join(folder, String(number)),
  });
  return [member(1, first), member(2, second)];
};

const urlOf = (...members: readonly Member[]): string =>
  `postgresql://postgres@${members.map(({ port }) => `127.0.0.1:${port}`).join()}/postgres`;

/** Beside the data of a server whose machine is lost: it comes back as a standby only. */
const lostFile = ({ data }: Member): string => `${data}.lost`;

/** Answers of a server to one query; `undefined` while it does not answer. */
async function ask(member: Member, ...texts: readonly string[]): Promise<unknown> {
  const client = new Client({ connectionString: urlOf(member), connectionTimeoutMillis: 500 });
  // Ignore connections that break later.
  client.on("error", () => undefined);
  try {
    await client.connect();
    let last: unknown;
    for (const text of texts) last = Object.values((await client.query(text)).rows[0] ?? {})[0];
    return last;
  } catch {
    return undefined;
  } finally {
    // Of a connection that was never there, no end is told.
    void client.end().catch(() => undefined);
  }
}

const isPrimary = async (member: Member): Promise<boolean> =>
  (await ask(member, "SELECT pg_is_in_recovery()")) === false;

async function until(holds: () => Promise<boolean>, problem: string): Promise<void> {
  const end = performance.now() + READY_TIMEOUT_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new CommandFailure(problem);
    await pause(100);
  }
}

/** Whether commits of the primary wait for the standby. */
const wait = (primary: Member, isWaiting: boolean): Promise<unknown> =>
  ask(
    primary,
    `ALTER SYSTEM SET synchronous_standby_names = '${isWaiting ? "*" : ""}'`,
    "SELECT pg_reload_conf()",
  );

interface Programs {
  readonly folder: string;
  readonly as: ChildPlan["as"];
}

function programs(): Programs {
  const folder = postgresPrograms();
  if (folder === undefined) {
    throw new CommandFailure(
      "PostgreSQL is not installed. Install it, or use a running server: POSTGRESQL_URL=postgresql://…",
    );
  }
  return { folder, as: postgresUser() };
}

async function run({ folder, as }: Programs, program: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(join(folder, program), args, { ...as, cwd: "/" });
  } catch (error) {
    throw new CommandFailure(`${program} failed: ${(error as Error).message}`, { cause: error });
  }
}

/** Makes the data of a server ready to start: keeps it, creates it, or copies it from the other server. */
async function prepare(found: Programs, own: Member, other: Member): Promise<void> {
  const hasData = existsSync(join(own.data, "PG_VERSION"));
  const isStandby = existsSync(join(own.data, "standby.signal"));
  if (hasData && !isLost(own) && (isStandby || !(await isPrimary(other)))) return;
  if (!hasData && own.name.endsWith("1") && !existsSync(join(other.data, "PG_VERSION"))) {
    // Trusts all connections, because the server listens only on this machine.
    await run(found, "initdb", ["-D", own.data, "-U", "postgres", "-A", "trust"]);
    return;
  }
  // Nothing promotes the other server automatically, so this one waits until somebody does.
  while (!(await isPrimary(other))) await pause(100);
  rmSync(own.data, { recursive: true, force: true });
  await run(found, "pg_basebackup", ["-d", urlOf(other), "-D", own.data, "-R", "-c", "fast", "-X", "stream"]);
  rmSync(lostFile(own), { force: true });
}

/** @throws CommandFailure if it isn't installed. */
export function postgresStore(ports: readonly number[], folder: string): Store {
  const found = programs();
  const members = membersOf(ports, folder);
  const { as } = found;
  mkdirSync(folder, { recursive: true });
  if (as !== undefined) chownSync(folder, as.uid, as.gid);
  const plans = members.map((own, index): ChildPlan => {
    const other = members[1 - index]!;
    const settings = [
      "listen_addresses=127.0.0.1",
      "unix_socket_directories=",
      "wal_keep_size=64MB",
      // Of a standby.
      `primary_conninfo=host=127.0.0.1 port=${other.port} user=postgres`,
    ];
    return {
      name: own.name,
      command: join(found.folder, "postgres"),
      args: ["-D", own.data, "-p", String(own.port), ...settings.flatMap((each) => ["-c", each])],
      ...(as && { as }),
      prepare: () => prepare(found, own, other),
      async ready() {
        const what = `${own.name} does not accept connections.`;
        await until(async () => (await ask(own, "SELECT 1")) === 1, what);
        // The standby has what it missed: from now on nothing is acknowledged that it lacks.
        const streams = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')";
        if (await isPrimary(own)) return;
        await until(async () => (await ask(other, streams)) === true, `${own.name} does not follow.`);
        await wait(other, true);
      },
    };
  });
  return { plans, url: urlOf(...members) };
}

/** The servers as they are now. @throws CommandFailure if none takes writes. */
export async function postgresRoles(ports: readonly number[], folder: string) {
  const members = membersOf(ports, folder);
  const [isFirst, isSecond] = await Promise.all(members.map(isPrimary));
  return {
    primary: isFirst === true ? members[0] : isSecond === true ? members[1] : undefined,
    standby: isFirst === true ? members[1] : members[0],
    members,
  };
}

/** Whether it was killed as a primary. */
export const isLost = (member: Member): boolean => existsSync(lostFile(member));

/** From here on the server comes back as a standby only, as after the loss of its machine. */
export function markLost(member: Member): void {
  writeFileSync(lostFile(member), "");
}

/** Makes the standby the primary. Until the other one is back, its commits wait for nobody. */
export async function promote(standby: Member): Promise<void> {
  await ask(standby, "SELECT pg_promote()");
  await until(() => isPrimary(standby), `${standby.name} is not the primary.`);
  await wait(standby, false);
}

/** Waits until a running server accepts connections. */
export async function untilConnected(url: string): Promise<void> {
  const isThere = async (): Promise<boolean> => {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 500 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return true;
    } catch {
      return false;
    } finally {
      void client.end().catch(() => undefined);
    }
  };
  await until(isThere, "PostgreSQL does not accept connections.");
}
