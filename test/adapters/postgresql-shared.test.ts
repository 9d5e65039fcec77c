/** A database of PostgreSQL that the service shares with another role, which plants what would run as the service. */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import type { RecordStore } from "../../adapters/record-store.ts";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import { COMMIT, GET_ONE, NAMES } from "../../adapters/postgresql/schema.ts";
import { namedBlock } from "../examples/documents.ts";
import { ManualClock } from "../records/rules/stage.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { closing } from "../closing.ts";

const clock = new ManualClock();
let server: OwnPostgres;

beforeAll(async () => {
  server = closing(await openOwnPostgres());
  const url = await server.newDatabase();
  await as(url, "postgres", "CREATE ROLE service LOGIN; CREATE ROLE other LOGIN");
}, 60_000);

/** Runs statements as this role. */
async function as(url: string, role: string, text: string): Promise<readonly object[]> {
  const address = new URL(url);
  address.username = role;
  const client = new Client({ connectionString: address.href });
  await client.connect();
  try {
    const result = await client.query<object>(text);
    return result.rows ?? [];
  } finally {
    await client.end();
  }
}

/** A database in which both roles may create things. `stolen` is where the other one writes as whoever calls it. */
async function newShared(): Promise<string> {
  const url = await server.newDatabase();
  const { pathname } = new URL(url);
  await as(
    url,
    "postgres",
    `GRANT ALL ON DATABASE ${pathname.slice(1)} TO service, other; GRANT ALL ON SCHEMA public TO service, other;
     CREATE TABLE stolen (who text); GRANT ALL ON stolen TO PUBLIC;`,
  );
  return url;
}

interface Opened {
  readonly store: RecordStore;
  readonly warnings: readonly string[];
}

interface How {
  readonly options?: string;
  readonly mustExist?: boolean;
  readonly role?: string;
  readonly poolMode?: "session" | "transaction";
}

async function open(
  url: string,
  { options, mustExist = false, role = "service", poolMode = "session" }: How = {},
): Promise<Opened> {
  const address = new URL(url);
  address.username = role;
  if (options !== undefined) address.searchParams.set("options", options);
  address.searchParams.set("pool_mode", poolMode);
  const warnings: string[] = [];
  const store = await openPostgres({
    url: address.href,
    clock,
    mustExist,
    onWarning: (text) => void warnings.push(text),
  });
  return { store, warnings };
}

const use = async ({ store }: Opened): Promise<void> => {
  const put = [{ kind: "thing", key: "k", value: {} }];
  await store.commit({ id: randomUUID(), deadline: clock.now() + 5_000, put });
};

/** Writes who runs it. */
const THIEF = `CREATE FUNCTION thief() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO stolen VALUES (current_user); RETURN NEW; END $$;`;

const RECORDS = `CREATE TABLE sign_in_records (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text, key text, value text,
  version text, expires_at double precision, parent bigint, entries text, UNIQUE (kind, key)); GRANT ALL ON sign_in_records TO PUBLIC;`;

const ADVICE =
  "whoever made that can run code as the service. Remove it, or give the service a schema of its own";

describe("what another role has planted before the first start", () => {
  it.each([
    [
      "a table with a trigger",
      `${THIEF} ${RECORDS} CREATE TRIGGER steal BEFORE INSERT ON sign_in_records FOR EACH ROW EXECUTE FUNCTION thief();`,
      /the table sign_in_records belongs to other, the table sign_in_records has the trigger steal/u,
    ],
    [
      "a view",
      "CREATE VIEW sign_in_counters AS SELECT 1 AS name, 2 AS value;",
      /the relation sign_in_counters belongs to other/u,
    ],
    [
      "a sequence",
      "CREATE SEQUENCE sign_in_records_id_seq;",
      /the sequence sign_in_records_id_seq belongs to other/u,
    ],
    [
      "a function of the same name and types",
      `CREATE FUNCTION ${NAMES.sweep}(now double precision, most integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';`,
      /the function sign_in_sweep_[0-9a-f]{8} belongs to other/u,
    ],
    [
      "a function of the same name and other types",
      `CREATE FUNCTION ${NAMES.commit}(a text, b text, c text, d text, e text, f text, g text) RETURNS integer[] LANGUAGE sql AS 'SELECT NULL::integer[]';`,
      /the function sign_in_commit_[0-9a-f]{8} belongs to other/u,
    ],
    [
      "a function that only connections without sessions call",
      `CREATE FUNCTION ${GET_ONE.function?.name}(a text) RETURNS integer LANGUAGE sql AS 'SELECT 1';`,
      /the function sign_in_get_one_[0-9a-f]{8} belongs to other/u,
    ],
    [
      "a function that hides one of PostgreSQL",
      "CREATE FUNCTION nextval(name text) RETURNS bigint LANGUAGE sql AS 'INSERT INTO stolen VALUES (current_user) RETURNING 1::bigint';",
      /the function nextval belongs to other/u,
    ],
    [
      "an operator",
      `CREATE FUNCTION same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
       CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = same);`,
      /the operator = belongs to other/u,
    ],
  ])("%s refuses the start, and has not run", async (_what, plant, says) => {
    const url = await newShared();
    await as(url, "other", plant);
    await expect(open(url)).rejects.toMatchObject({
      code: "invalid_configuration",
      message: expect.stringMatching(says),
    });
    await expect(open(url)).rejects.toThrow(ADVICE);
    expect(await as(url, "postgres", "SELECT * FROM stolen")).toEqual([]);
  });
});

