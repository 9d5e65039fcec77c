/** Backups of SQLite: from outside, with a service before and after, and with files that somebody has changed. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createLogger } from "../../core/logger.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import type { Running } from "../examples/processes.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { CHANGES, configFile, DEPLOYMENTS, MAILED, newPlace, type Place } from "./backup-stage.ts";
import { here, type Outcome } from "./here.ts";
import { everythingIn, lostEntries, runHere, withStores, Workshop } from "./stage.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const workshop = new Workshop();
let inbox: Inbox;
let redis: OwnRedis;

beforeAll(async () => {
  inbox = closing(await openInbox());
  redis = closing(await openOwnRedis());
});

async function newsReceiver(
  service: SignInService,
  types: readonly ("PROFILE_CHANGED" | "DELETE_ACCOUNT")[],
) {
  const receiver = { url: inbox.url("/nine"), client_id: "r", client_secret: "of the receiver", types };
  await service.directory.services.put("9", { name: "Nine", receiver });
}

/** The keys in the JWKS. */
async function kidsOf({ openid }: RunningService): Promise<string[]> {
  const answer = await fetch(`${openid}/oauth2/jwks`);
  const { keys } = (await answer.json()) as { readonly keys: readonly { readonly kid: string }[] };
  return keys.map(({ kid }) => kid);
}

