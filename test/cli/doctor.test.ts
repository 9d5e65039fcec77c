import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { clockFindings, storageChecks } from "../../cli/doctor/storage-checks.ts";
import { readConfiguration } from "../../config/read.ts";
import { createSignInService, type SignInService } from "../../lib/index.ts";
import { createLogger } from "../../core/logger.ts";
import { start } from "../examples/processes.ts";
import { startOwnMongo } from "../servers/mongodb.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { here } from "./here.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { doctor, folder, open, PASSWORD, SECRET, serve, write } from "./doctor-stage.ts";

const database = join(folder, "sign-in.db");
const storage = `sqlite:${database}`;
const path = join(folder, "sign-in.json");

/** An entry of the directory with this receiver. */
const entry = (url: string) => ({
  name: "A",
  receiver: { url, client_id: "a", client_secret: PASSWORD, types: ["DELETE_ACCOUNT" as const] },
});

/** Changes which rows an index of the database should have, and leaves it as it is. */
function changeIndex(from: string, to: string): void {
  const file = new DatabaseSync(database);
  file.enableDefensive(false);
  file.exec(`PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}') WHERE name = 'records_expiry'`);
  file.close();
}

describe("doctor, without a server", () => {
  const deployments = {
    oauth2: { url: "http://127.0.0.1:39997" },
    openid: { url: "http://127.0.0.1:39997/openid" },
  };
  let service: SignInService;
  /** A port on which nothing listens. */
  const CLOSED = "http://127.0.0.1:9";

  beforeAll(async () => {
    const logger = createLogger({ level: "silent" });
    service = await createSignInService({ deployments, storage, logger, notifications: { worker: false } });
    await service.close();
    chmodSync(database, 0o600);
  }, 30_000);

  it("finds nothing wrong with a new storage, by the real program and in this process", async () => {
    write({ deployments, storage });
    const child = start("cli/main.ts", { args: ["doctor"], cwd: folder });
    await expect(child.ended).resolves.toBe(0);
    expect(child.output()).toMatch(
      /^ok {7}configuration: .*\n(?:ok {7}.*\n){18}0 problems, 0 warnings\.\n$/u,
    );
    const { code, lines, err } = await doctor(["--config", path]);
    expect({ code, err }).toEqual({ code: 0, err: "0 problems, 0 warnings.\n" });
    expect(lines.map(({ check, level }) => `${check} ${level}`)).toEqual(
      "configuration files file-system secrets proxy mail providers hosts storage redis clocks indexes history keys search deployments operators clients receivers"
        .split(" ")
        .map((check) => `${check} ok`),
    );
  });

  it("exits with 2 for a configuration that can't be used, and 3 for a storage that can't be reached", async () => {
    const unusable = await doctor(["--config", write({ deployments, stroage: PASSWORD }, "a.json")]);
    expect(unusable).toMatchObject({ code: 2, lines: [], err: expect.stringContaining("config.stroage") });
    const apart = { oauth2: { url: "http://login.localhost" }, openid: { url: "http://id.localhost" } };
    const twoHosts = await doctor(["--config", write({ deployments: apart, storage }, "a.json")]);
    expect(twoHosts).toMatchObject({ code: 2, lines: [], err: expect.stringContaining("passkeys.rpId: is") });
    expect(await doctor(["--config", path, "--url", "login.example"])).toMatchObject({ code: 2, lines: [] });
    const gone = {
      deployments,
      storage: `postgresql://a:${PASSWORD}@127.0.0.1:9/x`,
      keys: { secrets: [SECRET] },
    };
    const { code, wrong } = await doctor(["--config", write(gone, "b.json")]);
    expect([code, wrong.map(({ check, level }) => `${check} ${level}`)]).toEqual([3, ["storage problem"]]);
    const unused = { deployments, storage: `sqlite:${join(folder, "unused.db")}` };
    const fresh = await doctor(["--config", write(unused, "c.json")]);
    expect([fresh.code, fresh.wrong]).toEqual([
      0,
      [
        expect.objectContaining({
          check: "storage",
          level: "warning",
          why: expect.stringMatching(/^No server has used/u),
        }),
      ],
    ]);
  }, 30_000);

  it("finds files that others can read, and a key file that the service refuses", async () => {
    const file = write({ deployments, storage, metrics: { token: SECRET } }, "open.json", 0o644);
    const secrets = join(folder, "secrets.txt");
    writeFileSync(secrets, SECRET);
    chmodSync(secrets, 0o604);
    chmodSync(`${database}.keys`, 0o644);
    chmodSync(database, 0o640);
    const variables = new Map([["SIGN_IN_METRICS_TOKEN_FILE", secrets]]);
    const one = await doctor(["--config", file]);
    const { out: printed } = await here(["doctor", "--config", file], {});
    const keys = { secrets: [SECRET] };
    const held = await doctor(["--config", write({ deployments, storage, keys }, "keys.json", 0o604)]);
    expect(held.wrong[0]).toMatchObject({
      check: "files",
      level: "problem",
      what: expect.stringContaining("keys.json, which contains keys.secrets, can be used by every user"),
    });
    const other = await doctor(["--config", write({ deployments, storage }, "plain.json", 0o644)], {
      variables,
    });
    chmodSync(`${database}.keys`, 0o600);
    chmodSync(database, 0o600);
    expect(one.code).toBe(1);
    expect(one.wrong).toMatchObject([
      {
        check: "files",
        level: "warning",
        what: expect.stringContaining("open.json, which contains secrets,"),
      },
      { check: "files", level: "warning", what: expect.stringContaining("The database ") },
      { check: "files", level: "problem", what: expect.stringMatching(/^The key file .* chmod 600 it\.$/u) },
    ]);
    // The advice for all open files is given once, and the key file is named once.
    expect(printed.match(/Anyone who reads it can act/gu)).toHaveLength(1);
    expect(printed).toContain(`Do:  Run: chmod 600 ${file} ${database}\n`);
    expect(printed.match(/The key file/gu)).toHaveLength(1);
    expect(other.wrong.map(({ what }) => what.slice(0, 40))).toEqual([
      expect.stringContaining("SIGN_IN_METRICS_TOKEN_FILE"),
      expect.stringContaining("The database"),
      expect.stringContaining("The key file"),
    ]);
  });

  it("finds that the disk of the database is full, which opening it does not notice", async () => {
    const disk = join(folder, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m", "none", disk]);
    try {
      const file = write({ deployments, storage: `sqlite:${join(disk, "sign-in.db")}` }, "disk.json");
      expect((await doctor(["--config", file])).wrong[0]).toMatchObject({
        check: "file-system",
        level: "problem",
        what: "The disk of the database is full: 16 MB are free.",
      });
    } finally {
      execFileSync("umount", [disk]);
    }
  });

  it("finds what a killed backup has left next to the database, and nothing else that ends like it", async () => {
    const left = join(folder, "nightly.backup.0123456789abcdef.partial");
    const other = join(folder, "download.partial");
    for (const each of [left, other]) writeFileSync(each, "");
    const { code, wrong } = await doctor(["--config", write({ deployments, storage })]);
    for (const each of [left, other]) rmSync(each);
    expect([code, wrong.map(({ check, what }) => [check, what])]).toEqual([
      0,
      [["files", `A run of backup that was killed has left ${left}.`]],
    ]);
  });

  it("finds the files of a PostgreSQL address that others can read", async () => {
    const [password, key, ca] = ["password.txt", "client.key", "ca.pem"].map((name) => join(folder, name));
    for (const each of [password!, key!, ca!]) {
      writeFileSync(each, SECRET);
      chmodSync(each, 0o644);
    }
    const query = new URLSearchParams({
      password_file: password!,
      sslkey: key!,
      sslcert: ca!,
      sslrootcert: ca!,
    });
    const keys = { secrets: [SECRET] };
    const closed = { deployments, storage: `postgresql://u@127.0.0.1:1/x?${query}`, keys };
    const { wrong } = await doctor(["--config", write(closed, "postgresql.json", 0o600)]);
    const files = wrong.filter(({ check }) => check === "files").map(({ what }) => what);
    expect(files).toEqual([
      "The file of password_file can be read by other users of this machine.",
      "The file of sslkey can be read by other users of this machine.",
    ]);
  });

  it("names the hosts of PostgreSQL that don't answer [D-PG-3]", async () => {
    const several = `postgresql://a:${PASSWORD}@127.0.0.1:9,127.0.0.1:10/x`;
    const config = { deployments, storage: several, keys: { secrets: [SECRET] } };
    const { code, wrong } = await doctor(["--config", write(config, "hosts.json")]);
    expect(code).toBe(3);
    expect(wrong.filter(({ check }) => check === "hosts").map(({ what }) => what)).toEqual([
      "127.0.0.1:9 does not answer, 127.0.0.1:10 does not answer.",
      "127.0.0.1:9 does not answer (ECONNREFUSED).",
      "127.0.0.1:10 does not answer (ECONNREFUSED).",
    ]);
  });

  const aboutMail = async (mail: object): Promise<readonly string[]> => {
    const file = write({ deployments, storage, mail: { from: "a@example.com", ...mail } }, "mail.json");
    return (await doctor(["--config", file])).wrong.map(({ check, level }) => `${check} ${level}`);
  };

  it("finds mail that may go unencrypted to another machine", async () => {
    const url = "smtp://mail.example";
    expect(await aboutMail({ url, allowClearText: true })).toEqual(["mail warning"]);
    expect(await aboutMail({ url })).toEqual([]);
    expect(await aboutMail({ url: "smtps://mail.example", allowClearText: true })).toEqual([]);
    expect(await aboutMail({ url: "smtp://127.0.0.1:25", allowClearText: true })).toEqual([]);
  });

  it("finds weak, published, missing and wrong secrets, and https without a proxy", async () => {
    const weak = Buffer.alloc(32, 1).toString("base64");
    const config = {
      deployments: { oauth2: { url: "https://login.example" } },
      interactions: { theme: { name: "Example" } },
      proxy: false,
      storage,
      keys: { secrets: [weak, SECRET], cookies: ["x".repeat(40)] },
      metrics: { port: 9090, host: "0.0.0.0" },
      seed: { accounts: [{ email: "a@example.com", password: "lovelace-1843" }] },
    };
    const { code, wrong } = await doctor(["--config", write(config, "weak.json")]);
    expect(code).toBe(1);
    expect(wrong).toMatchObject([
      {
        check: "secrets",
        level: "problem",
        code: "secret_weak",
        what: "A secret in keys.secrets is not random.",
      },
      {
        check: "secrets",
        level: "problem",
        code: "secret_weak",
        what: "A secret in keys.cookies is not random.",
      },
      {
        check: "secrets",
        level: "problem",
        what: expect.stringMatching(/^config\.seed\.accounts\[0\]\.password: /u),
      },
      {
        check: "secrets",
        level: "warning",
        what: "The metrics port listens on 0.0.0.0, and needs no token.",
      },
      {
        check: "proxy",
        level: "warning",
        code: "proxy_unset",
        what: "The addresses are https, and proxy is false.",
      },
      {
        check: "keys",
        level: "problem",
        what: expect.stringMatching(/^The storage needs [0-9a-f]{12}, which keys\.secrets lacks/u),
      },
      { check: "deployments", level: "problem", what: expect.stringContaining("https://login.example") },
    ]);
  });

  it("names operators without an account, without a factor, and with one that is new and not confirmed [D-ADM-96]", async () => {
    const clock = new TestClock(Date.now() - 2 * 86_400_000);
    const logger = createLogger({ level: "silent" });
    const names = ["none", "old", "new", "confirmed", "missing"] as const;
    const subs = Object.fromEntries(
      names.map((name, index) => [name, `0a000000-0000-4000-8000-00000000000${index}`]),
    );
    const roles = Object.fromEntries(Object.values(subs).map((sub) => [sub, "support" as const]));
    const config = { deployments, storage, operators: roles, notifications: { worker: false } };
    const addApp = async (at: SignInService, ...added: readonly (typeof names)[number][]): Promise<void> => {
      for (const name of added)
        await at.accounts.addApp(subs[name]!, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    };
    service = await createSignInService({ ...config, logger, clock });
    for (const name of names)
      if (name !== "missing")
        await service.accounts.import({
          sub: subs[name]!,
          email: `${name}@example.com`,
          password: "a long password",
        });
    await addApp(service, "old");
    await service.close();
    service = await createSignInService({ ...config, logger });
    await addApp(service, "new", "confirmed");
    await service.operators.confirm(subs["confirmed"]!);
    await service.close();
    const { code, wrong } = await doctor(["--config", write(config, "operators.json")]);
    expect([code, wrong.map(({ check, level, what }) => [check, level, what])]).toEqual([
      0,
      [
        ["none", "has no second factor."],
        ["new", "is younger than 24 hours, and nobody has confirmed it."],
        ["missing", "has no account in this storage."],
      ].map(([name = "", end = ""]) => [
        "operators",
        "warning",
        expect.stringMatching(new RegExp(`operator ${subs[name]} ${end.replace(".", "\\.")}$`, "u")),
      ]),
    ]);
    expect(wrong[1]?.fix).toContain(`sign-in-service operators confirm ${subs["new"]}.`);
    expect(JSON.stringify(wrong)).not.toContain("@example.com");
  }, 30_000);

  it("does not call a receiver refused that gets its notifications: the server has other values in its code", async () => {
    const listening = await serve((_request, response) => response.end());
    const notifications = { allowedReceivers: ["127.0.0.1"], poll: 0.05 };
    service = await createSignInService({
      deployments,
      storage,
      logger: createLogger({ level: "silent" }),
      notifications,
    });
    await service.directory.services.put("good", entry(`${listening}/notify`));
    const { sub } = await service.accounts.import({ email: "ada@example.com", services: { good: 1 } });
    const config = ["--config", write({ deployments, storage }, "command-line.json")];
    expect((await doctor(config)).wrong).toMatchObject([
      { check: "receivers", level: "problem", what: expect.stringMatching(/refused by this configuration/u) },
    ]);
    const delivered = new Promise((resolve) => service.events.once("delivery.succeeded", resolve));
    await service.accounts.delete(sub);
    await delivered;
    const { code, wrong } = await doctor(config);
    expect(code).toBe(0);
    expect(wrong).toMatchObject([
      {
        check: "receivers",
        level: "warning",
        what: expect.stringMatching(
          /^The receiver service:good gets its notifications, but this command may not/u,
        ),
      },
    ]);
    await service.close();
    const same = write({ deployments, storage, notifications }, "command-line.json");
    expect((await doctor(["--config", same])).wrong).toEqual([]);
  });

  it("finds receivers that can't be reached or are refused, and sends nothing", async () => {
    let requests = 0;
    const listening = await serve((_request, response) => {
      requests += 1;
      response.end();
    });
    const logger = createLogger({ level: "silent" });
    const notifications = { worker: false, allowedReceivers: ["127.0.0.1"] };
    service = await createSignInService({ deployments, storage, logger, notifications });
    const { services, groups, portals } = service.directory;
    await services.put("good", entry(`${listening}/notify?token=${PASSWORD}`));
    await services.put("closed", entry(`${CLOSED}/notify`));
    await groups.put("private", entry("https://10.1.2.3/notify"));
    await portals.put("plain", entry(listening.replace("http:", "https:")));
    await services.put("web", { name: "Web" });
    await service.clients.register({
      client_id: "web",
      name: "Web",
      service: "web",
      redirect_uris: ["https://web.example/callback"],
      backchannel_logout_uri: "https://192.168.7.8/logout",
    });
    await service.close();
    const { code, wrong } = await doctor([
      "--config",
      write({ deployments, storage, notifications: { allowedReceivers: ["127.0.0.1"] } }, "receivers.json"),
    ]);
    expect(code).toBe(1);
    const { out } = await here(["doctor", "--config", join(folder, "receivers.json")], {});
    for (const advice of ["Check its address, its certificate", "If the address is right, add it"])
      expect(out.split(advice)).toHaveLength(2);
    expect(wrong).toMatchObject([
      {
        check: "receivers",
        what: "The receiver service:closed can't be reached from this machine (ECONNREFUSED).",
      },
      {
        check: "receivers",
        what: expect.stringMatching(
          /^The receiver group:private is refused by this configuration: the address 10\.1\.2\.3 is not public/u,
        ),
      },
      {
        check: "receivers",
        what: expect.stringMatching(/^The receiver portal:plain can't be reached from this machine \(/u),
      },
      {
        check: "receivers",
        what: expect.stringMatching(
          /^The back-channel logout address of the client web is refused by this configuration: /u,
        ),
      },
    ]);
    expect(requests).toBe(0);
  }, 30_000);

  it("finds receivers of events that can't be reached or are refused, sends nothing, and shows no secret [D-EVENT-23]", async () => {
    let requests = 0;
    const listening = await serve((_request, response) => {
      requests += 1;
      response.end();
    });
    const signing_secret = `whsec_${Buffer.alloc(24, 5).toString("base64")}`;
    const crm = (url: string) => ({ url, signing_secret, types: ["account.deleted"] });
    const receivers = {
      good: crm(`${listening}/events`),
      closed: crm(`${CLOSED}/events?token=${PASSWORD}`),
      private: crm("https://10.1.2.3/events"),
    };
    const written = { deployments, storage, events: { receivers } };
    const file = write({ ...written, notifications: { allowedReceivers: ["127.0.0.1"] } }, "events.json");
    const { code, wrong } = await doctor(["--config", file]);
    const refused = /^The receiver events:private is refused by this configuration: the address 10\.1\.2\.3/u;
    expect(code).toBe(1);
    // Other tests have left receivers in the directory.
    expect(wrong.filter(({ what }) => what.includes("events:"))).toMatchObject([
      {
        check: "receivers",
        what: "The receiver events:closed can't be reached from this machine (ECONNREFUSED).",
      },
      { check: "receivers", what: expect.stringMatching(refused) },
    ]);
    expect(requests).toBe(0);
    const { out, err } = await here(["doctor", "--config", file], {});
    for (const secret of [signing_secret, PASSWORD]) expect(out + err).not.toContain(secret);
  }, 30_000);

  it("finds a Redis that evicts keys, for artifacts and for the queue", async () => {
    const redis = await openOwnRedis(["--maxmemory-policy", "allkeys-lru"]);
    open.push(redis);
    const config = { deployments, storage, artifacts: redis.url, queue: redis.url };
    const { code, wrong } = await doctor(["--config", write(config, "redis.json")]);
    expect(code).toBe(1);
    expect(wrong.filter(({ check }) => check === "redis")).toMatchObject(
      ["artifacts", "queue"].map((key) => ({
        level: "problem",
        what: expect.stringContaining(`The Redis of config.${key} has maxmemory-policy allkeys-lru`),
      })),
    );
  }, 30_000);

  it("finds an index of the database that does not match its table", async () => {
    changeIndex("expires_at IS NOT NULL", "kind IS NOT NULL");
    const { code, wrong } = await doctor(["--config", path]);
    changeIndex("kind IS NOT NULL", "expires_at IS NOT NULL");
    expect(code).toBe(1);
    expect(wrong.filter(({ check }) => check === "indexes")).toMatchObject([{ level: "problem" }]);
  });

  it("finds a clock that is off", async () => {
    const configuration = readConfiguration({ deployments });
    const check = storageChecks.find(({ id }) => id === "clocks");
    const found = async (difference: number) => {
      const clocks = { differences: new Map([["storage", difference]]) };
      return check?.run({ configuration, storage: { clocks } as never, warnings: [] });
    };
    await expect(found(100)).resolves.toEqual([]);
    await expect(found(-3000)).resolves.toMatchObject([
      {
        level: "warning",
        what: "The clock of the server of storage is 3 seconds behind that of this machine.",
      },
    ]);
    await expect(found(60_000)).resolves.toMatchObject([
      { level: "problem", what: expect.stringContaining("60 seconds ahead of") },
    ]);
    expect(clockFindings("server", "the server", 0)).toEqual([]);
  });
});

describe("doctor, with MongoDB", () => {
  it("finds a standalone server", async () => {
    const server = await startOwnMongo({ standalone: true });
    open.push(server);
    const config = {
      deployments: { oauth2: { url: "http://127.0.0.1:39997" } },
      storage: server.url("x"),
      keys: { secrets: [SECRET] },
    };
    const { code, wrong } = await doctor(["--config", write(config, "mongo.json")]);
    expect(code).toBe(1);
    expect(wrong).toMatchObject([
      {
        check: "storage",
        level: "problem",
        what: expect.stringMatching(/runs standalone .* rs\.initiate\(\)/u),
      },
    ]);
  }, 60_000);
});
