import { type AddressInfo, createServer } from "node:net";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { Connections } from "../../adapters/postgresql/connection.ts";
import { isTransient } from "../../adapters/postgresql/faults.ts";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import {
  COMMIT,
  COUNT,
  GET,
  GET_ONE,
  LIST_DOWN,
  LIST_UP,
  NAMES,
  SCAN,
  SWEEP,
} from "../../adapters/postgresql/schema.ts";
import { createSystemClock } from "../../core/clock.ts";
import { PAYLOAD } from "../../records/deliveries/delivery-kinds.ts";
import { openStorage } from "../../records/storage.ts";
import { thing } from "../../testing/storage/stage.ts";
import { ManualClock } from "../records/rules/stage.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { atEnd, closing } from "../closing.ts";

let server: OwnPostgres;

beforeAll(async () => {
  server = closing(await openOwnPostgres());
});

describe("a PostgreSQL that can't be used", () => {
  const SECRET = "a-secret-that-is-nowhere";

  /** The code and the text of the error. */
  async function refused(url: string): Promise<string> {
    const error = await openPostgres({ url, clock: new ManualClock() }).then(
      (store) => store.close(),
      (reason: unknown) => reason as Error & { readonly code: string },
    );
    if (error === undefined) return "opened";
    expect(`${JSON.stringify(error)} ${error.stack} ${String(error.cause)}`).not.toContain(SECRET);
    return `${error.code}: ${error.message}`;
  }

  it.each([
    ["127.0.0.1:1/x", "storage_unavailable: the PostgreSQL of config.storage can't be used (ECONNREFUSED)"],
    ["127.0.0.1:none/x", "invalid_configuration: config.storage: is not a `postgresql://` URL with a host"],
    [
      "127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/none.pem",
      "invalid_configuration: config.storage: the file of sslrootcert, /none.pem, can't be read (ENOENT)",
    ],
    [
      `127.0.0.1:1/x?sslcert=${import.meta.filename}&sslkey=${import.meta.filename}`,
      "invalid_configuration: config.storage: the files of sslrootcert, sslcert and sslkey can't be used for TLS (ERR_OSSL_PEM_NO_START_LINE)",
    ],
  ])("is at %s", async (place, sentence) => {
    expect(await refused(`postgresql://user:${SECRET}@${place}`)).toBe(sentence);
  });

  it("accepts connections and never responds", async () => {
    const silent = createServer((socket) => void socket.on("error", () => undefined).resume());
    await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    const sentence = "storage_unavailable: the PostgreSQL of config.storage can't be used (no answer)";
    expect(await refused(`postgresql://user:${SECRET}@127.0.0.1:${port}/x`)).toBe(sentence);
    await new Promise((resolve) => void silent.close(resolve));
  });

  it("has no such database or user, or one without rights", async () => {
    const url = new URL(await server.newDatabase());
    const client = new Client({ connectionString: url.href });
    await client.connect();
    await client.query(`CREATE ROLE reader LOGIN PASSWORD '${SECRET}'`);
    await client.query("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    await client.end();
    const as = (user: string, database: string): string =>
      `postgresql://${user}:${SECRET}@${url.host}/${database}`;
    const own = url.pathname.slice(1);
    expect(await refused(as("postgres", "none"))).toBe(
      "invalid_configuration: config.storage: PostgreSQL has no database of this name",
    );
    expect(await refused(as("nobody", own))).toBe(
      "invalid_configuration: config.storage: PostgreSQL refuses the user or the password",
    );
    expect(await refused(as("reader", own))).toMatch(
      /^invalid_configuration: .*may create tables and functions$/,
    );
  });
});

describe("a table that the planner believes to be large", () => {
  /** With these, the planner uses parallel workers and compiles a statement whenever it may. */
  const EAGER = [
    "parallel_setup_cost=0",
    "parallel_tuple_cost=0",
    "min_parallel_table_scan_size=0",
    "min_parallel_index_scan_size=0",
    "jit_above_cost=0",
  ];
  const PAGE = [["thing"], ["kind"], ["a"], [0], [0], [1e15], [9]];
  let connections: Connections;

  beforeAll(async () => {
    const url = new URL(await server.newDatabase());
    url.searchParams.set("options", EAGER.map((setting) => `-c ${setting}`).join(" "));
    const clock = new ManualClock();
    const store = await openPostgres({ url: url.href, clock });
    const put = Array.from({ length: 2_000 }, (_each, index) =>
      thing(`t${index}`, { index: [{ name: "kind", at: "a", order: index }] }),
    );
    await store.commit({ id: "filled", deadline: clock.now() + 30_000, put });
    await store.close();
    connections = closing(await Connections.open(url.href));
    await connections.raw("ANALYZE");
  });

  it.each([
    { ...GET_ONE, values: [1, "thing", "t1"] },
    { ...GET, values: [1, ["thing", "thing"], ["t1", "t2"]] },
    { ...LIST_UP, values: [1, ...PAGE] },
    { ...LIST_DOWN, values: [1, ...PAGE] },
    { ...SCAN, values: [1, "thing", "", 9] },
    { ...COUNT, values: [["thing"], ["kind"], ["a"], [0], [1e15], [9]] },
  ])("is read by its indexes, in one process and without compiling: $name", async ({ text, values }) => {
    const rows = await connections.raw(`EXPLAIN (ANALYZE) ${text}`, values);
    const plan = rows.map((row) => String(row["QUERY PLAN"])).join("\n");
    expect(plan).toMatch(/Index/u);
    expect(plan).not.toMatch(/Seq Scan|Hash|Merge Join|Gather|JIT/u);
  });
});

it("vacuums its tables more often than others, as they grow", async () => {
  const url = await server.newDatabase();
  await (await openPostgres({ url, clock: new ManualClock() })).close();
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ name: string; options: readonly string[] }>(
    "SELECT relname AS name, reloptions AS options FROM pg_class WHERE relname LIKE 'sign_in%' AND reloptions IS NOT NULL ORDER BY 1",
  );
  await client.end();
  const churned = [
    "autovacuum_vacuum_scale_factor=0.02",
    "autovacuum_vacuum_insert_scale_factor=0.05",
    "autovacuum_analyze_scale_factor=0.05",
  ];
  expect(rows).toEqual([
    {
      name: "sign_in_commits",
      options: [
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=20000",
        "autovacuum_vacuum_insert_threshold=-1",
        "autovacuum_vacuum_cost_delay=0",
      ],
    },
    { name: "sign_in_entries", options: churned },
    { name: "sign_in_records", options: churned },
  ]);
});

