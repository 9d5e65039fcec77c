/** Changes by commands apply to the next request at a server, even if it has answered one just before. */
import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { createSignInService } from "../../lib/index.ts";
import { pino } from "pino";
import { COMMANDS } from "../../cli/commands.ts";
import { clientAt } from "../flows/clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  type RunningService,
  SHOP,
  startService,
  storageIn,
} from "../flows/running-service.ts";
import { httpPeer } from "../notifier/peers.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { here } from "./here.ts";
import { everythingIn } from "./stage.ts";

/** No account and no delivery has this id. */
const NOBODY = "00000000-0000-4000-8000-000000000000";

let folder: string;
let running: RunningService;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-beside-"));
  const storage = await storageIn(folder);
  const notifications = { allowedReceivers: ["127.0.0.1"] };
  running = await startService({ config: { ...storage, notifications } });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ deployments, notifications, ...storage }), {
    mode: 0o600,
  });
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});

async function command(...words: readonly string[]): Promise<Record<string, unknown>> {
  const all = [...words, "--json", "--config", join(folder, "config.json")];
  const { code, out, err } = await here(all);
  expect([words, code, err]).toEqual([words, 0, ""]);
  return JSON.parse(out) as Record<string, unknown>;
}

describe("beside a running server", () => {
  it("a client is refused as soon as it is disabled, and its old secret as soon as it has a new one [D-CLI-5]", async () => {
    const news = clientAt(running, "openid", NEWS);
    let { refresh_token } = await news.signIn(ADA);
    const refreshed = async (client = NEWS): Promise<number> =>
      (await clientAt(running, "openid", client).refresh(refresh_token)).status;
    expect(await refreshed()).toBe(200);
    await command("clients", "disable", "news");
    expect(await refreshed()).toBe(400);
    await command("clients", "enable", "news");
    expect(await refreshed()).toBe(400);
    ({ refresh_token } = await news.signIn(ADA));
    expect(await refreshed()).toBe(200);
    const { client_secret } = await command("clients", "rotate-secret", "news", "--yes");
    expect(await refreshed()).toBe(400);
    expect(await refreshed({ ...NEWS, client_secret: String(client_secret) })).toBe(200);
  });

  it("a command that ends sessions waits for back-channel logout, and names clients that are given up [D-BACKCHANNEL-2, D-ACCOUNT-16]", async () => {
    const asked: string[] = [];
    const peer = await httpPeer((request, response) => {
      asked.push(request.url ?? "");
      response.writeHead(request.url === "/well" ? 204 : 500).end();
    });
    const client = { ...NEWS, client_id: "ill" };
    const address = (path: string): string => `http://127.0.0.1:${peer.port}/${path}`;
    await running.service.clients.register({ ...client, backchannel_logout_uri: address("ill") });
    await running.service.clients.register({
      ...SHOP,
      client_id: "well",
      backchannel_logout_uri: address("well"),
    });
    const ill = clientAt(running, "openid", client);
    const browser = ill.browser({ stopAt: [...NEWS.redirect_uris, ...SHOP.redirect_uris] });
    await ill.code({ ...BOB, browser });
    await clientAt(running, "openid", { ...SHOP, client_id: "well" }).code({ ...BOB, browser });
    const ended = await here(["sessions", "end", running.bob.sub, "--config", join(folder, "config.json")]);
    await peer.close();
    expect(asked.toSorted()).toEqual(["/ill", "/ill", "/ill", "/well"]);
    expect(ended.code).toBe(0);
    // Beside load, an attempt may take longer than the service waits.
    expect(ended.err).toMatch(
      /^Notifying the clients of the sessions that have ended …\nill was not notified that a session ended \((?:status|timeout), after 3 attempts\)\n$/,
    );
    await running.service.clients.remove("ill");
    await running.service.clients.remove("well");
  });

  it("an account is refused as soon as it is disabled, or its sessions and tokens have ended [D-CLI-5]", async () => {
    const { client_secret } = await command("clients", "rotate-secret", "news", "--yes");
    const news = clientAt(running, "openid", { ...NEWS, client_secret: String(client_secret) });
    const browser = news.browser();
    const first = await news.signIn({ ...ADA, browser });
    expect((await news.userinfo(first.access_token)).status).toBe(200);
    await command("accounts", "revoke-tokens", running.ada.sub);
    expect((await news.userinfo(first.access_token)).status).toBe(400);
    expect(await news.silently(browser)).toBe("code");
    await command("sessions", "end", running.ada.sub);
    expect(await news.silently(browser)).toBe("login_required");
    const second = await news.signIn(ADA);
    await command("accounts", "disable", running.ada.sub);
    expect((await news.userinfo(second.access_token)).status).toBe(400);
    await command("accounts", "enable", running.ada.sub);
    expect((await news.signIn(ADA)).access_token).toMatch(/^[\w-]{43}$/u);
  });
});

