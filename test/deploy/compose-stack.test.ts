/**
 * What the compose file describes, without Docker: the documented commands make the secrets, PostgreSQL and Redis are set up
 * with them, a server and a worker run on both, and the documented backup is restored.
 */
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Redis } from "ioredis";
import { Client } from "pg";
import { blocksOf, ROOT, textOf } from "../examples/documents.ts";
import { bareEnvironment, freePorts, type Running, start } from "../examples/processes.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { sendRaw } from "../administration/listener-stage.ts";
import { administration, compose } from "./compose.ts";
import { isInContext } from "./dockerfile.ts";
import { newFolder } from "../closing.ts";

const folder = newFolder();
const secrets = join(folder, "secrets");
const secret = (name: string): string => readFileSync(join(secrets, name), "utf8").trim();
const byText = (one: string, other: string): number => (one < other ? -1 : 1);

/** A block of docs/operate/set-up/deploying.md that contains this text. */
function documented(text: string): string {
  const found = blocksOf("deploying").filter(({ code }) => code.includes(text));
  expect([text, found.length]).toEqual([text, 1]);
  return found[0]?.code ?? "false";
}

let postgres: OwnPostgres;
/** Of the superuser. */
let admin: URL;
let redis: { readonly child: ChildProcess; readonly port: number; readonly watcher: Redis };

/** Where the programs of PostgreSQL find the server, and `docker` is a program that runs what a container would. */
function environment(): Record<string, string> {
  const bin = join(folder, "bin");
  return {
    ...bareEnvironment(),
    PATH: `${bin}:${process.env["PATH"] ?? ""}`,
    PGHOST: admin.hostname,
    PGPORT: admin.port,
    GNUPGHOME: join(folder, "gnupg"),
    COMPOSE_CALLS: join(folder, "stopped"),
    COMPOSE_VARIABLES: join(folder, "variables"),
  };
}

/** Runs a documented block in the folder. */
function shell(code: string): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync("bash", ["-c", code], {
    cwd: folder,
    env: environment(),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { status, output: stdout + stderr };
}

async function query<T>(database: string, sql: string): Promise<T[]> {
  const client = new Client({ connectionString: new URL(`/${database}`, admin).href });
  await client.connect();
  try {
    return (await client.query(sql)).rows as T[];
  } finally {
    await client.end();
  }
}

/** The users of redis.conf, and one that reads what others were refused. */
async function openRedis(): Promise<typeof redis> {
  const port = await freePorts();
  const data = join(folder, "redis");
  mkdirSync(data);
  const file = join(folder, "redis.conf");
  const text = secret("redis.conf").replace("dir /data", `dir ${data}`);
  writeFileSync(file, `${text}\nuser watcher on >watcher +acl +ping +info\nport ${port}\nbind 127.0.0.1\n`);
  const child = spawn("redis-server", [file], { stdio: ["ignore", "pipe", "ignore"] });
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error("redis-server ended")));
    child.stdout.on("data", (said: Buffer) => void (said.includes("Ready to accept") && resolve()));
  });
  return { child, port, watcher: new Redis(`redis://watcher:watcher@127.0.0.1:${port}`) };
}

beforeAll(async () => {
  execFileSync("sh", ["-euc", documented("mkdir --mode 700 secrets")], { cwd: folder, stdio: "pipe" });
  for (const name of ["bin", "gnupg"]) mkdirSync(join(folder, name), { mode: 0o700 });
  const docker = join(folder, "bin/docker");
  writeFileSync(
    docker,
    `#!/bin/sh
set -eu
case "$1 $2" in
  "compose exec") shift 4; exec "$@";;
  "compose run") shift 5; . "$COMPOSE_VARIABLES"; exec "${process.execPath}" "${join(ROOT, "cli/main.ts")}" "$@";;
  *) echo "$*" >> "$COMPOSE_CALLS";;
esac
`,
  );
  chmodSync(docker, 0o755);
  [postgres, redis] = await Promise.all([openOwnPostgres(), openRedis()]);
  admin = new URL(await postgres.newDatabase());
  const script = textOf("deploy/postgres-role.sh").replace("/run/secrets", secrets);
  execFileSync("sh", ["-c", script], { env: { ...environment(), POSTGRES_USER: "postgres" }, stdio: "pipe" });
}, 60_000);

afterAll(async () => {
  spawnSync("gpgconf", ["--kill", "gpg-agent"], { env: environment() });
  redis.watcher.disconnect();
  redis.child.kill("SIGKILL");
  await postgres.close();
});

/** The rights that a document gives a user of Redis. */
const rights = (document: string, form: RegExp): string => form.exec(textOf(document))?.[1] ?? "none";

const check = (args: readonly string[], env: Record<string, string>): Promise<number | string> =>
  start("deploy/healthcheck.mjs", { args, env }).ended;