describe("a database that processes of another version use", () => {
  const FUNCTIONS =
    "SELECT proname AS name, md5(prosrc) AS text FROM pg_proc WHERE proname LIKE 'sign_in%' ORDER BY 1";

  it("keeps their functions, and gets those of this one by the first start or the first change of a command [D-PG-7]", async () => {
    const url = await server.newDatabase();
    const clock = new ManualClock();
    const put = async (id: string, mustExist: boolean): Promise<void> => {
      const store = await openPostgres({ url, clock, mustExist });
      await store.commit({ id, deadline: clock.now() + 5_000, put: [thing(id)] });
      await store.close();
    };
    await put("first", false);
    const client = new Client({ connectionString: url });
    await client.connect();
    const created = (await client.query(FUNCTIONS)).rows;
    expect(new Set(created.map(({ name }: { readonly name: string }) => name))).toEqual(
      new Set(Object.values(NAMES)),
    );
    // As the other version has left it.
    for (const name of Object.values(NAMES))
      await client.query(`ALTER FUNCTION ${name} RENAME TO ${name.replace(/_[^_]+$/u, "_0123abcd")}`);
    const others = (await client.query(FUNCTIONS)).rows;
    await (await openPostgres({ url, clock, mustExist: true })).close();
    expect((await client.query(FUNCTIONS)).rows).toEqual(others);
    await put("second", true);
    expect((await client.query(FUNCTIONS)).rows).toEqual(
      expect.arrayContaining([...created.map((each: object) => expect.objectContaining(each)), ...others]),
    );
    await put("third", false);
    expect((await client.query(FUNCTIONS)).rows).toHaveLength(6);
    await client.end();
  });

  it.each(["pool_mode=session", "pool_mode=transaction&options=-c%20search_path%3Dpublic"])(
    "loses what only they need, and nothing else: %s [D-UP-10]",
    async (mode) => {
      const url = await server.newDatabase();
      const clock = new ManualClock();
      const open = () => openPostgres({ url: `${url}?${mode}`, clock });
      const [store, other] = [closing(await open()), closing(await open())];
      const client = new Client({ connectionString: url });
      await client.connect();
      atEnd(() => client.end());
      await client.query(`
        CREATE TABLE sign_in_former (id int, "it's" int); CREATE INDEX sign_in_ended ON sign_in_former (id);
        CREATE TABLE kept (gone int, stays int);
        CREATE FUNCTION sign_in_commit_0badcafe(text, json[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION sign_in_commit_0badcafe(text) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION sign_in_get_one_0badcafe() RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION sign_in_mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE SCHEMA elsewhere; CREATE FUNCTION elsewhere.sign_in_commit_0badcafe() RETURNS int LANGUAGE sql AS 'SELECT 1';`);
      const own = (await client.query(FUNCTIONS)).rows.length;
      const former = [
        "sign_in_ended",
        "sign_in_former.it's",
        "kept.gone",
        "kept.never",
        "sign_in_never",
        "no'thing",
      ];
      expect(await store.leftovers?.(former)).toEqual([
        "kept.gone",
        "sign_in_commit_0badcafe",
        "sign_in_commit_0badcafe",
        "sign_in_ended",
        "sign_in_former.it's",
        "sign_in_get_one_0badcafe",
      ]);
      await store.dropLeftovers?.(former);
      expect(await store.leftovers?.(former)).toEqual([]);
      expect(await store.leftovers?.(["sign_in_former"])).toEqual(["sign_in_former"]);
      expect((await client.query(FUNCTIONS)).rows).toHaveLength(own - 3);
      await client.query("SELECT elsewhere.sign_in_commit_0badcafe(), stays FROM kept");

      // A process of another version that nobody saw: it has its functions again with its next call.
      const functions = (await client.query(FUNCTIONS)).rows as { readonly name: string }[];
      await other.commit({ id: "before", deadline: clock.now() + 5_000, put: [thing("a")] });
      const dropped = functions.filter(({ name }) => !/mine|0badcafe/u.test(name)).map(({ name }) => name);
      await client.query(`DROP FUNCTION ${dropped.join(", ")}`);
      await other.commit({ id: "after", deadline: clock.now() + 5_000, put: [thing("b")] });
      await client.query(`DROP FUNCTION ${dropped.join(", ")}`);
      expect(await other.sweep(10, clock.now())).toBe(0);
      expect((await client.query(FUNCTIONS)).rows).toHaveLength(functions.length);
    },
  );
});

