/**
 * Storages that have gone back to an earlier state, by each way of going back: what was valid then is not valid again, and servers and
 * `doctor` notice it.
 */
import { randomBytes } from "node:crypto";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { decodeProtectedHeader } from "jose";
import { createLogger } from "../../core/logger.ts";
import { createSignInService } from "../../lib/service.ts";
import { ADA, BOB, NEWS, type RunningService } from "../flows/running-service.ts";
import { clientAt } from "../flows/clients.ts";
import { freePorts } from "../examples/processes.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { configFile, newPlace } from "./backup-stage.ts";
import { here, type Outcome } from "./here.ts";
import {
  type Config,
  EVE,
  guardOfEve,
  holdEverything,
  Mails,
  type Stage,
  startStage,
  whatIsValid,
} from "./renewal-stage.ts";
import { runHere, Workshop } from "./stage.ts";

const workshop = new Workshop();
const keys = { secrets: [Buffer.alloc(32, 7).toString("base64")] };
const closing: (() => Promise<void>)[] = [];
let redis: OwnRedis;
let postgres: OwnPostgres;

beforeAll(async () => {
  [redis, postgres] = await Promise.all([openOwnRedis(), openOwnPostgres()]);
}, 60_000);
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(async () => {
  await Promise.all([redis.close(), postgres.close()]);
});

/** A way of going back. */
interface Way {
  readonly config: Config;
  /** Makes the state to go back to. The service runs. */
  readonly save: () => Promise<unknown>;
  /** Goes back. Nothing runs. @returns the configuration afterwards. */
  readonly goBack: () => Promise<Config>;
}

const inRedis = (): Partial<Config> => ({
  artifacts: `${redis.url}?prefix=${randomBytes(4).toString("hex")}:`,
});

/** The commands of this package. */
function byBackup(more: Partial<Config> = {}): Way {
  const [from, to] = [newPlace(workshop), newPlace(workshop)];
  const config = { storage: from.storage, keys, ...more };
  const file = join(from.folder, "one.backup");
  const words = ["--key-file", join(from.folder, "backup.key"), "--config"];
  return {
    config,
    save: async () =>
      expect(await here(["backup", file, ...words, configFile(from.folder, config)])).toMatchObject({
        code: 0,
      }),
    async goBack() {
      const after = { ...config, storage: to.storage };
      expect(await here(["restore", file, ...words, configFile(to.folder, after)])).toMatchObject({
        code: 0,
      });
      return after;
    },
  };
}

/** The tools of SQLite, and `cp`: over the database, or to another place. */
function byCopy(place: "here" | "elsewhere", more: Partial<Config> = {}): Way {
  const [from, to] = [newPlace(workshop), newPlace(workshop)];
  const config = { storage: from.storage, keys, ...more };
  const saved = join(from.folder, "saved.db");
  return {
    config,
    async save() {
      const database = new DatabaseSync(from.database);
      await backup(database, saved);
      database.close();
    },
    async goBack() {
      const { database, storage } = place === "here" ? from : to;
      copyFileSync(saved, database);
      return { ...config, storage };
    },
  };
}

/** The tools of PostgreSQL: into the database, or into another one. */
async function byDump(place: "here" | "elsewhere", more: Partial<Config> = {}): Promise<Way> {
  const storage = await postgres.newDatabase();
  const config = { storage, keys, ...more };
  const file = `${randomBytes(4).toString("hex")}.dump`;
  return {
    config,
    save: async () => postgres.run("pg_dump", ["-Fc", "-f", file, "-d", storage]),
    async goBack() {
      const target = place === "here" ? storage : await postgres.newDatabase();
      postgres.run("pg_restore", ["--clean", "--if-exists", "-d", target, file]);
      return { ...config, storage: target };
    },
  };
}

/** A standby that lacks what was written last. Its primary stands first in the address, and still answers. */
async function byStandby(more: Partial<Config> = {}): Promise<Way> {
  const own = new URL(await postgres.newDatabase());
  const port = await freePorts();
  const storage = own.href.replace(own.host, `${own.host},${own.hostname}:${port}`);
  const config = { storage, keys, ...more };
  return {
    config,
    async save() {
      const standby = await postgres.newStandby(port);
      closing.push(() => standby.close());
      await standby.promote();
    },
    goBack: async () => config,
  };
}

const command = (words: readonly string[], config: Config): Promise<Outcome> =>
  here([...words, "--config", configFile(newPlace(workshop).folder, config)]);