describe("what another role plants later", () => {
  it("as a trigger refuses the next start, also of a command", async () => {
    const url = await newShared();
    const first = await open(url);
    await use(first);
    await first.store.close();
    await as(url, "service", "GRANT TRIGGER ON sign_in_records TO other");
    await as(
      url,
      "other",
      `${THIEF} CREATE TRIGGER steal BEFORE INSERT ON sign_in_records FOR EACH ROW EXECUTE FUNCTION thief()`,
    );
    for (const mustExist of [false, true])
      await expect(open(url, { mustExist })).rejects.toThrow(
        "the table sign_in_records has the trigger steal",
      );
  });

  it.each(["session", "transaction"] as const)(
    "as functions for texts, which PostgreSQL would prefer, is not called: pool_mode=%s [D-PG-10]",
    async (poolMode) => {
      const url = await newShared();
      const opened = await open(url, { poolMode, options: "-c search_path=public" });
      for (const [name, size] of [
        [GET_ONE.function!.name, 3],
        [COMMIT.function!.name, 8],
        [NAMES.commit, 8],
        [NAMES.sweep, 2],
      ] as const)
        await as(
          url,
          "other",
          `CREATE FUNCTION ${name}(${Array.from({ length: size }, () => "text").join(", ")}) RETURNS integer[] LANGUAGE sql AS
            'INSERT INTO stolen VALUES (current_user) RETURNING NULL::integer[]'`,
        );
      await use(opened);
      await opened.store.get([{ kind: "thing", key: "k" }]);
      await opened.store.sweep(1, 1);
      expect(await as(url, "postgres", "SELECT * FROM stolen")).toEqual([]);
      await opened.store.close();
    },
  );

  it("in a schema that comes first in the search path is not looked at by new connections", async () => {
    const url = await newShared();
    const opened = await open(url);
    await as(
      url,
      "other",
      `CREATE SCHEMA service; GRANT USAGE ON SCHEMA service TO PUBLIC;
       CREATE TABLE service.sign_in_records (LIKE pg_class); GRANT ALL ON service.sign_in_records TO PUBLIC;`,
    );
    // Several at once open further connections.
    await Promise.all(Array.from({ length: 8 }, () => opened.store.get([{ kind: "thing", key: "k" }])));
    await use(opened);
    await opened.store.close();
  });
});

describe("a schema of the service's own", () => {
  it("is used without a warning, whatever others have planted elsewhere", async () => {
    const url = await newShared();
    await as(url, "other", RECORDS);
    await as(url, "postgres", "CREATE SCHEMA sign_in AUTHORIZATION service");
    const opened = await open(url, { options: "-c search_path=sign_in" });
    await use(opened);
    expect(opened.warnings).toEqual([]);
    await opened.store.close();
  });

  it("is made by the documented statements", async () => {
    const url = await newShared();
    await as(url, "other", RECORDS);
    const documented = namedBlock("make-the-database");
    await as(url, "postgres", documented.code.replace("…", "a password"));
    const opened = await open(url, { role: "sign_in" });
    await use(opened);
    expect(opened.warnings).toEqual([]);
    await opened.store.close();
    const tables = "SELECT DISTINCT schemaname, tableowner FROM pg_tables WHERE tableowner = 'sign_in'";
    expect(await as(url, "postgres", tables)).toEqual([{ schemaname: "sign_in", tableowner: "sign_in" }]);
  });

  it("loses no function that another role has made, whatever its name [D-UP-10]", async () => {
    const url = await newShared();
    await as(
      url,
      "other",
      "CREATE FUNCTION sign_in_commit_0badcafe() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    );
    const { store } = await open(url);
    expect(await store.leftovers?.([])).toEqual([]);
    await store.dropLeftovers?.([]);
    expect(await as(url, "other", "SELECT sign_in_commit_0badcafe() AS is_there")).toEqual([{ is_there: 1 }]);
    await store.close();
  });

  it("is recommended where others may create things", async () => {
    const opened = await open(await newShared());
    expect(opened.warnings).toEqual([
      expect.stringMatching(
        /^other users of PostgreSQL may create tables and functions in the schema of the storage/u,
      ),
    ]);
    await opened.store.close();
  });

  it("that does not exist is said in words", async () => {
    const url = await newShared();
    for (const mustExist of [false, true])
      await expect(open(url, { options: "-c search_path=nowhere", mustExist })).rejects.toThrow(
        "config.storage: the search_path of this user of PostgreSQL names no schema that exists: create it with CREATE SCHEMA, or correct options",
      );
  });
});
