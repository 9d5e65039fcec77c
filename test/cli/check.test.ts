import { copyFileSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { type Outcome, runHere, Workshop } from "./stage.ts";
import { use } from "./used-service.ts";

const workshop = new Workshop();
/** A database that a service has used. */
const sound = workshop.path();
let subs: string[];

async function openService(path: string): Promise<SignInService> {
  return createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    storage: `sqlite:${path}`,
    notifications: { worker: false },
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
  });
}

beforeAll(async () => {
  const service = await openService(sound);
  subs = await use(service);
  await service.close();
});
afterAll(() => workshop.remove());

function check(path: string, ...options: string[]): Promise<Outcome> {
  return runHere(["storage", "check", `sqlite:${path}`, ...options]);
}

/** A copy of the sound database in which something was done. @param sql statements with `ADA` for a sub. */
function planted(sql: string): string {
  const path = workshop.path();
  copyFileSync(sound, path);
  const database = new DatabaseSync(path);
  database.exec(sql.replaceAll("ADA", `'${subs[0]}'`).replaceAll("BOB", `'${subs[1]}'`));
  database.close();
  return path;
}

/** Everything in a database, the order of rows without one included. */
function contents(path: string): unknown {
  const database = new DatabaseSync(path);
  const tables = database.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
  const rows = tables
    .filter(({ sql }) => String(sql).startsWith("CREATE TABLE"))
    .map(({ name }) => [name, database.prepare(`SELECT * FROM "${String(name)}"`).all()]);
  database.close();
  return { tables, rows };
}

/** What is done to the database, what is said of it, and whether it ends up as it was. */
type Damage = readonly [name: string, sql: string, says: RegExp];

const LANE = "WHERE sub = ADA";

