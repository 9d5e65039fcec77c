/** PostgreSQL behind a real PgBouncer: in session mode, and in the other modes if the address says so. */
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import * as runner from "@jest/globals";
import { Client } from "pg";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { createTestSignIn } from "../../testing/index.ts";
import { outcomes, ref, thing } from "../../testing/storage/stage.ts";
import { describeStorage } from "../../testing/storage/suite.ts";
import { openOwnPgBouncer, type OwnPgBouncer, type PgBouncerSettings } from "../servers/pgbouncer.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { rounds } from "../rounds.ts";
import { closing } from "../closing.ts";

const { afterEach, beforeAll, describe, expect, it } = runner;
const PASSWORD = "the password of the pooler";
const clock = createSystemClock();
let server: OwnPostgres;
let known: string;

beforeAll(async () => {
  server = closing(await openOwnPostgres());
  known = await server.newDatabase();
});

/** The settings that the documentation recommends. */
function documented(): PgBouncerSettings {
  const text = readFileSync(join(import.meta.dirname, "../../docs/operate/set-up/postgresql.md"), "utf8");
  const section = /^\[pgbouncer\]\n((?:.+\n)+)/mu.exec(text)?.[1] ?? "";
  const settings = Object.fromEntries(
    [...section.matchAll(/^(\w+) = (.+)$/gmu)].map(([, name = "", value = ""]) => [name, value]),
  );
  expect(settings).toMatchObject({ pool_mode: "session", auth_type: "scram-sha-256" });
  return settings;
}

/** Runs a test with a PgBouncer. */
async function withPgBouncer(
  settings: PgBouncerSettings,
  use: (bouncer: OwnPgBouncer) => Promise<void>,
): Promise<void> {
  const bouncer = await openOwnPgBouncer(known, settings);
  try {
    await use(bouncer);
  } finally {
    await bouncer.close();
  }
}

/** Makes PgBouncer hold this many sessions of the server, as other clients of it would. */
async function warm(url: string, number: number): Promise<void> {
  const clients = Array.from({ length: number }, () => new Client({ connectionString: url }));
  for (const client of clients) client.on("error", () => undefined);
  await Promise.all(clients.map((client) => client.connect()));
  await Promise.all(clients.map((client) => client.query("SELECT pg_sleep(0.2)")));
  await Promise.all(clients.map((client) => client.end()));
}

const put = (store: RecordStore, key: string): Promise<void> =>
  store.commit({ id: randomUUID(), deadline: clock.now() + 4_500, put: [thing(key)] });

/** The same address for a pooler in transaction mode. */
function sharing(url: string, schema = "public", query: Readonly<Record<string, string>> = {}): string {
  const shared = new URL(url);
  const options = `-c search_path=${schema.replaceAll(/[\\ ]/gu, String.raw`\$&`)}`;
  for (const [name, value] of Object.entries({ ...query, pool_mode: "transaction", options }))
    shared.searchParams.set(name, value);
  return shared.href;
}

async function carriesASignIn(storage: string): Promise<void> {
  const test = await createTestSignIn({ storage, keys: { secrets: [randomBytes(32).toString("base64")] } });
  const client = await test.addClient();
  const ada = await test.addPerson();
  const { access_token } = await client.signIn(ada);
  await expect(client.userinfo(access_token)).resolves.toMatchObject({ status: 200 });
  await test.close();
}

/** A runner that takes every nth case. */
function sampled(every: number): typeof runner {
  let cases = 0;
  const sample = (title: string, body: () => void | Promise<void>): void => {
    cases += 1;
    if (cases % every === 0) it(title, body);
  };
  return { ...runner, it: Object.assign(sample, it) };
}

async function run(url: string, ...texts: readonly string[]): Promise<readonly object[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  let rows: readonly object[] = [];
  for (const text of texts) ({ rows } = await client.query<object>(text));
  await client.end();
  return rows;
}

describe("a PgBouncer that shares sessions, which the address does not say", () => {
  const MODES = ["transaction", "statement"].flatMap((pool_mode) =>
    [0, 1].flatMap((server_round_robin) =>
      [0, 2, 3].map((idle) => ({ pool_mode, server_round_robin, idle })),
    ),
  );

  it.each(MODES)(
    "is refused at the start, and gets no settings [D-PG-10]: $pool_mode, round robin $server_round_robin, $idle idle",
    async ({ idle, ...settings }) => {
      await withPgBouncer(settings, async (bouncer) => {
        const url = bouncer.through(await server.newDatabase());
        await warm(url, idle);
        await expect(openPostgres({ url, clock })).rejects.toMatchObject({
          code: "invalid_configuration",
          message: expect.stringMatching(
            /pool_mode transaction or statement.*add pool_mode=transaction .*set pool_mode=session .* or name PostgreSQL itself/u,
          ),
        });
        const client = new Client({ connectionString: url });
        await client.connect();
        const { rows } = await client.query("SHOW enable_seqscan");
        expect(rows).toEqual([{ enable_seqscan: "on" }]);
        await client.end();
      });
    },
  );
});