describe("a restored service", () => {
  it.each(["SQLite", "SQLite and Redis"])(
    "has everything of the moment of its backup, but nothing that was valid then, on %s [D-BACKUP-1, D-BACKUP-4]",
    async (on) => {
      const [from, to] = [newPlace(workshop), newPlace(workshop)];
      const artifacts = on === "SQLite" ? {} : { artifacts: `${redis.url}?prefix=backup:` };
      const config = (storage: string): Omit<SignInServiceConfig, "deployments"> => ({
        storage,
        ...artifacts,
        notifications: { allowedReceivers: ["127.0.0.1"], worker: false, poll: 0.05 },
      });
      let running = await startService({ config: config(from.storage) });
      const port = Number(new URL(running.origin).port);
      let news = clientAt(running, "openid", NEWS);
      const browser = news.browser();
      const tokens = await news.signIn({ ...ADA, browser }, { scope: "openid" });
      const code = await news.code({ ...ADA, browser });
      await newsReceiver(running.service, ["PROFILE_CHANGED"]);
      const { ada, bob } = running;
      await running.service.accounts.assign(ada.sub, "9", 7);
      for (const surname of ["One", "Two"]) await running.service.accounts.update(ada.sub, { surname });
      const kids = await kidsOf(running);

      // The service keeps writing meanwhile.
      const stop = new AbortController();
      const writing = (async () => {
        for (let index = 0; !stop.signal.aborted; index += 1)
          await running.service.accounts.create({ email: `${index}@example.com`, username: `u${index}` });
      })();
      const file = join(from.folder, "one.backup");
      const key = join(from.folder, "backup.key");
      const words = ["--key-file", key, "--config", configFile(from.folder, config(from.storage))];
      const backup = await workshop.run(["backup", file, ...words]);
      stop.abort();
      await writing;
      expect([backup.code, backup.said]).toEqual([0, expect.stringMatching(/^Backed up: \d+ records\n/u)]);
      expect(backup.said.includes("which are in Redis,")).toBe(on !== "SQLite");
      expect([statSync(file), statSync(key)].map(({ mode }) => mode & 0o777)).toEqual([0o600, 0o600]);
      const seen = (await running.service.audit.list({ action: "storage.backed_up" })).items;
      expect(seen).toMatchObject([{ actor: { kind: "command_line" }, subject: null }]);
      // A later change, whose generation the restored account must never reach.
      await running.service.accounts.endSessions(ada.sub);
      const late = await news.signIn(ADA, { scope: "openid" });
      await running.close();

      copyFileSync(`${from.database}.keys`, `${to.database}.keys`);
      const again = configFile(to.folder, config(to.storage));
      const outcome = await workshop.run(["restore", file, "--key-file", key, "--config", again]);
      expect([outcome.code, outcome.said]).toEqual([
        0,
        expect.stringMatching(/^Restored: \d+ records with \d+ accounts, as of /u),
      ]);
      const check = await runHere(["storage", "check", to.storage]);
      expect([check.code, check.said]).toEqual([0, expect.stringContaining("No problems found")]);
      expect(await lostEntries(to)).toEqual([]);

      running = await startService({ port, config: { ...config(to.storage), notifications: DELIVERING } });
      const { service } = running;
      news = clientAt(running, "openid", NEWS);
      expect([running.ada.sub, running.bob.sub]).toEqual([ada.sub, bob.sub]);
      expect(await service.accounts.find(ada.sub)).toMatchObject({ surname: "Two", services: { 9: 7 } });
      expect(await kidsOf(running)).toEqual(expect.arrayContaining(kids));
      for (const { access_token, refresh_token } of [tokens, late]) {
        expect(await news.userinfo(access_token)).toMatchObject({ status: 400 });
        expect(await news.refresh(refresh_token)).toMatchObject({ status: 400 });
      }
      expect(await news.exchange(code)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
      await browser.get(news.authorizeUrl({ prompt: "none" }));
      expect(browser.location?.searchParams.get("error")).toBe("login_required");
      expect(await news.password(ADA)).toMatchObject({ status: 200 });
      const { user_id } = await service.accounts.create({ email: "new@example.com" });
      expect(user_id).toBeGreaterThan(1_000_000);
      const { items: records } = await service.audit.list({ action: "storage.restored" });
      expect(records).toMatchObject([{ detail: { created_at: expect.any(Number) } }]);
      await deliversOnlyAfterResume(service, ada.sub, again);
    },
    60_000,
  );
});

const DELIVERING = { allowedReceivers: ["127.0.0.1"], worker: true, poll: 0.05 };

/** Two notifications waited when the backup was made, and the restored service has made another one. */
async function deliversOnlyAfterResume(service: SignInService, sub: string, config: string): Promise<void> {
  const before = inbox.arrived.length;
  await service.accounts.update(sub, { surname: "Three" });
  const waiting = (await storedDeliveries(service.notifications, { account: sub, state: "waiting" })).map(
    ({ id }) => id,
  );
  expect(waiting).toHaveLength(3);
  const { parts } = await service.health();
  expect(parts["notifications"]?.detail).toBe(
    "3 waiting, 0 parked; held since the storage was restored or promoted: service:9",
  );
  expect(await service.metrics()).toMatch(/sign_in_deliveries\{receiver="service:9",state="waiting"\} 3/u);
  const listed = await here(["deliveries", "list", "--state", "waiting", "--config", config]);
  expect(listed.err).toBe(
    "Held since the storage was restored or promoted, until deliveries resume: service:9\n",
  );
  const [first = ""] = waiting;
  const now = await here(["deliveries", "send-now", first, "--config", config]);
  expect(now).toMatchObject({ code: 1, err: expect.stringMatching(/^Not sent: its receiver is paused/u) });
  await pause(300);
  expect(inbox.arrived).toHaveLength(before);
  const resumed = await here(["deliveries", "resume", "--config", config]);
  expect(resumed).toEqual({ code: 0, out: "receivers  service:9\nmails      0\n", err: "" });
  await inbox.until((all) => all.length >= before + 3);
  expect(inbox.arrived.slice(before).map(({ id }) => id)).toEqual(waiting);
  const twice = await here(["deliveries", "resume", "--config", config]);
  expect(twice).toEqual({ code: 0, out: "receivers  -\nmails      0\n", err: "" });
}

/** A service with so many accounts that its backup has several chunks. */
const full = newPlace(workshop);
const fullConfig = configFile(full.folder, { storage: full.storage });
const ACCOUNTS = rounds(500, 3_000);

describe("a backup", () => {
  const file = join(full.folder, "full.backup");
  const key = join(full.folder, "full.key");
  let target: Place;

  beforeAll(async () => {
    const service = await createSignInService({
      deployments: DEPLOYMENTS,
      storage: full.storage,
      logger: createLogger({ level: "silent" }),
    });
    await newsReceiver(service, ["DELETE_ACCOUNT"]);
    await Promise.all(
      Array.from({ length: ACCOUNTS }, (_none, index) =>
        service.accounts.create({ email: `${index}@example.com`, surname: "x".repeat(100) }),
      ),
    );
    await service.close();
    await withStores(full, ({ storage }) =>
      storage.commit({ id: "mails", deadline: Date.now() + 5_000, put: MAILED }),
    );
    expect(await here(["backup", file, "--key-file", key, "--config", fullConfig])).toMatchObject({
      code: 0,
    });
    expect(statSync(file).size).toBeGreaterThan(4 * 65_552);
    target = newPlace(workshop);
    copyFileSync(`${full.database}.keys`, `${target.database}.keys`);
    configFile(target.folder, { storage: target.storage });
  }, 60_000);

  it("has no codes and links, neither stored nor in waiting mail; other mail is still sent [D-BACKUP-4]", async () => {
    const to = newPlace(workshop);
    copyFileSync(`${full.database}.keys`, `${to.database}.keys`);
    const config = configFile(to.folder, { storage: to.storage });
    expect(await here(["restore", file, "--key-file", key, "--config", config])).toMatchObject({ code: 0 });
    const { confirmation, mail, ...all } = await everythingIn(to);
    // What undoes a change lives on: the address before it guards the factors.
    expect(confirmation?.map(({ value }) => value["purpose"])).toEqual(["address-undo"]);
    expect(mail?.map(({ value }) => value["kind"])).toEqual(["password-changed"]);
    for (const { name, declaration } of KINDS.all)
      if (declaration.store === "artifacts") expect([name, all[name]]).toEqual([name, []]);
  });

  const restore = (from: string, ...more: string[]): Promise<Outcome> =>
    here(["restore", from, "--config", join(target.folder, "config.json"), ...more]);

  it("that was changed is refused, and nothing is written", async () => {
    const second = join(full.folder, "second.backup");
    await here(["backup", second, "--key-file", key, "--config", fullConfig]);
    const [bytes, other] = [readFileSync(file), readFileSync(second)];
    const path = join(full.folder, "changed.backup");
    for (const [what, change] of CHANGES) {
      writeFileSync(path, change(bytes, other));
      const { code, out, err } = await restore(path, "--key-file", key);
      expect([what, code, out, err]).toEqual([
        what,
        1,
        "",
        expect.stringMatching(
          /^(?:The backup is damaged|This file is not a backup|The key does not belong)/u,
        ),
      ]);
      expect([what, existsSync(target.database)]).toEqual([what, false]);
    }
  }, 60_000);

  it("contains nothing that can be read without its key", () => {
    const bytes = readFileSync(file).toString("latin1");
    expect(bytes).not.toMatch(/example\.com|account|xxxxx/u);
  });

  it("has a key that is printed once, and is typed or read from standard input [D-BACKUP-1]", async () => {
    const path = join(full.folder, "printed.backup");
    const printed = await onTerminal(["backup", path, "--config", fullConfig]);
    const [, own = ""] = /^Key, which is stored nowhere else: (\S{44})$/mu.exec(printed.out) ?? [];
    expect(own).not.toBe("");
    const json = await onTerminal(["backup", `${path}.2`, "--json", "--config", fullConfig]);
    const made = JSON.parse(json.out) as { readonly key: string };
    expect(made).toEqual({
      file: `${path}.2`,
      created_at: expect.any(Number),
      records: expect.any(Number),
      key: expect.stringMatching(/^\S{44}$/u),
    });
    expect(made.key).not.toBe(own);
    const config = ["--config", join(target.folder, "config.json")];
    const wrong = await here(["restore", path, ...config], { readInput: async () => `${made.key}\n` });
    expect(wrong).toMatchObject({ code: 1, err: expect.stringMatching(/^The key does not belong/u) });
    for (const text of ["", "no key\n"])
      expect(await here(["restore", path, ...config], { readInput: async () => text })).toMatchObject({
        code: 2,
        err: expect.stringMatching(/^The key of the backup must be on standard input/u),
      });
    const fresh = newPlace(workshop);
    copyFileSync(`${full.database}.keys`, `${fresh.database}.keys`);
    const restored = await here(
      ["restore", path, "--json", "--config", configFile(fresh.folder, { storage: fresh.storage })],
      { askSecret: async () => own },
    );
    expect(restored.code).toBe(0);
    expect(JSON.parse(restored.out)).toMatchObject({ accounts: ACCOUNTS });
    expect(`${restored.out}${restored.err}${wrong.err}`).not.toContain(own);
  }, 60_000);

  it("has no key in a log: it asks for --key-file where the output is no terminal [D-BACKUP-1]", async () => {
    const path = join(full.folder, "logged.backup");
    for (const more of [[], ["--json"]]) {
      const outcome = await here(["backup", path, "--config", fullConfig, ...more]);
      expect(outcome).toMatchObject({
        code: 2,
        out: "",
        err: expect.stringMatching(/^A key is printed only on a terminal.*--key-file/u),
      });
    }
    expect(readdirSync(full.folder).filter((name) => name.startsWith("logged"))).toEqual([]);
  });

  it("is written by two runs at once, by any process, and beside what a killed one has left", async () => {
    const { folder } = newPlace(workshop);
    const words = ["--key-file", key, "--config", fullConfig];
    // In a container every process has the id 1, and so had the one that was killed.
    const left = join(folder, `first.backup.${process.pid}.partial`);
    writeFileSync(left, "of somebody else");
    const [first, same, second] = await Promise.all([
      here(["backup", join(folder, "first.backup"), ...words]),
      here(["backup", join(folder, "first.backup"), ...words]),
      here(["backup", join(folder, "second.backup"), ...words]),
    ]);
    expect([first.code, same.code].toSorted((one, other) => one - other)).toEqual([0, 1]);
    expect(second.code).toBe(0);
    expect(readFileSync(left, "utf8")).toBe("of somebody else");
    expect(readdirSync(folder).toSorted()).toEqual([
      "first.backup",
      `first.backup.${process.pid}.partial`,
      "second.backup",
    ]);
  }, 60_000);

  it("is refused for other databases, with the name of their tool, and for one in memory [D-BACKUP-2]", async () => {
    const secrets = [Buffer.alloc(32, 7).toString("base64")];
    for (const [storage, code, says] of [
      ["postgresql://u:hidden@127.0.0.1:1/x", 1, /pg_dump and pg_restore/u],
      ["mongodb://u:hidden@127.0.0.1:1/x", 1, /mongodump --oplog and mongorestore --oplogReplay/u],
      ["sqlite::memory:", 2, /in memory/u],
      [`sqlite:${join(full.folder, "missing.db")}`, 3, /can't be opened: ENOENT/u],
    ] as const) {
      const config = configFile(newPlace(workshop).folder, { storage, keys: { secrets } });
      const path = join(dirname(config), "x.backup");
      const outcome = await onTerminal(["backup", path, "--config", config]);
      expect([storage, outcome]).toEqual([storage, { code, out: "", err: expect.stringMatching(says) }]);
      expect(outcome.err).not.toContain("hidden");
      expect(readdirSync(dirname(config))).toEqual(["config.json"]);
      if (code !== 1) continue;
      expect(await here(["restore", file, "--config", config])).toMatchObject({ code, err: outcome.err });
    }
  });

  it("never replaces a file, and does not use a key file that others can read", async () => {
    const words = ["--config", fullConfig, "--key-file"];
    const exists = await here(["backup", file, ...words, key]);
    expect(exists).toMatchObject({ code: 1, err: expect.stringContaining("exists already. Nothing was") });
    const link = join(full.folder, "dangling");
    symlinkSync(join(full.folder, "nothing"), link);
    const dangling = await here(["backup", link, "--config", fullConfig]);
    expect(dangling).toMatchObject({
      code: 1,
      out: "",
      err: `${link} exists already. Nothing was written.\n`,
    });
    const same = await here(["backup", join(full.folder, "a"), ...words, join(full.folder, "a")]);
    expect(same).toMatchObject({ code: 2 });
    const open = join(full.folder, "open.key");
    copyFileSync(key, open);
    chmodSync(open, 0o644);
    const refused = await here(["backup", join(full.folder, "b"), ...words, open]);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("chmod 600") });
    const nowhere = await here(["backup", join(full.folder, "no", "b"), ...words, key]);
    expect(nowhere).toMatchObject({ code: 1, err: expect.stringContaining("can't be written: ENOENT") });
    expect(readdirSync(full.folder).filter((name) => /^[ab]$|partial/u.test(name))).toEqual([]);
  });

  it("is restored only with the service's own secrets, and into an empty storage [D-BACKUP-1, D-BACKUP-3]", async () => {
    const missing = await restore(join(full.folder, "none.backup"), "--key-file", key);
    expect(missing).toMatchObject({ code: 2, err: expect.stringContaining("does not exist") });
    expect(await restore(full.folder, "--key-file", key)).toMatchObject({ code: 2 });
    expect(await restore(file, "--key-file", `${key}.none`)).toMatchObject({ code: 2 });
    const foreign = newPlace(workshop);
    const config = (keys: object): string =>
      configFile(foreign.folder, { storage: foreign.storage, ...keys });
    const words = ["restore", file, "--key-file", key, "--config"];
    const without = await here([...words, config({})]);
    expect(without).toMatchObject({ code: 1, err: expect.stringMatching(/sign-in\.db\.keys is missing/u) });
    const secrets = [Buffer.alloc(32, 7).toString("base64")];
    const other = await here([...words, config({ keys: { secrets } })]);
    expect(other).toMatchObject({ code: 1, err: expect.stringMatching(/^The storage needs/u) });
    expect(existsSync(foreign.database)).toBe(false);
    const before = await everythingIn(full);
    const filled = await here([...words, fullConfig]);
    expect(filled).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^The storage must be empty.*account/u),
    });
    expect(await everythingIn(full)).toEqual(before);
    writeFileSync(
      foreign.database,
      "This is the file of another program, which is not a database. ".repeat(20),
    );
    const strange = await here([...words, config({ keys: { secrets: [ownSecret()] } })]);
    expect(strange.code).toBe(3);
    expect(readFileSync(foreign.database, "utf8")).toContain("another program");
  });

  const ownSecret = (): string => readFileSync(`${full.database}.keys`, "utf8").trim();

  it("is restored by one of two commands at once, and never mixed with a service that starts meanwhile", async () => {
    const to = newPlace(workshop);
    copyFileSync(`${full.database}.keys`, `${to.database}.keys`);
    const words = ["restore", file, "--key-file", key, "--config"];
    const config = configFile(to.folder, { storage: to.storage });
    const both = await Promise.all([here([...words, config]), here([...words, config])]);
    expect(both.map(({ code }) => code).toSorted((one, other) => one - other)).toEqual([0, 1]);
    expect((await everythingIn(to))["account"]).toHaveLength(ACCOUNTS);
    for (const delay of [0, 40, 80, 120]) {
      const other = newPlace(workshop);
      copyFileSync(`${full.database}.keys`, `${other.database}.keys`);
      const restoring = here([...words, configFile(other.folder, { storage: other.storage })]);
      await pause(delay);
      const service = await createSignInService({
        deployments: DEPLOYMENTS,
        storage: other.storage,
        logger: createLogger({ level: "silent" }),
      });
      const { code } = await restoring;
      const known = await service.accounts.findByLogin("0@example.com");
      await service.close();
      expect([code, known !== undefined]).toEqual(code === 0 ? [0, true] : [1, false]);
    }
  }, 60_000);

  it("shows a bar on a terminal, and stops at once when it is interrupted", async () => {
    const path = join(full.folder, "stopped.backup");
    const words = ["--config", fullConfig, "--key-file", key];
    const { code, said } = await runHere(["backup", path, ...words], /backing up/u);
    expect([code, said]).toEqual([130, expect.stringMatching(/backing up +\[#*\.*\] \d+ %/u)]);
    expect(readdirSync(full.folder).filter((name) => name.startsWith("stopped"))).toEqual([]);
    const stopped = await runHere(
      ["restore", file, "--key-file", key, "--config", join(target.folder, "config.json")],
      /checking/u,
    );
    expect(stopped).toMatchObject({ code: 130, said: expect.stringContaining("checking (kB)") });
    expect(existsSync(target.database)).toBe(false);
    expect(await restore(file, "--key-file", key)).toMatchObject({ code: 0 });
    expect(await restore(file, "--key-file", key)).toMatchObject({ code: 1 });
  });
});

/** Runs a command whose output is a terminal. */
async function onTerminal(words: readonly string[]): Promise<Outcome> {
  let out = "";
  const terminal = { isTTY: true, write: (text: string) => void (out += text) };
  return { ...(await here(words, { out: terminal })), out };
}

/** Starts the command, and kills it when the condition is true. @returns whether it was in time. */
async function killed(words: readonly string[], when: () => boolean): Promise<boolean> {
  const running: Running = workshop.start(words);
  const state = { isOver: false };
  void running.ended.then(() => (state.isOver = true));
  while (!state.isOver && !when()) await pause(1);
  return (await running.stop("SIGKILL")) === "SIGKILL";
}

describe("SIGKILL", () => {
  const KILLS = rounds(1, 5);

  it("in the middle of a backup leaves no file under its name, and the next run works", async () => {
    const key = join(full.folder, "killed.key");
    for (let kills = 0; kills < KILLS;) {
      const { folder } = newPlace(workshop);
      const file = join(folder, "killed.backup");
      const words = ["backup", file, "--key-file", key, "--config", fullConfig];
      const partial = (): string | undefined => readdirSync(folder).find((name) => name.endsWith("partial"));
      if (await killed(words, () => partial() !== undefined)) {
        kills += 1;
        expect(existsSync(file)).toBe(false);
        // It is encrypted, too.
        expect(readFileSync(join(folder, partial() ?? ""), "latin1")).not.toMatch(/example\.com/u);
      }
      const err: unknown = expect.stringContaining(partial() ?? "Codes");
      if (!existsSync(file)) expect(await here(words)).toMatchObject({ code: 0, err });
      // The next run can't know that nobody writes the other file any more.
      const own = readdirSync(folder).filter((name) => !name.endsWith(".partial"));
      expect(own).toEqual(["killed.backup"]);
      expect(readdirSync(full.folder).filter((name) => /^sign-in\.db./u.test(name))).toEqual([
        "sign-in.db.keys",
        "sign-in.db.seen",
      ]);
    }
  }, 60_000);

  it("in the middle of a restore leaves an empty storage, and the next run restores everything", async () => {
    const key = join(full.folder, "again.key");
    const file = join(full.folder, "again.backup");
    await here(["backup", file, "--key-file", key, "--config", fullConfig]);
    for (let kills = 0; kills < KILLS;) {
      const to = newPlace(workshop);
      copyFileSync(`${full.database}.keys`, `${to.database}.keys`);
      const config = configFile(to.folder, { storage: to.storage });
      const words = ["restore", file, "--key-file", key, "--config", config];
      const log = `${to.database}-wal`;
      const hasWritten = (): boolean => existsSync(log) && statSync(log).size > 50_000;
      if (!(await killed(words, hasWritten))) continue;
      kills += 1;
      // It may have been killed just after the end.
      expect([0, 1]).toContain((await here(words)).code);
      const all = await everythingIn(to);
      expect(all["account"]).toHaveLength(ACCOUNTS);
      expect(all["audit"]?.filter(({ value }) => value["action"] === "storage.restored")).toHaveLength(1);
      // A kill between the commit and the end leaves none, and the next server makes it.
      const files = readdirSync(to.folder).filter((name) => name !== "sign-in.db.seen");
      expect(files.toSorted()).toEqual(["config.json", "sign-in.db", "sign-in.db.keys"]);
    }
  }, 60_000);
});