const repairable: readonly Damage[] = [
  ["an index is missing", "DROP INDEX lanes_due", /schema: 1 indexes that are missing.*\(lanes_due\)/],
  [
    "an index is another one",
    "DROP INDEX names_sub; CREATE INDEX names_sub ON names (name)",
    /schema: 1 indexes.*\(names_sub\)/,
  ],
  [
    "a sign-in name is gone",
    "DELETE FROM names WHERE name = 'ada'",
    /accounts: 1 accounts that one of their sign-in names/,
  ],
  [
    "a name leads nowhere",
    "INSERT INTO names VALUES ('x@example.com', 'nobody')",
    /accounts: 1 sign-in names.*\(account nobody\)/,
  ],
  [
    "an account has a former name",
    "INSERT INTO names VALUES ('former', ADA)",
    /accounts: 1 accounts with a sign-in name that is not/,
  ],
  [
    "a name leads to somebody else",
    "UPDATE names SET sub = BOB WHERE name = 'ada'",
    /accounts: 1 accounts with a sign-in name/,
  ],
  [
    "assignments are missing",
    "DELETE FROM assignments WHERE sub = ADA",
    /accounts: 1 accounts whose assignments/,
  ],
  [
    "there is an assignment too many",
    "INSERT INTO assignments VALUES (ADA, '3')",
    /accounts: 1 accounts whose assignments/,
  ],
  [
    "the version of an account is wrong",
    "UPDATE accounts SET version = 77 WHERE sub = ADA",
    /accounts: 1 accounts whose version/,
  ],
  [
    "portals are forgotten",
    "UPDATE accounts SET portal = NULL",
    /accounts: 3 accounts whose version or portal/,
  ],
  [
    "the service of a client is wrong",
    "UPDATE clients SET service = '2' WHERE client_id = 'news'",
    /clients: 1 clients.*\(client news\)/,
  ],
  [
    "the group of a service is wrong",
    "UPDATE entries SET group_key = NULL",
    /directory: 1 entries.*\(service 1\)/,
  ],
  ["the counter is behind", "UPDATE counters SET value = 1", /counters: 1 counters below/],
  ["a lane is missing", `DELETE FROM lanes ${LANE}`, /notifications: 1 lanes.*\(group:media \/ /],
  ["a lane is not due", `UPDATE lanes SET due_at = NULL ${LANE}`, /notifications: 1 lanes/],
  ["a lane is due too late", `UPDATE lanes SET due_at = due_at + 60000 ${LANE}`, /notifications: 1 lanes/],
  ["the places of a lane are forgotten", "UPDATE lanes SET last_sequence = 1", /notifications: 3 lanes/],
  [
    "attempts are left over",
    "INSERT INTO attempts VALUES (999, 1, 1, 1, 200, NULL, NULL)",
    /notifications: 1 attempts.*\(999\/1\)/,
  ],
];

describe("storage check", () => {
  it("finds nothing wrong with what a service has used", async () => {
    const before = contents(sound);
    const { code, said } = await check(sound);
    expect([code, said]).toEqual([0, expect.stringMatching(/^Nothing is wrong \(\d+ checks\)\.$/m)]);
    await expect(check(sound, "--repair")).resolves.toMatchObject({ code: 0 });
    expect(contents(sound)).toEqual(before);
  });

  it.each(repairable)(
    "reports that %s, changes nothing, and puts it right when it is told to",
    async (_, sql, says) => {
      const path = planted(sql);
      const before = contents(path);
      const reported = await check(path);
      expect([reported.code, reported.said]).toEqual([1, expect.stringMatching(says)]);
      expect(reported.said).toContain("--repair puts right what can be.");
      expect(reported.said).not.toMatch(/example\.com|former|'ada'/);
      expect(contents(path)).toEqual(before);
      const repaired = await check(path, "--repair");
      expect([repaired.code, repaired.said]).toEqual([0, expect.stringMatching(/: repaired$/m)]);
      expect(repaired.said).toContain("Nothing is wrong any more");
      expect(contents(path)).toEqual(contents(sound));
    },
    30_000,
  );

  it("puts all of it right at once, and a service starts and works on it", async () => {
    const path = planted(repairable.map(([, sql]) => sql).join(";"));
    await expect(check(path, "--repair")).resolves.toMatchObject({ code: 0 });
    await expect(check(path)).resolves.toMatchObject({ code: 0 });
    const service = await openService(path);
    await expect(service.accounts.findByLogin("ada")).resolves.toMatchObject({ sub: subs[0] });
    const { user_id } = await service.accounts.create({ email: "new@example.com" });
    expect(user_id).toBe(4);
    await service.accounts.delete(subs[0] ?? "");
    await service.close();
  }, 30_000);

  it("puts an index right that does not fit its table", async () => {
    const path = workshop.path();
    copyFileSync(sound, path);
    // The schema forgets the index, the table changes, and the schema is told of the index again.
    const change = (sql: string): void => {
      const database = new DatabaseSync(path, { defensive: false });
      database.exec(`PRAGMA writable_schema = ON; ${sql}`);
      database.close();
    };
    change(`
      CREATE TABLE aside AS SELECT * FROM sqlite_schema WHERE name = 'accounts_portal';
      DELETE FROM sqlite_schema WHERE name = 'accounts_portal'`);
    change("UPDATE accounts SET portal = 'other' WHERE user_id = 2");
    change("INSERT INTO sqlite_schema SELECT * FROM aside");
    change("DROP TABLE aside");
    const reported = await check(path);
    expect([reported.code, reported.said]).toEqual([
      1,
      expect.stringContaining("file: 1 indexes that do not fit their tables (accounts_portal)"),
    ]);
    const repaired = await check(path, "--repair");
    expect(repaired.said).toContain("(accounts_portal): repaired");
    expect(repaired.code).toBe(0);
    expect(contents(path)).toEqual(contents(sound));
  });

  it("leaves to a person what only a person can decide", async () => {
    const path = planted(
      "DELETE FROM entries WHERE kind = 'service' AND key = '2'; DELETE FROM entries WHERE kind = 'portal'",
    );
    for (const options of [[], ["--repair"]]) {
      const { code, said } = await check(path, ...options);
      expect(code).toBe(1);
      expect(said).toContain(
        "directory: 1 services with accounts that are not in the directory (service 2)\n",
      );
      expect(said).toContain(
        "directory: 1 portals with accounts that are not in the directory (portal main)\n",
      );
      expect(said).toMatch(/2 of \d+ checks found something wrong\. .*needs a person\./);
    }
  });

  it("goes on with the other checks when one can't be made", async () => {
    const path = planted(
      "DROP TABLE names; UPDATE accounts SET record = '{' WHERE sub = ADA; DELETE FROM lanes",
    );
    const { code, said } = await check(path, "--repair");
    expect(code).toBe(1);
    expect(said).toMatch(/schema: 1 tables that are missing.*\(names\)/);
    expect(said).toMatch(/accounts: sign-in names that lead to no account: can't be looked at/);
    expect(said).toMatch(
      /accounts: accounts whose assignments are kept wrongly: can't be looked at.*SyntaxError/,
    );
    expect(said).toMatch(/notifications: 3 lanes .*: repaired/);
  });

  it("refuses what is no database of a service", async () => {
    const missing = await check(workshop.path());
    expect(missing).toMatchObject({ code: 1, said: expect.stringContaining("ENOENT") });
    const foreign = workshop.path();
    new DatabaseSync(foreign).exec("CREATE TABLE songs (title TEXT)");
    const said = expect.stringContaining("ADDRESS: this file is another program's SQLite database.");
    await expect(check(foreign)).resolves.toMatchObject({ code: 1, said });
  });

  it("finds nothing wrong while a service is at work", async () => {
    const path = workshop.path();
    copyFileSync(sound, path);
    rmSync(`${path}-wal`, { force: true });
    const service = await openService(path);
    const work = { isDone: false };
    const changing = (async () => {
      for (let number = 0; !work.isDone; number += 1) {
        await service.accounts.update(subs[number % 3] ?? "", {
          surname: `Name ${number}`,
          username: `name${number}`,
        });
        const { sub } = await service.accounts.import({
          email: `new${number}@example.com`,
          services: { "1": null },
        });
        if (number % 2 === 0) await service.accounts.delete(sub);
      }
    })();
    for (let times = 0; times < 3; times += 1) {
      const { code, said } = await workshop.run(["storage", "check", `sqlite:${path}`, "--repair"]);
      expect([code, said]).toEqual([0, expect.stringMatching(/^Nothing is wrong \(/m)]);
    }
    work.isDone = true;
    await changing;
    await service.close();
  }, 60_000);
});