describe("a PgBouncer in session mode", () => {
  let bouncer: OwnPgBouncer;
  beforeAll(async () => {
    bouncer = closing(await openOwnPgBouncer(known, documented(), { postgres: PASSWORD }));
  });

  async function newAddress(): Promise<string> {
    const url = new URL(bouncer.through(await server.newDatabase()));
    url.password = PASSWORD;
    return url.href;
  }

  it("applies the options of the address", async () => {
    const url = new URL(await newAddress());
    const administrator = new Client({ connectionString: url.href });
    await administrator.connect();
    await administrator.query("CREATE SCHEMA sign_in");
    url.searchParams.set("options", "-c search_path=sign_in");
    await (await openPostgres({ url: url.href, clock })).close();
    const { rows } = await administrator.query("SELECT to_regclass('sign_in.sign_in_records')::text AS name");
    expect(rows).toEqual([{ name: "sign_in.sign_in_records" }]);
    await administrator.end();
  });

  it("carries a sign-in", async () => {
    await carriesASignIn(await newAddress());
  });

  it("that restarts is found again, also by what listens", async () => {
    const url = await newAddress();
    const open = (): Promise<RecordStore> => openPostgres({ url, clock, announced: ["thing"] });
    const [store, other] = [await open(), await open()];
    let noticed = Promise.withResolvers<void>();
    store.watch?.(["thing"], () => noticed.resolve());
    /** Resolves when a change of another process is noticed. */
    const untilNoticed = async (): Promise<void> => {
      noticed = Promise.withResolvers();
      const seen = noticed.promise.then(() => true);
      do await put(other, "a").catch(() => undefined);
      while (!(await Promise.race([seen, pause(50, false)])));
    };
    await untilNoticed();
    await bouncer.stop();
    expect(await outcomes([store.get([ref("a")]), store.ping()])).toEqual([
      "storage_unavailable",
      "storage_unavailable",
    ]);
    await bouncer.start();
    while ((await outcomes([store.get([ref("a")]), put(other, "a")])).includes("storage_unavailable"))
      await pause(20);
    await untilNoticed();
    await Promise.all([store.close(), other.close()]);
  });

  let last = "";
  const openAgain = (at: { now(): number }): Promise<RecordStore> => openPostgres({ url: last, clock: at });
  describeStorage(
    "PostgreSQL behind PgBouncer",
    {
      async open(at) {
        last = await newAddress();
        return openAgain(at);
      },
      reopen: openAgain,
    },
    sampled(rounds(4, 1)),
  );
});