describe("the secrets that the commands of docs/operate/set-up/deploying.md make", () => {
  it("are those of the compose file, and only their owner can open the folder", () => {
    const wanted = Object.values(compose.secrets).map(({ file }) => file.replace("./secrets/", ""));
    expect(readdirSync(secrets).toSorted(byText)).toEqual(wanted.toSorted(byText));
    expect(statSync(secrets).mode & 0o777).toBe(0o700);
    expect(Buffer.from(secret("keys"), "base64")).toHaveLength(32);
    const passwords = ["postgres-admin-password", "postgres-password", "metrics-token"].map(secret);
    for (const name of ["redis-url", "queue-url"]) passwords.push(new URL(secret(name)).password);
    expect(new Set(passwords).size).toBe(5);
    expect(Math.min(...passwords.map(({ length }) => length))).toBeGreaterThan(40);
    expect(new URL(secret("storage-url"))).toMatchObject({
      username: "sign_in",
      password: secret("postgres-password"),
    });
  });

  it("give the users of Redis the documented rights, and nobody else any", async () => {
    const lines = secret("redis.conf").split("\n");
    expect(lines).toContain(
      `user sign-in ${rights("docs/operate/set-up/redis.md", /^ACL SETUSER sign-in (.+)$/mu).replace(
        ">password",
        `>${new URL(secret("redis-url")).password}`,
      )}`,
    );
    expect(lines).toContain(
      `user sign-in-queue on >${new URL(secret("queue-url")).password} ${rights("docs/operate/set-up/workers.md", /Rights of an ACL user \| `([^`]+)`\./u)}`,
    );
    const anybody = spawnSync("redis-cli", ["-p", String(redis.port), "ping"], { encoding: "utf8" });
    expect(anybody.stdout).toMatch(/^NOAUTH /u);
  });
});

describe("the build context", () => {
  it("is the package alone, whatever lies beside it", () => {
    const deploy = join(ROOT, "deploy");
    const beside = [
      "compose.yml",
      "secrets/keys",
      "secrets/redis.conf",
      "sign-in.backup",
      "backup.key",
      ".env",
    ];
    expect(beside.filter((path) => isInContext(deploy, path))).toEqual([]);
    expect(isInContext(deploy, "sign-in-service-1.2.3.tgz")).toBe(true);
  });
});

describe("the role of the service", () => {
  it("owns its database, and is no superuser", async () => {
    const roles = await query<{ readonly rolpassword: string }>(
      "postgres",
      "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, rolpassword FROM pg_authid WHERE rolname = 'sign_in'",
    );
    expect(roles).toEqual([
      {
        rolsuper: false,
        rolcreatedb: false,
        rolcreaterole: false,
        rolreplication: false,
        rolbypassrls: false,
        rolpassword: expect.stringMatching(/^SCRAM-SHA-256\$/u),
      },
    ]);
    const [database] = await query(
      "postgres",
      "SELECT pg_get_userbyid(datdba) AS owner, has_database_privilege('public', oid, 'connect') AS open FROM pg_database WHERE datname = 'sign_in'",
    );
    expect(database).toEqual({ owner: "sign_in", open: false });
  });

  it("is made by the script that the entrypoint of PostgreSQL runs", () => {
    const { volumes, environment: settings, secrets: own } = compose.services["postgres"] ?? { secrets: [] };
    expect(volumes).toContain("./postgres-role.sh:/docker-entrypoint-initdb.d/postgres-role.sh:ro");
    expect(settings).toEqual({ POSTGRES_PASSWORD_FILE: "/run/secrets/postgres-admin-password" });
    expect(own).toEqual(["postgres-admin-password", "postgres-password"]);
  });
});

/** The variables of a service of the compose file, on this machine. */
function variables(name: string, port: number): Record<string, string> {
  const here = join(folder, "here");
  mkdirSync(here, { recursive: true });
  const moved = {
    "storage-url": secret("storage-url").replace("@postgres:5432", `@${admin.host}`),
    "redis-url": secret("redis-url").replace("@redis:6379", `@127.0.0.1:${redis.port}`),
    "queue-url": secret("queue-url").replace("@redis:6379", `@127.0.0.1:${redis.port}`),
    keys: secret("keys"),
    "metrics-token": secret("metrics-token"),
  };
  for (const [file, text] of Object.entries(moved))
    writeFileSync(join(here, file), `${text}\n`, { mode: 0o600 });
  const added = administration.services[name]?.environment;
  const set = Object.entries({ ...compose.services[name]?.environment, ...added }).map(([key, value]) => [
    key,
    value
      .replace("/run/secrets", here)
      .replace(/^\$\{SIGN_IN_URL:.*\}$/, "https://login.example")
      .replace(/^\$\{SIGN_IN_NAME:.*\}$/, "Example")
      .replace(/^\$\{SIGN_IN_ADMIN_URL:.*\}$/, "https://admin.example")
      .replace(/^\$\{SIGN_IN_OPERATORS:.*\}$/, "{}"),
  ]);
  const ports = { PORT: String(port), SIGN_IN_METRICS_PORT: String(port + 1) };
  return {
    ...Object.fromEntries(set),
    ...ports,
    ...(added !== undefined && { SIGN_IN_ADMIN_PORT: String(port + 2) }),
  };
}

async function runs(
  name: "server" | "worker",
  words: readonly string[],
): Promise<[Running, Record<string, string>]> {
  const env = variables(name, await freePorts(3));
  const running = start("cli/main.ts", { args: words, env });
  await running.until(/health and metrics on port/);
  if (name === "server") await running.until(/listening on/);
  return [running, env];
}

/** Runs a command of the program, as `docker compose exec server` does. */
async function command(...args: readonly string[]): Promise<string> {
  const running = start("cli/main.ts", { args, env: variables("server", 1) });
  expect([args, await running.ended, running.output()]).toEqual([args, 0, expect.anything()]);
  return running.output();
}

describe("a server and a worker with these secrets", () => {
  it("are well, and are refused nothing by PostgreSQL and Redis", async () => {
    const [[server, ofServer], [worker, ofWorker]] = await Promise.all([
      runs("server", ["serve"]),
      runs("worker", ["worker"]),
    ]);
    try {
      expect(await check([], ofServer)).toBe(0);
      expect(await check(["metrics"], ofWorker)).toBe(0);
      // Nobody listens on the other port of a worker.
      expect(await check([], ofWorker)).toBe(1);
      const ready = await fetch(`http://127.0.0.1:${ofServer["PORT"]}/health`);
      expect([ready.status, await ready.json()]).toEqual([200, { ok: true }]);
      await command("services", "put", "news", "--name", "News");
      // Administration is on the port that compose.admin.yml publishes, and only under its own name.
      const administered = `http://127.0.0.1:${ofServer["SIGN_IN_ADMIN_PORT"]}`;
      const statuses = ["admin.example", "login.example", "127.0.0.1"].map(async (host) => {
        const lines = ["GET /v1/keys HTTP/1.1", `Host: ${host}`, "Connection: close"];
        return (await sendRaw(administered, lines)).status;
      });
      expect(await Promise.all(statuses)).toEqual([401, 421, 421]);
      const elsewhere = await fetch(`http://127.0.0.1:${ofServer["PORT"]}/v1/keys`);
      expect(elsewhere.status).toBe(404);
      await command("accounts", "create", "--email", "ada@example.com");
      expect(await redis.watcher.call("ACL", "LOG")).toEqual([]);
      expect(server.output() + worker.output()).not.toMatch(/"level":[456]0/u);
    } finally {
      expect(await Promise.all([server.stop(), worker.stop()])).toEqual([0, 0]);
    }
  }, 60_000);
});