describe("a command that only reads", () => {
  /**
   * The same storage in the configuration of somebody who never started a server: only the storage and its keys are
   * right.
   */
  const OTHER = {
    deployments: {
      oauth2: { url: "https://elsewhere.example" },
      openid: { url: "https://elsewhere.example/openid" },
    },
    proxy: false,
    interactions: { theme: { name: "Elsewhere" } },
  };
  /**
   * Every command that only reads, with its exit code. `storage check` is not one of them, because it uses up a number
   * of each counter.
   */
  const READING: readonly (readonly [words: string, code: number])[] = [
    ["accounts find ada", 0],
    ["accounts list", 0],
    [`factors list ${NOBODY}`, 1],
    [`identities list ${NOBODY}`, 0],
    [`invitations find ${NOBODY}`, 1],
    ["invitations list", 0],
    ["documents list", 0],
    ["documents find https://agent.example.com", 1],
    [`sessions list ${NOBODY}`, 0],
    ["audit find none", 1],
    ["tokens list", 0],
    ["clients find news", 0],
    ["clients list", 0],
    ["services find 1", 0],
    ["services list", 0],
    ["groups find none", 1],
    ["groups list", 0],
    ["portals find none", 1],
    ["portals list", 0],
    ["apis find https://none.example/", 1],
    ["apis list", 0],
    ["receivers list", 0],
    ["receivers find service:none", 1],
    ["deliveries list", 0],
    [`deliveries find ${NOBODY}`, 1],
    [`deliveries explain --account ${NOBODY} --type DELETE_ACCOUNT`, 1],
    [`sessions list ${NOBODY}`, 0],
    ["audit list", 0],
    [`audit find ${NOBODY}`, 1],
    ["tokens list", 0],
    ["keys list", 0],
    ["keys reseal --check", 0],
    ["config check", 0],
    ["config print", 0],
    ["seed export", 0],
    // It has none of what is there.
    ["seed diff SEED", 1],
    // It says what is wrong.
    ["doctor", 1],
  ];

  it("is one of those below", () => {
    const verbs = ["check", "diff", "explain", "find", "list", "print"];
    const reading = COMMANDS.commands
      .map(({ words }) => words.join(" "))
      .filter((words) => verbs.some((verb) => words.endsWith(` ${verb}`)));
    const tried = new Set(READING.map(([words]) => words.split(" ").slice(0, 2).join(" ")));
    expect(reading.filter((words) => !tried.has(words))).toEqual(["storage check"]);
  });

  it("writes nothing, whatever its configuration says", async () => {
    const place = mkdtempSync(join(folder, "reading-"));
    const storage = await storageIn(place);
    const server = await startService({
      // Long ago, so that keys would be rotated, and records have expired.
      config: { ...storage, clock: { virtual: true, now: () => Date.now() - 300 * 86_400_000 } },
    });
    await server.close();
    const { oauth2, openid } = server;
    const file = join(place, "other.json");
    const keys = { ...storage.keys, rotation: { signing: 30 * 86_400 } };
    writeFileSync(file, JSON.stringify({ ...OTHER, ...storage, keys }), { mode: 0o600 });
    const seed = join(place, "seed.json");
    writeFileSync(seed, JSON.stringify({ seed: {} }));
    const before = await everythingIn(storage);
    expect(JSON.stringify(before)).toContain(`${oauth2}/account/callback`);
    /** What a file holds, to the byte; other storages are compared by their records. */
    const bytes = (): string | undefined =>
      storage.storage.startsWith("sqlite:")
        ? hash("sha256", readFileSync(join(place, "sign-in.db")))
        : undefined;
    const stored = bytes();
    for (const [words, expected] of READING) {
      const { code, err } = await here([...words.replace("SEED", seed).split(" "), "--config", file]);
      expect([words, code, err]).toEqual([words, expected, expect.anything()]);
      expect([words, bytes()]).toEqual([words, stored]);
    }
    expect(await everythingIn(storage)).toEqual(before);
    const { out } = await here(["doctor", "--json", "--config", file]);
    const found = out.split("\n").find((line) => line.includes('"check":"deployments"'));
    expect(JSON.parse(found ?? "{}")).toMatchObject({
      level: "problem",
      what: `The last server on this storage was started at ${oauth2} and ${openid}, and this configuration has https://elsewhere.example and https://elsewhere.example/openid.`,
    });
  }, 60_000);

  it("writes nothing to the queue, and a command that notifies does", async () => {
    const redis = await openOwnRedis();
    try {
      const queue = `${redis.url}?prefix=reading`;
      const file = join(folder, "queue.json");
      const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
      const notifications = { allowedReceivers: ["127.0.0.0/8"] };
      writeFileSync(file, JSON.stringify({ ...config, queue, notifications }), { mode: 0o600 });
      const { directory } = running.service;
      await directory.services.put("queued", {
        name: "Queued",
        receiver: {
          url: "http://127.0.0.1:9/",
          client_id: "sign-in",
          client_secret: "the secret of the receiver",
          types: ["PROFILE_CHANGED"],
        },
      });
      await running.service.accounts.assign(running.bob.sub, "queued", 1);
      expect((await here(["accounts", "find", "bob", "--config", file])).code).toBe(0);
      expect(await redis.client.keys("*")).toEqual([]);
      const update = ["accounts", "update", running.bob.sub, "--name", "Bobby", "--config", file];
      expect((await here(update)).code).toBe(0);
      expect(await redis.client.keys("*")).not.toEqual([]);
    } finally {
      await redis.close();
    }
  }, 30_000);

  it("refuses a storage that no server has used, and leaves it as it is", async () => {
    const file = join(folder, "empty.db");
    writeFileSync(file, "", { mode: 0o600 });
    const config = join(folder, "empty.json");
    writeFileSync(config, JSON.stringify({ ...OTHER, storage: `sqlite:${file}` }));
    for (const words of [
      "accounts list",
      "keys list",
      "doctor",
      "storage check",
      "keys reseal",
      `backup ${join(folder, "x.bak")} --key-file ${join(folder, "x.key")}`,
    ]) {
      const { code, out, err } = await here([...words.split(" "), "--config", config]);
      expect([words, code]).toEqual([words, words === "doctor" ? 0 : 3]);
      expect(out + err).toMatch(/the database file is empty/iu);
      expect(readFileSync(file, "utf8")).toBe("");
    }
  });
});

describe("a server that finds another server's addresses in its storage", () => {
  it("warns with both, once", async () => {
    const place = mkdtempSync(join(folder, "moved-"));
    const storage = await storageIn(place);
    const started = async (url: string): Promise<string> => {
      const log: string[] = [];
      const logger = pino({ level: "warn" }, { write: (line: string) => void log.push(line) });
      const service = await createSignInService({
        ...storage,
        logger,
        deployments: { oauth2: { url }, openid: { url: `${url}/openid` } },
      });
      await service.close();
      return log.join("");
    };
    const [one, other] = ["http://127.0.0.1:39001", "http://127.0.0.1:39002"];
    expect(await started(one)).toBe("");
    expect(await started(one)).toBe("");
    expect(await started(other)).toContain(
      `was at ${one} and ${one}/openid, and this one is at ${other} and ${other}/openid`,
    );
    expect(await started(other)).toBe("");
  }, 30_000);
});
