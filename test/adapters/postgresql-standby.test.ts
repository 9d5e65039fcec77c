/** A PostgreSQL with a standby, both in one address: the primary is lost, fenced or replaced while requests run. */
import { randomBytes, randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { ref, thing } from "../../testing/storage/stage.ts";
import { here } from "../cli/here.ts";
import { newFolder } from "../closing.ts";
import { openOwnPgBouncer } from "../servers/pgbouncer.ts";
import { openPostgresPair, type PostgresPair } from "../servers/postgresql-pair.ts";
import type { PostgresServer } from "../servers/postgresql.ts";

const clock = createSystemClock();
let pair: PostgresPair;
const opened: RecordStore[] = [];

beforeAll(async () => {
  pair = await openPostgresPair();
}, 60_000);
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()));
});
afterAll(async () => {
  await pair.close();
});

async function open(url: string, warnings: string[] = []): Promise<RecordStore> {
  const store = await openPostgres({
    url,
    clock,
    announced: ["thing"],
    onWarning: (text, warning) => void warnings.push(`${warning}: ${text}`),
  });
  opened.push(store);
  return store;
}

/** A commit that is given up soon when nobody acknowledges it. */
const put = (store: RecordStore, key: string): Promise<void> =>
  store.commit({ id: randomUUID(), deadline: clock.now() + 1_500, put: [thing(key)] });

/** Repeats a call until it succeeds. */
async function untilDone<T>(call: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await call();
    } catch (error) {
      expect(error).toMatchObject({ code: "storage_unavailable" });
      await pause(20);
    }
}

async function run(server: PostgresServer, database: string, text: string): Promise<readonly object[]> {
  const client = new Client({ connectionString: server.url(database) });
  await client.connect();
  const { rows } = await client.query<object>(text);
  await client.end();
  return rows;
}

const databaseOf = (url: string): string => url.slice(url.lastIndexOf("/") + 1);
/** Whether a server has this record. */
const has = async (server: PostgresServer, url: string, key: string): Promise<boolean> =>
  (await run(server, databaseOf(url), `SELECT FROM sign_in_records WHERE key = '${key}'`)).length === 1;

/** Requests that write, read and take numbers, until they are stopped. */
function keepBusy(store: RecordStore) {
  const acknowledged: string[] = [];
  const numbers: number[] = [];
  const refused: unknown[] = [];
  const stopping = new AbortController();
  const attempt = async (call: () => Promise<unknown>): Promise<void> => {
    await call().catch(async (error: unknown) => {
      refused.push(Reflect.get(Object(error), "code"));
      await pause(10);
    });
  };
  const write = async (writer: number): Promise<void> => {
    for (let round = 0; !stopping.signal.aborted; round += 1) {
      const key = `w${writer}-${round}`;
      await attempt(async () => {
        await put(store, key);
        acknowledged.push(key);
      });
      await attempt(async () => numbers.push(await store.next("user_id")));
      await attempt(() => store.get([ref(key)]));
    }
  };
  const writers = Promise.all([0, 1, 2, 3].map(write));
  return {
    acknowledged,
    numbers,
    refused,
    async until(condition: () => boolean) {
      while (!condition()) await pause(10);
    },
    async stop() {
      stopping.abort();
      await writers;
    },
  };
}

describe("with synchronous replication", () => {
  it("nothing acknowledged is lost when the primary is killed and the standby promoted: requests get 503 meanwhile, and work again after it, also through poolers in transaction mode; the log says what is used [D-PG-1, D-PG-2, D-PG-13]", async () => {
    const url = await pair.newDatabase();
    const warnings: string[] = [];
    const [store, other] = [await open(url, warnings), await open(url)];
    const poolers = await Promise.all(
      [pair.primary, pair.standby].map((server) =>
        openOwnPgBouncer(server.url("postgres"), { pool_mode: "transaction", default_pool_size: 3 }),
      ),
    );
    const ports = poolers.map((each) => new URL(each.through(pair.primary.url("postgres"))).port);
    const pooled = await open(
      `postgresql://postgres@127.0.0.1:${ports.join(",127.0.0.1:")}/${databaseOf(url)}?pool_mode=transaction&options=-c%20search_path%3Dpublic`,
    );
    const [first, second] = [pair.primary, pair.standby].map(({ port }) => `127.0.0.1:${port}`);
    let noticed = Promise.withResolvers<void>();
    other.watch?.(["thing"], () => noticed.resolve());
    await pair.setSynchronous(true);
    const busy = keepBusy(store);
    await busy.until(() => busy.acknowledged.length > 100);
    await pair.primary.kill();
    await busy.until(() => busy.refused.length > 10);
    pair.promote();
    const before = busy.acknowledged.length;
    await busy.until(() => busy.acknowledged.length > before + 20);
    await busy.stop();

    expect(new Set(busy.refused)).toEqual(new Set(["storage_unavailable"]));
    const found = await Promise.all(
      busy.acknowledged.map(async (key) => (await store.get([ref(key)]))[0]?.key),
    );
    expect(found).toEqual(busy.acknowledged);
    expect(new Set(busy.numbers).size).toBe(busy.numbers.length);
    // Changes are announced again, by the new primary.
    noticed = Promise.withResolvers();
    const seen = noticed.promise.then(() => true);
    do await put(store, "announced");
    while (!(await Promise.race([seen, pause(50, false)])));
    await untilDone(() => put(pooled, "pooled"));
    await expect(has(pair.primary, url, "pooled")).resolves.toBe(true);
    expect(warnings).toEqual([
      "postgresql_host: no host of PostgreSQL can be used: none answers and takes writes, or only one that was replaced",
      `postgresql_host: the host of PostgreSQL is now ${second} instead of ${first}`,
    ]);
    await pooled.close();
    await Promise.all(poolers.map((each) => each.close()));
  }, 60_000);

  it("a change is not acknowledged while there is no standby [D-PG-2]", async () => {
    await pair.rejoin();
    await pair.setSynchronous(true);
    const url = await pair.newDatabase();
    const store = await open(url);
    await put(store, "with");
    await pair.standby.kill();
    await expect(put(store, "without")).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(store.get([ref("with")])).resolves.toMatchObject([{ key: "with" }]);
    await pair.standby.start();
    await untilDone(() => put(store, "again"));
  }, 60_000);
});