/** What `doctor` says about the history of the storage; `undefined`: all is well. */
async function examined(config: Config): Promise<string | undefined> {
  const { out } = await command(["doctor", "--json"], config);
  const lines = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, string>);
  const found = lines.find(({ check }) => check === "history");
  return found?.["level"] === "ok" ? undefined : `${found?.["what"]} ${found?.["fix"]}`;
}

/** The errors in the log, but for mail that can't be sent. */
const errorsOf = ({ log }: RunningService): string[] =>
  log
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    .filter(({ level, work }) => level === 50 && work !== "sending mail")
    .map(({ msg }) => String(msg));

/** Sends a notification to a receiver that does not answer, and mail while there is no mail server. */
async function leaveWaiting({ running, mails }: Stage): Promise<void> {
  const receiver = {
    url: "http://127.0.0.1:9/",
    client_id: "r",
    client_secret: "s",
    types: ["PROFILE_CHANGED" as const],
  };
  await running.service.directory.services.put("9", { name: "Nine", receiver });
  await running.service.accounts.assign(running.ada.sub, "9");
  await running.service.accounts.update(running.ada.sub, { surname: "Waiting" });
  mails.isDown = true;
  await running.service.accounts.setPassword(running.bob.sub, "a new password of bob");
}

const NOTHING = {
  session: false,
  interaction: false,
  "authorization-code": false,
  "access-token": false,
  "refresh-token": false,
  "client-credentials": false,
  "device-code": false,
  "pushed-authorization-request": false,
  "remembered-browser": false,
  "recovery-codes": false,
  "authenticator-app": false,
  confirmation: false,
  "undo of a change": true,
};
const EVERYTHING = Object.fromEntries(Object.keys(NOTHING).map((name) => [name, true]));
/** Redis has not gone back, and these depend on nothing that has: a sign-in that has begun goes on. */
const UNDER_WAY = { ...NOTHING, interaction: true, "pushed-authorization-request": true };

it("everything is valid as long as nothing goes back", async () => {
  const stage = await startStage(byBackup().config, new Mails());
  try {
    expect(await whatIsValid(stage, await holdEverything(stage))).toEqual(EVERYTHING);
  } finally {
    await stage.running.close();
  }
}, 60_000);

const COPIED =
  /^The storage is not the one that servers last used but a copy, and may lack what was written after 20/u;
const BEHIND = /^The storage has gone back, and may lack what was written after 20/u;
const PROMOTED = /^The storage has changed from timeline 1 to 2, and may lack what was written after 20/u;

type Case = readonly [
  name: string,
  way: () => Way | Promise<Way>,
  /** What has to be run then, how the change is noticed, and what is valid afterwards. */
  ...then: readonly [words: readonly string[] | undefined, noticed?: RegExp, valid?: object],
];

const RESTORED = ["storage", "restored", "--yes"];

const CASES: readonly Case[] = [
  ["restore, on SQLite", () => byBackup(), undefined],
  ["restore, on SQLite and Redis", () => byBackup(inRedis()), undefined],
  ["a file copied over the database", () => byCopy("here"), RESTORED, BEHIND],
  ["a file copied elsewhere, with Redis", () => byCopy("elsewhere", inRedis()), RESTORED, COPIED],
  ["pg_restore into the database", () => byDump("here"), RESTORED, COPIED],
  ["pg_restore into another one, with Redis", () => byDump("elsewhere", inRedis()), RESTORED, COPIED],
  ["a promoted standby", () => byStandby(), ["storage", "promoted", "--yes"], PROMOTED],
  [
    "a promoted standby, with Redis",
    () => byStandby(inRedis()),
    ["storage", "promoted", "--yes"],
    PROMOTED,
    UNDER_WAY,
  ],
];

