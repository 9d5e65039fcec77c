/** What the parameters of a PostgreSQL address do, with a server that speaks TLS and asks for passwords. */
import { chmodSync, chownSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import { thing } from "../../testing/storage/stage.ts";
import { selfSigned } from "../notifier/peers.ts";
import { ManualClock } from "../records/rules/stage.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { newFolder, closing } from "../closing.ts";

const PASSWORD = "the first password";
const folder = newFolder();
const at = (name: string): string => join(folder, name);
const clock = new ManualClock();

/** How each user authenticates. */
const HBA = `
local all postgres trust
host all postgres 127.0.0.1/32 trust
hostssl all tls_user 127.0.0.1/32 trust
hostssl all cert_user 127.0.0.1/32 cert
host all file_user 127.0.0.1/32 scram-sha-256
hostssl all md5_user 127.0.0.1/32 md5
`;

let server: OwnPostgres;
let database: URL;
let administrator: Client;

/** Writes files that PostgreSQL reads: it insists on owning its key. */
function writeFor(data: string, name: string, text: string): string {
  const path = join(data, name);
  const { uid, gid } = statSync(data);
  writeFileSync(path, text);
  chmodSync(path, 0o600);
  chownSync(path, uid, gid);
  return path;
}

beforeAll(async () => {
  server = closing(await openOwnPostgres());
  database = new URL(await server.newDatabase());
  administrator = new Client({ connectionString: database.href });
  await administrator.connect();
  const { rows } = await administrator.query<{ hba_file: string }>("SHOW hba_file");
  const hba = rows[0]!.hba_file;
  const data = dirname(hba);
  const [own, client, stranger] = [selfSigned("localhost"), selfSigned("cert_user"), selfSigned("localhost")];
  writeFileSync(at("ca.pem"), own.cert);
  writeFileSync(at("stranger.pem"), stranger.cert);
  writeFileSync(at("client.pem"), client.cert);
  writeFileSync(at("client.key"), client.key);
  writeFileSync(at("password"), `${PASSWORD}\n`);
  const settings = {
    ssl: "on",
    ssl_cert_file: writeFor(data, "own.pem", own.cert),
    ssl_key_file: writeFor(data, "own.key", own.key),
    ssl_ca_file: writeFor(data, "clients.pem", client.cert),
  };
  for (const [name, value] of Object.entries(settings))
    await administrator.query(`ALTER SYSTEM SET ${name} = '${value}'`);
  for (const user of ["tls_user", "cert_user", "file_user"])
    await administrator.query(`CREATE ROLE ${user} SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
  writeFor(data, "pg_hba.conf", HBA);
  await administrator.query("SELECT pg_reload_conf()");
});
afterAll(async () => {
  await administrator.end();
});

function address(user: string, host: string, query: Readonly<Record<string, string>>): string {
  const url = new URL(database);
  return `postgresql://${user}@${host}:${url.port}${url.pathname}?${new URLSearchParams(query)}`;
}

/** `opened`, or the error. */
async function outcome(url: string): Promise<string> {
  try {
    const store = await openPostgres({ url, clock });
    await store.ping();
    await store.close();
    return "opened";
  } catch (error) {
    return (error as Error).message;
  }
}

const NO_USE = "the PostgreSQL of config.storage can't be used";
const REFUSED = "config.storage: PostgreSQL refuses the user or the password";
const CA = { sslrootcert: at("ca.pem") };
const CLIENT = { ...CA, sslcert: at("client.pem"), sslkey: at("client.key") };

describe("TLS", () => {
  it.each([
    ["tls_user", "localhost", CA, "opened"],
    ["tls_user", "localhost", { ...CA, sslmode: "verify-full" }, "opened"],
    ["tls_user", "127.0.0.1", CA, `${NO_USE} (ERR_TLS_CERT_ALTNAME_INVALID)`],
    ["tls_user", "127.0.0.1", { ...CA, sslmode: "verify-ca" }, "opened"],
    [
      "tls_user",
      "127.0.0.1",
      { sslrootcert: at("stranger.pem"), sslmode: "verify-ca" },
      `${NO_USE} (DEPTH_ZERO_SELF_SIGNED_CERT)`,
    ],
    ["tls_user", "localhost", { sslmode: "verify-full" }, `${NO_USE} (DEPTH_ZERO_SELF_SIGNED_CERT)`],
    ["tls_user", "127.0.0.1", { sslmode: "no-verify" }, "opened"],
    ["tls_user", "127.0.0.1", {}, REFUSED],
    ["tls_user", "127.0.0.1", { sslmode: "disable" }, REFUSED],
    ["cert_user", "localhost", CLIENT, "opened"],
    ["cert_user", "localhost", CA, REFUSED],
  ])("%s at %s with %j: %s", async (user, host, query, expected) => {
    expect(await outcome(address(user, host, query))).toBe(expected);
  });
});

/** Each at the port of the server. */
const several = (user: string, hosts: readonly string[], query: Readonly<Record<string, string>>): string =>
  address(user, hosts.join(`:${database.port},`), query);

describe("several hosts", () => {
  let silent: Server;
  beforeAll(async () => {
    silent = createServer((socket) => void socket.on("error", () => undefined).resume());
    await new Promise<void>((resolve) => void silent.listen(Number(database.port), "127.0.0.2", resolve));
  });
  afterAll(async () => {
    await new Promise((resolve) => void silent.close(resolve));
  });

  it.each([
    ["the first refuses connections", "postgres", ["127.0.0.3", "127.0.0.1"], {}, "opened"],
    ["the first never answers", "postgres", ["127.0.0.2", "127.0.0.1"], {}, "opened"],
    ["the name of the first is unknown", "postgres", ["no.invalid", "127.0.0.1"], {}, "opened"],
    ["TLS checks the name of each", "tls_user", ["127.0.0.1", "localhost"], CA, "opened"],
    [
      "none has a name of the certificate",
      "tls_user",
      ["127.0.0.1", "127.0.0.3"],
      CA,
      `${NO_USE} (ERR_TLS_CERT_ALTNAME_INVALID)`,
    ],
    [
      "a certificate of the client and the authority from files, at each",
      "cert_user",
      ["127.0.0.3", "127.0.0.1", "localhost"],
      CLIENT,
      "opened",
    ],
    [
      "the first checks another name, and the next one takes the certificate",
      "cert_user",
      ["127.0.0.1", "localhost"],
      CLIENT,
      "opened",
    ],
    ["no certificate where one is asked for", "cert_user", ["localhost", "127.0.0.3"], CA, REFUSED],
    [
      "a certificate of another authority",
      "cert_user",
      ["localhost", "127.0.0.3"],
      { ...CLIENT, sslrootcert: at("stranger.pem") },
      `${NO_USE} (DEPTH_ZERO_SELF_SIGNED_CERT)`,
    ],
    ["none answers", "postgres", ["127.0.0.3", "127.0.0.4"], {}, `${NO_USE} (ECONNREFUSED)`],
    ["any will do", "postgres", ["127.0.0.3", "127.0.0.1"], { target_session_attrs: "any" }, "opened"],
  ])("%s: %s at %j with %j: %s [D-PG-5]", async (_what, user, hosts, query, expected) => {
    expect(await outcome(several(user, hosts, query))).toBe(expected);
  });

  it("that take no writes are refused, unless the address takes any [D-PG-6]", async () => {
    const url = new URL(await server.newDatabase());
    const set = (text: string): Promise<unknown> =>
      administrator.query(`ALTER DATABASE ${url.pathname.slice(1)} ${text}`);
    await set("SET default_transaction_read_only = on");
    const both = (query: string): string =>
      `postgresql://postgres@127.0.0.1:${url.port},localhost:${url.port}${url.pathname}${query}`;
    expect(await outcome(both(""))).toBe(`${NO_USE} (25006)`);
    expect(await outcome(`${url.href}?target_session_attrs=read-write`)).toBe(`${NO_USE} (25006)`);
    // No standby, and yet it refuses to create tables.
    expect(await outcome(both("?target_session_attrs=primary"))).toBe(`${NO_USE} (25006)`);
    await set("RESET default_transaction_read_only");
    expect(await outcome(both("?target_session_attrs=primary"))).toBe("opened");
  });
});

it("all connections to an only host that takes no writes are closed, because its name may belong to another server by now [D-PG-8]", async () => {
  const url = new URL(await server.newDatabase());
  const name = url.pathname.slice(1);
  const store = await openPostgres({ url: url.href, clock });
  await administrator.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await administrator.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`,
  );
  const ping = (): Promise<number> => store.ping().catch(ping);
  await Promise.all([ping(), ping(), ping()]);
  await administrator.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
  // The three sessions still have what was set when they began.
  const put = (id: string): Promise<void> =>
    store.commit({ id, deadline: clock.now() + 4_500, put: [thing(id)] });
  await expect(put("first")).rejects.toMatchObject({ code: "storage_unavailable", reason: "25006" });
  await put("second");
  await store.close();
});

/** The address of a user with a password, over TLS. */
const withPassword = (query: Readonly<Record<string, string>>): string =>
  address("file_user", "localhost", { ...CA, ...query }).replace(
    "file_user@",
    `file_user:${encodeURIComponent(PASSWORD)}@`,
  );

describe("channel_binding", () => {
  it.each(["require", "prefer", "disable"])("%s opens a server that binds the password", async (wanted) => {
    expect(await outcome(withPassword({ channel_binding: wanted }))).toBe("opened");
  });

  it("require refuses a server that asks for no password, and prefer does not", async () => {
    expect(await outcome(address("tls_user", "localhost", { ...CA, channel_binding: "require" }))).toBe(
      "config.storage: PostgreSQL does not bind the password to the connection, which channel_binding=require asks for",
    );
    expect(await outcome(address("tls_user", "localhost", { ...CA, channel_binding: "prefer" }))).toBe(
      "opened",
    );
  });

  it("require refuses a server that asks for the password itself, and sends none", async () => {
    await administrator.query("SET password_encryption = 'md5'");
    await administrator.query(`CREATE ROLE md5_user SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
    await administrator.query("RESET password_encryption");
    const url = withPassword({}).replace("file_user:", "md5_user:");
    expect(await outcome(url)).toBe("opened");
    expect(await outcome(`${url}&channel_binding=require`)).toContain("channel_binding=require asks for");
  });
});

describe("a Unix socket", () => {
  it.each([
    (socket: string, { port, pathname }: URL) => `postgresql://postgres@:${port}${pathname}?host=${socket}`,
    (socket: string, { port, pathname }: URL) =>
      `postgresql://postgres@${pathname}?host=${socket}&port=${port}`,
    (socket: string, { port, pathname }: URL) =>
      `postgresql://postgres@${encodeURIComponent(socket)}:${port}${pathname}`,
  ])("is opened with each form of its address (%#)", async (form) => {
    expect(await outcome(form(server.folder, database))).toBe("opened");
  });

  it("that is not there is said in words", async () => {
    expect(await outcome("postgresql://postgres@/x?host=/nowhere/at/all&connect_timeout=3")).toBe(
      `${NO_USE} (ENOENT)`,
    );
  });
});

function withFile(): string {
  return address("file_user", "127.0.0.1", { password_file: at("password") });
}

describe("password_file", () => {
  it("has the password, which may change while the service runs", async () => {
    const store = await openPostgres({ url: withFile(), clock });
    await administrator.query("ALTER ROLE file_user PASSWORD 'another password'");
    writeFileSync(at("password"), "another password");
    await administrator.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'file_user'",
    );
    await expect(store.ping().catch(() => store.ping())).resolves.toBeGreaterThan(0);
    await store.close();
  });

  it("is read for each connection: without it, the storage can't be reached", async () => {
    const store = await openPostgres({ url: withFile(), clock });
    rmSync(at("password"));
    await administrator.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'file_user'",
    );
    await store.ping().catch(() => undefined);
    await expect(store.ping()).rejects.toMatchObject({ code: "storage_unavailable" });
    await store.close();
    expect(await outcome(withFile())).toBe(
      `config.storage: the file of password_file, ${at("password")}, can't be read (ENOENT)`,
    );
  });
});

/** How many connections have this `application_name`. */
async function connectionsOf(name: string): Promise<number> {
  const text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
  const { rows } = await administrator.query<{ count: string }>(text, [name]);
  return Number(rows[0]?.count);
}

it("pool_size limits the connections of a process", async () => {
  const query = { pool_size: "3", application_name: "pool_of_three" };
  const store = await openPostgres({ url: address("postgres", "127.0.0.1", query), clock });
  const counts: number[] = [];
  for (let round = 0; round < 10; round += 1) {
    const pings = Promise.all(Array.from({ length: 30 }, () => store.ping()));
    counts.push(await connectionsOf("pool_of_three"));
    await pings;
  }
  expect(Math.max(...counts)).toBe(3);
  await store.close();
  expect(await connectionsOf("pool_of_three")).toBe(0);
});