describe("a primary that is replaced while it lives", () => {
  it("and is fenced: changes are refused until the standby is promoted, and go to it then [D-PG-4]", async () => {
    await pair.setSynchronous(false);
    const url = await pair.newDatabase();
    const store = await open(url);
    await put(store, "before");
    await pair.standby.until(
      `pg_last_wal_replay_lsn() >= '${String(await pair.primary.ask("pg_current_wal_lsn()::text"))}'`,
    );
    const fence = async (setting: string): Promise<void> => {
      await run(pair.primary, "postgres", `ALTER SYSTEM ${setting}`);
      await run(pair.primary, "postgres", "SELECT pg_reload_conf()");
    };
    await fence("SET default_transaction_read_only = on");
    await pair.primary.until("current_setting('default_transaction_read_only') = 'on'");
    await expect(untilRefused(() => put(store, "fenced"))).resolves.toBe("storage_unavailable");
    const old = pair.primary;
    pair.promote();
    await untilDone(() => put(store, "after"));
    await expect(store.get([ref("before"), ref("after")])).resolves.toMatchObject([{}, {}]);
    await expect(has(pair.primary, url, "after")).resolves.toBe(true);
    await expect(has(old, url, "after")).resolves.toBe(false);
  }, 60_000);

  it("and is not: every process leaves it, and none goes back to it, though it stands first and answers; doctor reports both; no number is given twice [D-PG-3, D-PG-4, D-PG-20]", async () => {
    await pair.rejoin();
    const url = await pair.newDatabase();
    const warnings: string[] = [];
    const store = await open(url, warnings);
    await put(store, "before");
    await expect(store.next("number")).resolves.toBe(1);
    await pair.cutOff();
    await expect(store.next("number")).resolves.toBe(2);
    const old = pair.primary;
    pair.promote();
    // Whoever is connected to the old one learns of the new one when it asks all hosts.
    for (let round = 0; !(await has(pair.primary, url, `r${round}`)); round += 1) {
      await untilDone(() => put(store, `r${round + 1}`));
      await pause(50);
    }
    const late = await open(url);
    await put(late, "late");
    await expect(has(pair.primary, url, "late")).resolves.toBe(true);
    // The new one does not know what the old one has given out.
    const numbers = await Promise.all([late, late, store, store].map((each) => each.next("number")));
    expect(numbers.map((number) => number - 1_000_000).toSorted((one, other) => one - other)).toEqual([
      2, 3, 4, 5,
    ]);

    const file = join(newFolder(), "sign-in.json");
    const secrets = [randomBytes(32).toString("base64")];
    writeFileSync(
      file,
      JSON.stringify({
        storage: url,
        keys: { secrets },
        deployments: { openid: { url: "http://127.0.0.1:1" } },
      }),
      { mode: 0o600 },
    );
    const { out } = await here(["doctor", "--config", file, "--json"]);
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, string>);
    const split = [`127.0.0.1:${old.port} is the primary`, `127.0.0.1:${pair.primary.port} is the primary`];
    expect(lines.filter(({ check }) => check === "hosts").map(({ code, what }) => [code, what])).toEqual([
      ["hosts_known", expect.stringContaining(split[0]!)],
      [
        "hosts_split",
        expect.stringMatching(
          new RegExp(`${split[0]} \\(timeline \\d\\), ${split[1]} \\(timeline \\d\\)`, "u"),
        ),
      ],
    ]);

    await pair.primary.kill();
    await expect(untilRefused(() => put(store, "nowhere"))).resolves.toBe("storage_unavailable");
    await expect(has(old, url, "nowhere")).resolves.toBe(false);
    await pair.primary.start();
    await untilDone(() => put(store, "again"));
    await expect(has(pair.primary, url, "again")).resolves.toBe(true);
    const used = `127.0.0.1:${pair.primary.port}`;
    while (warnings.length < 3) await pause(20);
    expect(warnings).toEqual([
      `postgresql_host: the host of PostgreSQL is now ${used} instead of 127.0.0.1:${old.port}`,
      expect.stringMatching(/^postgresql_host: no host of PostgreSQL can be used/u),
      `postgresql_host: the host of PostgreSQL is ${used} again`,
    ]);
  }, 60_000);
});

/** Repeats a call until it is refused. @returns the code. */
async function untilRefused(call: () => Promise<unknown>): Promise<unknown> {
  for (;;)
    try {
      await call();
      await pause(20);
    } catch (error) {
      return Reflect.get(Object(error), "code");
    }
}
