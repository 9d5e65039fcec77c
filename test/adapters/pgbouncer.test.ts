/** PostgreSQL behind a real PgBouncer: everything works in session mode, and the other modes are refused in words. */
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import * as runner from "@jest/globals";
import { Client } from "pg";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { createTestSignIn } from "../../testing/index.ts";
import { outcomes, ref, thing } from "../../testing/storage/stage.ts";
import { describeStorage } from "../../testing/storage/suite.ts";
import { openOwnPgBouncer, type OwnPgBouncer, type PgBouncerSettings } from "../servers/pgbouncer.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { closing } from "../closing.ts";

const { beforeAll, describe, expect, it } = runner;
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
  run: (bouncer: OwnPgBouncer) => Promise<void>,
): Promise<void> {
  const bouncer = await openOwnPgBouncer(known, settings);
  try {
    await run(bouncer);
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

describe("a PgBouncer that shares sessions", () => {
  const MODES = ["transaction", "statement"].flatMap((pool_mode) =>
    [0, 1].flatMap((server_round_robin) =>
      [0, 2, 3].map((idle) => ({ pool_mode, server_round_robin, idle })),
    ),
  );

  it.each(MODES)(
    "is refused at the start, and gets no settings: $pool_mode, round robin $server_round_robin, $idle idle",
    async ({ idle, ...settings }) => {
      await withPgBouncer(settings, async (bouncer) => {
        const url = bouncer.through(await server.newDatabase());
        await warm(url, idle);
        await expect(openPostgres({ url, clock })).rejects.toMatchObject({
          code: "invalid_configuration",
          message: expect.stringMatching(
            /pool_mode transaction or statement.*set pool_mode=session .* or name PostgreSQL itself/u,
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
    const config = { storage: await newAddress(), keys: { secrets: [randomBytes(32).toString("base64")] } };
    const test = await createTestSignIn(config);
    const client = await test.addClient();
    const ada = await test.addPerson();
    const { access_token } = await client.signIn(ada);
    await expect(client.userinfo(access_token)).resolves.toMatchObject({ status: 200 });
    await test.close();
  });

  it("that restarts is found again, also by what listens", async () => {
    const url = await newAddress();
    const open = (): Promise<RecordStore> => openPostgres({ url, clock, announced: ["thing"] });
    const [store, other] = [await open(), await open()];
    const put = (): Promise<void> =>
      other.commit({ id: randomUUID(), deadline: clock.now() + 4_500, put: [thing("a")] });
    let noticed = Promise.withResolvers<void>();
    store.watch?.(["thing"], () => noticed.resolve());
    /** Resolves when a change of another process is noticed. */
    const untilNoticed = async (): Promise<void> => {
      noticed = Promise.withResolvers();
      const seen = noticed.promise.then(() => true);
      do await put().catch(() => undefined);
      while (!(await Promise.race([seen, pause(50, false)])));
    };
    await untilNoticed();
    await bouncer.stop();
    expect(await outcomes([store.get([ref("a")]), store.ping()])).toEqual([
      "storage_unavailable",
      "storage_unavailable",
    ]);
    await bouncer.start();
    while ((await outcomes([store.get([ref("a")]), put()])).includes("storage_unavailable")) await pause(20);
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
    runner,
  );
});