describe("an address with pool_mode=transaction", () => {
  const opened: RecordStore[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
  });

  async function open(url: string): Promise<RecordStore> {
    const store = await openPostgres({ url, clock, announced: ["thing"] });
    opened.push(store);
    return store;
  }

  describe("behind PgBouncer, with two sessions of the server that take turns", () => {
    let bouncer: OwnPgBouncer;
    beforeAll(async () => {
      bouncer = closing(
        await openOwnPgBouncer(known, {
          pool_mode: "transaction",
          default_pool_size: 2,
          server_round_robin: 1,
        }),
      );
    });

    let last = "";
    const openAgain = (at: { now(): number }): Promise<RecordStore> => openPostgres({ url: last, clock: at });
    describeStorage(
      "PostgreSQL behind PgBouncer in transaction mode",
      {
        async open(at) {
          last = sharing(bouncer.through(await server.newDatabase()));
          return openAgain(at);
        },
        reopen: openAgain,
      },
      sampled(rounds(2, 1)),
    );

    /** The address of a new database behind the pooler. */
    const newAddress = async (): Promise<string> => bouncer.through(await server.newDatabase());

    it("carries a sign-in, and leaves nothing in the sessions [D-PG-10, D-PG-12]", async () => {
      const url = await newAddress();
      await carriesASignIn(sharing(url));
      const left =
        "SELECT current_setting('search_path') AS path, current_setting('enable_seqscan') AS scans, current_setting('statement_timeout') AS limit, (SELECT count(*)::int FROM pg_prepared_statements) AS prepared";
      const clean = { path: '"$user", public', scans: "on", limit: "0", prepared: 0 };
      // They take turns.
      for (let session = 0; session < 2; session += 1) expect(await run(url, left)).toEqual([clean]);
    });

    it("many processes count and write at once, whatever others leave in the sessions [D-PG-10, D-PG-12]", async () => {
      const url = await newAddress();
      await run(url, "CREATE SCHEMA sign_in", "CREATE SCHEMA elsewhere");
      const stores = await Promise.all(Array.from({ length: 5 }, () => open(sharing(url, "sign_in"))));
      const stopping = new AbortController();
      const spoil = async (): Promise<void> => {
        while (!stopping.signal.aborted)
          await run(
            url,
            "SET search_path = pg_temp, elsewhere; SET enable_indexscan = off; SET plan_cache_mode = force_custom_plan",
            "CREATE TEMP TABLE IF NOT EXISTS sign_in_records (kind text, key text)",
            "CREATE TABLE IF NOT EXISTS elsewhere.sign_in_counters (name text PRIMARY KEY, value bigint)",
            "PREPARE anything AS SELECT 1; DEALLOCATE anything",
          );
      };
      const spoiling = spoil();
      const numbers = await Promise.all(
        stores.flatMap((store, process) =>
          Array.from({ length: 20 }, async (_each, index) => {
            await put(store, `r${process}-${index}`);
            return store.next("user_id");
          }),
        ),
      );
      const late = await open(sharing(url, "sign_in"));
      const refs = stores.flatMap((_store, process) =>
        Array.from({ length: 20 }, (_each, index) => ref(`r${process}-${index}`)),
      );
      await expect(late.get(refs)).resolves.toEqual(refs.map((each) => expect.objectContaining(each)));
      stopping.abort();
      await spoiling;
      expect(numbers.toSorted((one, other) => one - other)).toEqual(numbers.map((_each, index) => index + 1));
      const sessions =
        "SELECT count(DISTINCT pid)::int AS sessions FROM pg_stat_activity WHERE datname = current_database()";
      expect(await run(url, sessions)).toEqual([{ sessions: 2 }]);
      expect(await run(url, "SELECT count(*)::int AS counters FROM elsewhere.sign_in_counters")).toEqual([
        { counters: 0 },
      ]);
    });

    it("a change in one record happens once for each that is acknowledged", async () => {
      const url = sharing(await newAddress());
      const stores = await Promise.all([open(url), open(url), open(url)]);
      await put(stores[0], "counter");
      const add = async (store: RecordStore): Promise<void> => {
        const [found] = await store.get([ref("counter")]);
        const { count = 0 } = found!.value as { readonly count?: number };
        const change = {
          put: [thing("counter", { value: { count: count + 1 } })],
          expect: [{ ref: ref("counter"), version: found!.version }],
        };
        await store
          .commit({ id: randomUUID(), deadline: clock.now() + 4_500, ...change })
          .catch(async (error: unknown) => {
            if (!(error instanceof ConditionFailed)) throw error;
            await add(store);
          });
      };
      await Promise.all(stores.flatMap((store) => [add(store), add(store), add(store), add(store)]));
      await expect(stores[0].get([ref("counter")])).resolves.toMatchObject([{ value: { count: 12 } }]);
    });

    it("processes with sessions of their own are told of its changes, and it of none", async () => {
      const direct = await server.newDatabase();
      const [pooled, own] = [await open(sharing(bouncer.through(direct))), await open(direct)];
      expect(pooled).toMatchObject({ watch: undefined });
      const noticed = Promise.withResolvers<boolean>();
      own.watch?.(["thing"], () => noticed.resolve(true));
      do await put(pooled, "a");
      while (!(await Promise.race([noticed.promise, pause(50, false)])));
    });

    it("a command creates functions with its first call, and not when it opens", async () => {
      const direct = await server.newDatabase();
      await put(await open(direct), "a");
      const functions = "SELECT count(*)::int FROM pg_proc WHERE proname ~ '^sign_in_get_one'";
      const url = sharing(bouncer.through(direct));
      const command = await openPostgres({ url, clock, mustExist: true });
      opened.push(command);
      expect(await run(direct, functions)).toEqual([{ count: 0 }]);
      await expect(command.get([ref("a")])).resolves.toMatchObject([{ key: "a" }]);
      expect(await run(direct, functions)).toEqual([{ count: 1 }]);
    });

    it.each([`we"ird`, "it's; DROP SCHEMA public --", "a $$ b", String.raw`back\slash`, "Größe, 日本"])(
      "a schema may have the name %s",
      async (schema) => {
        const url = await newAddress();
        const quoted = `"${schema.replaceAll('"', '""')}"`;
        await run(url, `CREATE SCHEMA ${quoted}`);
        const store = await open(sharing(url, quoted));
        await put(store, "a");
        await expect(store.get([ref("a")])).resolves.toMatchObject([{ key: "a" }]);
        expect(
          await run(url, "SELECT nspname AS name FROM pg_namespace WHERE nspname !~ '^(pg_|info|public)'"),
        ).toEqual([{ name: schema }]);
      },
    );

    it("is found again after a restart", async () => {
      const store = await open(sharing(await newAddress()));
      await bouncer.stop();
      const late = put(store, "late");
      await expect(store.ping()).rejects.toMatchObject({ code: "storage_unavailable" });
      await bouncer.start();
      await late;
      await expect(store.get([ref("late")])).resolves.toMatchObject([{ key: "late" }]);
    });
  });

  it("works in statement mode, and without a pooler [D-PG-10]", async () => {
    const direct = await server.newDatabase();
    await withPgBouncer({ pool_mode: "statement" }, async (bouncer) => {
      const store = await open(sharing(bouncer.through(direct)));
      await put(store, "a");
    });
    const store = await open(sharing(direct));
    await put(store, "b");
    await expect(store.get([ref("a"), ref("b")])).resolves.toMatchObject([{ key: "a" }, { key: "b" }]);
  });
});
