/** A PgBouncer of the test's own in front of a PostgreSQL, which can be stopped and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../examples/processes.ts";
import { programFor } from "../machine.mjs";

export interface OwnPgBouncer {
  /** The same database through PgBouncer. */
  through(url: string): string;
  /** Cuts all connections, as when it is upgraded. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Settings by name. */
export type PgBouncerSettings = Readonly<Record<string, string | number>>;

/** Lets everybody in, to every database of the server. */
const OPEN: PgBouncerSettings = { auth_type: "any", default_pool_size: 150, max_client_conn: 400 };

async function until(port: number): Promise<void> {
  const end = performance.now() + 30_000;
  for (;;) {
    const accepts = await new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(true));
      socket.on("connect", () => void socket.destroy()).on("error", () => resolve(false));
    });
    if (accepts) return;
    if (performance.now() > end) throw new Error("PgBouncer does not start");
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

/**
 * @param server the address of any database of the server.
 * @param users name → password, for an `auth_type` that asks for one.
 */
export async function openOwnPgBouncer(
  server: string,
  settings: PgBouncerSettings,
  users: Readonly<Record<string, string>> = {},
): Promise<OwnPgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-pgbouncer-"));
  chmodSync(folder, 0o755);
  const { hostname, port: serverPort, username } = new URL(server);
  const port = await freePorts();
  const asked = { ...OPEN, ...settings };
  // With `any`, PgBouncer needs to know as whom to connect.
  const user = asked["auth_type"] === "any" ? ` user=${username}` : "";
  const own = { ...asked, listen_addr: "127.0.0.1", listen_port: port, unix_socket_dir: "" };
  const lines = [
    "[databases]",
    `* = host=${hostname} port=${serverPort}${user}`,
    "[pgbouncer]",
    ...Object.entries({ ...own, auth_file: join(folder, "userlist.txt") }).map(
      ([name, value]) => `${name} = ${value}`,
    ),
  ];
  const list = Object.entries(users).map(([name, password]) => `"${name}" "${password}"`);
  writeFileSync(join(folder, "userlist.txt"), `${list.join("\n")}\n`);
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(file, `${lines.join("\n")}\n`);
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    // It refuses to run as root.
    const as = process.getuid?.() === 0 ? ["-u", "postgres"] : [];
    child = spawn(programFor("PgBouncer"), ["-q", ...as, file], { cwd: folder, stdio: "ignore" });
    await until(port);
  }

  async function stop(): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined) return;
    await new Promise((resolve) => {
      ending.once("exit", resolve);
      // At once: SIGINT would wait for clients in session mode.
      ending.kill("SIGTERM");
    });
  }

  await start();
  return {
    through(url) {
      const address = new URL(url);
      address.port = String(port);
      return address.href;
    },
    start,
    stop,
    async close() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