/** Puts records, of which every twentieth expires. */
async function fill(url: URL, from: number, to: number): Promise<void> {
  const clock = new ManualClock();
  const store = await openPostgres({ url: url.href, clock });
  for (let start = from; start < to; start += 1_000) {
    const put = Array.from({ length: Math.min(1_000, to - start) }, (_each, index) => {
      const order = start + index;
      return thing(`t${order}`, {
        index: [{ name: "kind", at: "a", order }],
        ...(order % 20 === 10 && { expiresAt: clock.now() + 1_000 }),
      });
    });
    await store.commit({ id: `filled-${start}`, deadline: clock.now() + 30_000, put });
  }
  await store.close();
}

const literals = (values: readonly unknown[]): string =>
  values.map((value) => (Array.isArray(value) ? `'{${value.join(",")}}'` : `'${String(value)}'`)).join(", ");

/** A call of the function of a statement. */
const called = (use: {
  readonly function?: { readonly name: string };
  readonly values: readonly unknown[];
}): string => `${use.function?.name}(${literals(use.values)})`;

async function blocksRead(by: Connections, text: string): Promise<number> {
  const explain = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`;
  const [row] = await by.raw<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(explain);
  const plan = row?.["QUERY PLAN"][0].Plan;
  return (plan?.["Shared Hit Blocks"] ?? 0) + (plan?.["Shared Read Blocks"] ?? 0);
}

describe("a table that has grown since the statements were planned", () => {
  const SIZE = 20_000;
  const PAGE = [["thing"], ["kind"], ["a"], [0], [0], [1e15], [9]];
  let connections: Connections;
  /** As behind a pooler, with one session. */
  let pooled: Connections;

  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  /** A commit that uses one record, which moves in the index if it is put. */
  const commit = (id: string, use: string, key: string): unknown[] => {
    const refs = [{ kind: "thing", key, use, version: null, parent: false }];
    const entries = JSON.stringify([{ name: "kind", at: "a", order: SIZE + 1 }]);
    const puts = use === "put" ? [{ ref: 1, key, value: "{}", entries }] : [];
    return [id, JSON.stringify(refs), JSON.stringify(puts), 1, inAnHour, true, false, use === "put"];
  };
  const USES = [
    { ...GET_ONE, values: [1, "thing", "t1"] },
    { ...GET, values: [1, ["thing", "thing"], ["t1", "t2"]] },
    { ...LIST_UP, values: [1, ...PAGE] },
    { ...LIST_DOWN, values: [1, ...PAGE] },
    { ...SCAN, values: [1, "thing", "", 9] },
    { ...COUNT, values: [["thing"], ["kind"], ["a"], [0], [1e15], [9]] },
    { ...COMMIT, name: `${COMMIT.name}, put`, values: commit("put", "put", "t3") },
    { ...COMMIT, name: `${COMMIT.name}, remove`, values: commit("remove", "remove", "t4") },
    { ...SWEEP, values: [1e15, 3] },
  ];

  beforeAll(async () => {
    const url = new URL(await server.newDatabase());
    await fill(url, 0, 20);
    const alone = new URL(url);
    alone.searchParams.set("pool_size", "1");
    connections = closing(await Connections.open(alone.href));
    for (const [index, { text, values }] of USES.entries()) {
      await connections.raw(`PREPARE planned${index} AS ${text}`);
      await connections.raw(`BEGIN; EXECUTE planned${index}(${literals(values)}); ROLLBACK`);
    }
    alone.searchParams.set("pool_mode", "transaction");
    alone.searchParams.set("options", "-c search_path=public");
    await (await openPostgres({ url: alone.href, clock: new ManualClock() })).close();
    pooled = closing(await Connections.open(alone.href));
    for (const use of USES) await pooled.raw(`BEGIN; SELECT * FROM ${called(use)}; ROLLBACK`);
    await fill(url, 20, SIZE);
  });

  it.each([...USES.entries()].map(([index, use]) => ({ name: use.name, index, use })))(
    "is read only where its records are, also by a function in any session: $name [D-PG-11]",
    async ({ index, use }) => {
      for (const blocks of [
        await blocksRead(connections, `EXECUTE planned${index}(${literals(use.values)})`),
        await blocksRead(pooled, `SELECT * FROM ${called(use)}`),
      ]) {
        expect(blocks).toBeGreaterThan(0);
        expect(blocks).toBeLessThan(100);
      }
    },
  );
});

it("tells other processes of a change, but not of one that nobody waits for", async () => {
  const url = await server.newDatabase();
  const clock = new ManualClock();
  const store = await openPostgres({ url, clock, announced: ["thing", "done"] });
  const listener = new Client({ connectionString: url });
  await listener.connect();
  await listener.query("LISTEN sign_in_changes");
  const told = new Promise((resolve) => listener.on("notification", ({ payload }) => resolve(payload)));
  const deadline = clock.now() + 5_000;
  await store.commit({ id: "1", deadline, put: [thing("a", { kind: "done" })], quiet: true });
  await store.commit({ id: "2", deadline, put: [thing("a")] });
  expect(await told).toBe("thing");
  await Promise.all([store.close(), listener.end()]);
});

it.each([
  [false, "mail"],
  [true, "payload"],
])("tells workers of mail unless the process sends it: %s", async (worker, first) => {
  const url = await server.newDatabase();
  const clock = createSystemClock();
  const storage = await openStorage({ storage: url, artifacts: url, clock, notifications: { worker } });
  const listener = new Client({ connectionString: url });
  await listener.connect();
  await listener.query("LISTEN sign_in_changes");
  const told = new Promise((resolve) => listener.on("notification", ({ payload }) => resolve(payload)));
  const due = Math.floor(clock.now());
  const expiresAt = due + 60_000;
  const mail = {
    id: "m",
    kind: "new-browser",
    due,
    attempts: 0,
    createdAt: due,
    sealed: "",
    expiresAt,
  } as const;
  await storage.outbox.add(mail);
  await storage.records.transact((tx) => tx.overwrite(PAYLOAD.record({ id: "p", payload: "" })));
  expect(await told).toBe(first);
  await Promise.all([storage.close(), listener.end()]);
});

/** The reference of a commit that uses one record. */
const one = (use: string, version: string | null): string =>
  JSON.stringify([{ kind: "thing", key: "a", use, version, parent: false }]);

describe("a commit that is sent again while its first attempt runs", () => {
  const PUT = JSON.stringify([{ ref: 1, key: "a", value: "{}" }]);

  it.each([
    ["puts a new record", false, one("put", "absent"), PUT],
    ["puts a record that may be there", false, one("put", null), PUT],
    ["replaces a version", true, one("put", "before"), PUT],
    ["replaces any version", true, one("put", null), PUT],
    ["removes a version", true, one("remove", "before"), "[]"],
  ])("happens once: %s", async (_what, isThere, refs, puts) => {
    const url = await server.newDatabase();
    const clock = new ManualClock();
    const store = await openPostgres({ url, clock });
    if (isThere) await store.commit({ id: "before", deadline: clock.now() + 5_000, put: [thing("a")] });
    const connections = await Connections.open(url);
    const deadline = new Date(Date.now() + 60_000);
    /** As the store does when no answer came. */
    const attempt = async (): Promise<unknown> => {
      for (;;)
        try {
          return (
            await connections.raw(COMMIT, ["again", refs, puts, clock.now(), deadline, true, true, false])
          )[0];
        } catch (error) {
          if (!isTransient(error)) throw error;
        }
    };
    const answers = await Promise.all(Array.from({ length: 8 }, attempt));
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(new Set(['{"failed":null}']));
    expect(await connections.raw("SELECT count(*)::int FROM sign_in_commits WHERE id = 'again'")).toEqual([
      { count: 1 },
    ]);
    await Promise.all([store.close(), connections.close()]);
  });
});
