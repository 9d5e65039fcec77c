/** The store in docs/embed/storage-backends.md: it passes the contract, and a service runs on it. */
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as runner from "@jest/globals";
import { type Clock, type RecordStore, StorageUnavailable } from "../../adapters/index.ts";
import { createNotificationWorker, createSignInService } from "../../lib/index.ts";
import { describeStorage } from "../../testing/index.ts";
import { openInbox } from "../flows/inbox.ts";
import { readTokens } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, startService } from "../flows/running-service.ts";
import { untilReplay } from "../flows/token-answers.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { namedBlock, ROOT } from "./documents.ts";
import { closing } from "../closing.ts";

const { afterAll, beforeAll, describe, expect, it } = runner;

const FOLDER = join(ROOT, ".cache/own-store");
const BLOCK = namedBlock("memory-store.ts");
let page: { readonly createMemoryStore: (clock?: Clock) => RecordStore };

beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, "memory-store.ts");
  writeFileSync(path, BLOCK.code.replaceAll('"sign-in-service/adapters"', '"../../adapters/index.ts"'));
  page = (await import(pathToFileURL(path).href)) as typeof page;
});
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

describeStorage(
  "the store of the page",
  { open: (clock) => Promise.resolve(page.createMemoryStore(clock)) },
  runner,
);

/** The store, and how often it was closed. */
function watched(): { readonly storage: RecordStore; readonly closed: () => number } {
  const store = page.createMemoryStore();
  let closed = 0;
  const close = (): Promise<void> => {
    closed += 1;
    return store.close();
  };
  return { storage: { ...store, close }, closed: () => closed };
}

const unavailable = (): Promise<never> => Promise.reject(new StorageUnavailable("planted"));
const newKeys = () => ({ secrets: [randomBytes(32).toString("base64")] });

describe("a service on the store of the page", () => {
  it("signs in, gives tokens, notifies, and closes the store", async () => {
    const inbox = await openInbox();
    const { storage, closed } = watched();
    const notifications = { allowedReceivers: ["127.0.0.1"], poll: 0.05 };
    const running = await startService({ config: { storage, keys: newKeys(), notifications } });
    try {
      const news = clientAt(running, "openid", NEWS);
      const code = await news.code(ADA, { scope: "openid" });
      const tokens = readTokens(await news.exchange(code));
      expect(tokens.id_token).toBeDefined();
      const { access_token } = readTokens(await news.refresh(tokens.refresh_token));
      expect((await news.userinfo(access_token)).body["sub"]).toBe(running.ada.sub);
      await untilReplay();
      expect((await news.exchange(code)).status).toBe(400);
      expect((await news.userinfo(access_token)).status).toBe(400);

      const receiver = {
        url: inbox.url("/news"),
        client_id: "sign-in",
        client_secret: "a secret of the receiver",
        types: ["DELETE_ACCOUNT"] as const,
      };
      const { accounts, directory } = running.service;
      await directory.services.put("1", { name: "News", receiver });
      await accounts.assign(running.ada.sub, "1", 7);
      await accounts.delete(running.ada.sub);
      await inbox.until((arrived) => arrived.length === 1);
      expect(inbox.arrived[0]?.body).toContain("DELETE_ACCOUNT");
      expect(await running.service.health()).toMatchObject({ ok: true });
      expect(closed()).toBe(0);
    } finally {
      await running.close();
      await inbox.close();
    }
    expect(closed()).toBeGreaterThan(0);
    await expect(storage.ping()).rejects.toMatchObject({ code: "storage_unavailable" });
  });

  it("can have a separate worker, each with its own store over the same records", async () => {
    const inbox = await openInbox();
    const store = page.createMemoryStore();
    const storage = { ...store, close: () => Promise.resolve() };
    const notifications = { allowedReceivers: ["127.0.0.1"], poll: 0.05, worker: false };
    const keys = newKeys();
    const running = await startService({ config: { storage, keys, notifications } });
    const { deployments, logger } = running.service.configuration;
    const worker = await createNotificationWorker({
      deployments: { oauth2: { url: deployments.oauth2!.url } },
      ...(logger !== undefined && { logger }),
      storage,
      keys,
      notifications,
    });
    const receiver = {
      url: inbox.url("/news"),
      client_id: "sign-in",
      client_secret: "a secret of the receiver",
      types: ["PROFILE_CHANGED"] as const,
    };
    await running.service.directory.services.put("1", { name: "News", receiver });
    await running.service.accounts.assign(running.ada.sub, "1", 7);
    await running.service.accounts.update(running.ada.sub, { name: "Augusta" });
    await inbox.until((arrived) => arrived.length === 1);
    await worker.close();
    await running.close();
    await inbox.close();
    await store.close();
  });

  it("keeps codes and tokens in Redis if configured", async () => {
    const redis = closing(await openOwnRedis());
    const { storage } = watched();
    const artifacts = `${redis.url}?prefix=own:`;
    const running = await startService({ config: { storage, artifacts, keys: newKeys() } });
    const news = clientAt(running, "oauth2", NEWS);
    await news.signIn(ADA);
    expect((await storage.scan("access-token", undefined, 9)).records).toEqual([]);
    expect((await storage.scan("account", undefined, 9)).records.length).toBeGreaterThan(0);
  });

  it("closes the store if the start fails, and leaves it open if the configuration is refused", async () => {
    const { storage, closed } = watched();
    const config = { deployments: { oauth2: { url: "http://127.0.0.1:3999" } }, keys: newKeys() };
    const refused = createSignInService({ ...config, storage, artifacts: "sqlite:./x.db" });
    await expect(refused).rejects.toMatchObject({ code: "invalid_configuration" });
    expect(closed()).toBe(0);
    const failed = createSignInService({ ...config, storage: { ...storage, get: unavailable } });
    await expect(failed).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(closed()).toBeGreaterThan(0);
  });
});

it("the store of the page is short", () => {
  expect(BLOCK.code.split("\n").length).toBeLessThan(150);
});
