/** What a command advises when a store can't be reached: the sentence that fits what real servers said. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { adviceFor } from "../../cli/program/fault-advice.ts";
import { sentenceOf } from "../../cli/program/command-failure.ts";
import { createSystemClock } from "../../core/clock.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { openStorage } from "../../records/storage.ts";
import { newFolder } from "../closing.ts";
import { openOwnPgBouncer } from "../servers/pgbouncer.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { here } from "./here.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";

const clock = createSystemClock();
let postgres: OwnPostgres;
let redis: OwnRedis;
beforeAll(async () => {
  [postgres, redis] = await Promise.all([openOwnPostgres(), openOwnRedis()]);
});
afterAll(() => Promise.all([postgres.close(), redis.close()]));

/** What a command says when it opens these. */
async function said(storage: string, artifacts = storage): Promise<string> {
  try {
    await (await openStorage({ storage, artifacts, clock })).close();
    return "opened";
  } catch (error) {
    return sentenceOf(error);
  }
}

describe("the advice", () => {
  const clients: Client[] = [];
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.end()));
    await redis.client.config("SET", "maxmemory", "0");
  });

  it("for a server without connections left is about connections", async () => {
    const storage = await postgres.newDatabase();
    const own = new Client({ connectionString: storage });
    await own.connect();
    clients.push(own);
    await own.query(`ALTER DATABASE ${new URL(storage).pathname.slice(1)} CONNECTION LIMIT 1`);
    await own.query("CREATE ROLE plain LOGIN");
    await own.query("GRANT ALL ON SCHEMA public TO plain");
    await expect(said(storage.replace("postgres@", "plain@"))).resolves.toMatch(
      /53300.* no connection left: end idle ones/,
    );
  });

  it("for a port that nobody has is to start the server", async () => {
    await expect(said("postgresql://a@127.0.0.1:1/x")).resolves.toMatch(
      /ECONNREFUSED.* Nothing listens there/,
    );
    await expect(said("sqlite::memory:", "redis://127.0.0.1:1")).resolves.toMatch(
      /ECONNREFUSED.* Nothing listens there/,
    );
  });

  it("for a full Redis is about its memory", async () => {
    await redis.client.config("SET", "maxmemory", "1");
    await expect(said("sqlite::memory:", redis.url)).resolves.toMatch(/OOM.* Redis has no memory left/);
  });

  it("for a database that PgBouncer does not know is to read its log", async () => {
    const known = await postgres.newDatabase();
    const bouncer = await openOwnPgBouncer(known, { pool_mode: "session" });
    await expect(said(`${bouncer.through(known)}_none`)).resolves.toMatch(
      /08P01.* PgBouncer refuses the connection, and its log says why/,
    );
    await bouncer.close();
  });

  it.each([[""], ["pool_mode=transaction&options=-c%20search_path%3Dpublic"]])(
    "for a schema in which others may create functions is not about Redis, and doctor has a code for it: %s",
    async (query) => {
      const storage = await postgres.newDatabase();
      const owner = new Client({ connectionString: storage });
      await owner.connect();
      await owner.query("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN");
      await owner.query("GRANT CREATE ON SCHEMA public TO guest");
      await openStorage({ storage, artifacts: storage, clock }).then((opened) => opened.close());
      const file = join(newFolder(), "sign-in.json");
      const secrets = [randomBytes(32).toString("base64")];
      const deployments = { openid: { url: "http://127.0.0.1:1" } };
      writeFileSync(
        file,
        JSON.stringify({ storage: `${storage}?${query}`, keys: { secrets }, deployments }),
        {
          mode: 0o600,
        },
      );
      const { out } = await here(["doctor", "--config", file, "--json"]);
      const codes = out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, string>)
        .filter(({ check }) => check === "storage" || check === "redis")
        .map(({ check, level, code }) => [check, level, code]);
      expect(codes).toEqual([
        ["storage", "warning", "postgresql_shared"],
        ["redis", "ok", undefined],
      ]);
      await owner.query("DROP OWNED BY guest");
      await owner.end();
    },
  );

  it("for a PgBouncer that does not reset its sessions is about that", async () => {
    const bouncer = await openOwnPgBouncer(await postgres.newDatabase(), {
      pool_mode: "session",
      server_reset_query: "",
    });
    const storage = bouncer.through(await postgres.newDatabase());
    await expect(said(storage)).resolves.toBe("opened");
    await expect(said(storage)).resolves.toMatch(/42P05.* server_reset_query=DISCARD ALL/);
    await bouncer.close();
  });

  it.each([
    ["26000", /pool_mode=session/],
    ["28P01", /password/],
    ["constructor", /Start it/],
    [undefined, /Start it/],
  ] as const)("for %s is its own", (reason, text) => {
    expect(adviceFor(new StorageUnavailable("x", reason === undefined ? {} : { reason }))).toMatch(text);
  });
});