describe("the backup of docs/operate/set-up/deploying.md", () => {
  it("is encrypted, and its restore gives the service back", async () => {
    expect(shell(documented("pg_dump"))).toMatchObject({ status: 0 });
    const backup = readFileSync(join(folder, "sign-in.backup"));
    for (const clear of ["PGDMP", "ada@example.com", "sign_in_records"])
      expect([clear, backup.includes(clear)]).toEqual([clear, false]);
    expect(statSync(join(folder, "sign-in.backup")).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "backup.key")).mode & 0o777).toBe(0o600);
    await command("accounts", "create", "--email", "late@example.com");
    const restore = documented("pg_restore");

    // Cut or changed, it is refused before anything is touched.
    for (const spoilt of [
      backup.subarray(0, -100),
      Buffer.concat([backup.subarray(0, 2_000), Buffer.alloc(100), backup.subarray(2_100)]),
    ]) {
      writeFileSync(join(folder, "sign-in.backup"), spoilt);
      expect(shell(restore).status).not.toBe(0);
      expect(await command("accounts", "find", "late@example.com")).toContain("late@example.com");
    }
    writeFileSync(join(folder, "sign-in.backup"), backup);

    const set = Object.entries(variables("server", 1)).map(([name, value]) => `export ${name}='${value}'\n`);
    writeFileSync(join(folder, "variables"), set.join(""));
    const { status, output } = shell(restore);
    expect([status, output]).toEqual([0, expect.stringMatching(/^Renewed: \d+ records$/mu)]);
    expect(output).not.toContain("error");
    expect(readFileSync(join(folder, "stopped"), "utf8")).toBe(
      "compose stop server worker\ncompose up --detach --wait\n",
    );
    expect(await command("accounts", "list")).toMatch(/ada@example\.com/u);
    expect(await command("accounts", "list")).not.toContain("late@example.com");
    expect(await command("storage", "check")).toMatch(/^No problems found/mu);
    const owners = await query(
      "sign_in",
      "SELECT DISTINCT tableowner FROM pg_tables WHERE tablename LIKE 'sign_in_%'",
    );
    expect(owners).toEqual([{ tableowner: "sign_in" }]);
    const [server] = await runs("server", ["serve"]);
    expect(await server.stop()).toBe(0);
  }, 120_000);
});