describe.each(CASES)("after %s", (_name, newWay, words, noticed, valid = NOTHING) => {
  it("nothing is valid again, no user_id is given out twice, and nothing is sent before deliveries resume [D-BACKUP-4, D-BACKUP-5, D-BACKUP-6, D-PROMOTED-1, D-PROMOTED-2]", async () => {
    const way = await newWay();
    const mails = new Mails();
    let stage = await startStage(way.config, mails);
    const { port } = new URL(stage.running.origin);
    const held = await holdEverything(stage);
    await leaveWaiting(stage);
    await way.save();
    const { service } = stage.running;
    const oldKeys = (await service.keys.list()).items.map(({ kid }) => kid);
    const signing = (await service.keys.list()).items.find(({ alg }) => alg === "RS256")?.kid ?? "";
    await service.keys.retire(signing);
    const lost = await service.accounts.create({ email: "lost@example.com" });
    await stage.running.close();
    const config = await way.goBack();

    if (words !== undefined && noticed !== undefined) {
      const revived = await startStage(config, mails, Number(port));
      expect(errorsOf(revived.running).map((text) => text.replace(/^t/u, "T"))).toEqual([
        expect.stringMatching(noticed),
      ]);
      await revived.running.close();
      expect(await examined(config)).toMatch(noticed);
      const renewed = await command(words, config);
      expect(renewed).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^Renewed: \d+ records\n/u),
        err: expect.stringMatching(
          /^What was written after 20\S+Z may be missing\.\n.*Do again what operators did/su,
        ),
      });
    }
    expect(await examined(config)).toBeUndefined();

    mails.isDown = false;
    mails.sent.length = 0;
    stage = await startStage(config, mails, Number(port));
    try {
      const { running } = stage;
      expect(errorsOf(running)).toEqual([]);
      expect(await whatIsValid(stage, held)).toEqual(valid);
      // The code that guards the first factor goes to the address before the change.
      expect(await guardOfEve(stage)).toBe(EVE.email);
      const { user_id } = await running.service.accounts.create({ email: "new@example.com" });
      expect(user_id).toBeGreaterThanOrEqual(lost.user_id + 999_999);
      const { id_token = "" } = await clientAt(running, "openid", NEWS).signIn(ADA, { scope: "openid" });
      expect(oldKeys).not.toContain(decodeProtectedHeader(id_token).kid);
      const published = (await running.service.keys.list()).items.map(({ kid, state }) => [kid, state]);
      expect(published).toEqual(expect.arrayContaining(oldKeys.map((kid) => [kid, "retired"])));
      expect(mails.sent.filter(({ to }) => to === BOB.email)).toEqual([]);
      const listed = await command(["deliveries", "list", "--state", "waiting"], config);
      expect(listed.err).toContain(
        "Held since the storage was restored or promoted, until deliveries resume: service:9, 1 mails\n",
      );
      const resumed = await command(["deliveries", "resume"], config);
      expect(resumed).toMatchObject({ code: 0, out: "receivers  service:9\nmails      1\n" });
      await mails.until(({ to }) => to === BOB.email);
      const action = words?.[1] === "promoted" ? "storage.promoted" : "storage.restored";
      const { items: records } = await running.service.audit.list({ action });
      expect(records).toMatchObject([{ actor: { kind: "command_line" }, outcome: "success" }]);
    } finally {
      await stage.running.close();
    }
  }, 120_000);
});

describe("storage promoted --nothing-lost", () => {
  it("ends nothing, and notes the new timeline [D-PROMOTED-2]", async () => {
    const way = await byStandby();
    const mails = new Mails();
    const stage = await startStage(way.config, mails);
    const { port } = new URL(stage.running.origin);
    const held = await holdEverything(stage);
    await stage.running.close();
    await way.save();
    const config = await way.goBack();
    expect(await examined(config)).toMatch(PROMOTED);
    const noted = await command(["storage", "promoted", "--nothing-lost"], config);
    expect(noted).toEqual({ code: 0, out: "Noted: nothing is missing, and nothing has ended\n", err: "" });
    expect(await examined(config)).toBeUndefined();
    const after = await startStage(config, mails, Number(port));
    expect(await whatIsValid(after, held)).toEqual(EVERYTHING);
    await after.running.close();
  }, 120_000);
});

describe("storage restored", () => {
  it("asks first, and after an interruption no service starts until it has finished", async () => {
    const way = byCopy("here");
    const stage = await startStage(way.config, new Mails());
    await stage.running.close();
    const config = configFile(newPlace(workshop).folder, way.config);
    const words = ["storage", "restored", "--config", config];
    expect(await here(words)).toMatchObject({ code: 2 });
    expect(await here(words, { confirm: async () => false })).toMatchObject({ code: 1 });
    expect((await runHere([...words, "--yes"], /renewing/u)).code).toBe(130);
    const start = () =>
      createSignInService({
        ...way.config,
        deployments: { oauth2: { url: stage.running.oauth2 } },
        logger: createLogger({ level: "silent" }),
      });
    await expect(start()).rejects.toMatchObject({
      code: "invalid_configuration",
      problems: [
        expect.stringMatching(
          /^config\.storage: what had ended before this storage went back is not void yet: run/u,
        ),
      ],
    });
    expect((await runHere([...words, "--yes"])).code).toBe(0);
    await (await start()).close();
  }, 60_000);
});
