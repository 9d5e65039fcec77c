/** Rotation of signing keys, with two services that share a storage and an address. */
import { generateKeyPairSync } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { calculateJwkThumbprint, createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import type { Context } from "koa";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { SignInService } from "../../lib/service.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { BACKENDS } from "../servers/storage.ts";
import type { SigningKey } from "../../accounts/operations/keys.ts";
import { readTokens, send, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import {
  ADA,
  NEWS,
  type RunningService,
  startService,
  startWithClock,
  storageIn,
} from "./running-service.ts";
import { newFolder, closing } from "../closing.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const SESSION_MAX = 10 * DAY;
const GOODBYE = "http://127.0.0.1:4000/goodbye";

let folder: string;
let clock: TestClock;
let running: RunningService;
let second: SignInService;
/** Starts another service on the same storage. */
let another: () => Promise<SignInService>;
/** Whether the second service responds. */
let isSecond: boolean;
let news: TestClient;

async function start(config: Pick<SignInServiceConfig, "keys"> = {}): Promise<void> {
  clock = new TestClock();
  isSecond = false;
  const storage = await storageIn(folder);
  const common = {
    ...storage,
    ...config,
    keys: { ...storage.keys, ...config.keys },
    clock,
    lifetimes: { sessionMax: SESSION_MAX, session: SESSION_MAX },
    notifications: { worker: false },
  };
  running = await startService({
    config: common,
    host: (application) =>
      void application.use((ctx: Context, next) => (isSecond ? second.routes()(ctx, next) : next())),
  });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  another = () => startWithClock({ ...common, deployments, proxy: false, logger: pino({ level: "silent" }) });
  second = closing(await another());
  news = clientAt(running, "openid", NEWS);
}

beforeEach(() => {
  folder = newFolder();
});

/** Does the same at both services. */
async function atBoth<T>(work: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (const which of [false, true]) {
    isSecond = which;
    results.push(await work());
  }
  isSecond = false;
  return results;
}

/** The names of one algorithm's published keys, the signing one first. */
async function jwks(alg: string = "RS256"): Promise<unknown[]> {
  const { body } = await send(`${running.openid}/oauth2/jwks`);
  const keys = body["keys"] as Readonly<Record<string, unknown>>[];
  const publicParts: Readonly<Record<string, readonly string[]>> = {
    RSA: ["e", "n"],
    EC: ["crv", "x", "y"],
    OKP: ["crv", "x"],
  };
  for (const key of keys) {
    const names = ["alg", "kid", "kty", "use", ...(publicParts[String(key["kty"])] ?? [])];
    expect(Object.keys(key).toSorted()).toEqual(names.toSorted());
  }
  return keys.filter((key) => key["alg"] === alg).map(({ kid }) => kid);
}

/** Rotates all keys. @returns the next one for RS256. */
async function rotateAll(): Promise<SigningKey> {
  const next = (await running.service.keys.rotate()).find(({ alg }) => alg === "RS256");
  if (next === undefined) throw new Error("no key for RS256");
  return next;
}

/** Verifies a token with the current JWKS. @returns the key's name. */
async function verified(token = "", audience = "news"): Promise<unknown> {
  const keys = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
  const { protectedHeader } = await jwtVerify(token, keys, {
    issuer: running.openid,
    audience,
    currentDate: new Date(clock.now()),
  });
  return protectedHeader.kid;
}

const newTokens = (): Promise<TestTokens> => news.signIn(ADA, { scope: "openid" });
const kidOf = ({ id_token = "" }: TestTokens): unknown => decodeProtectedHeader(id_token).kid;

/** The status of a logout request with this ID token hint. */
async function signOutWith({ id_token = "" }: TestTokens): Promise<number> {
  const parameters = new URLSearchParams({ id_token_hint: id_token, post_logout_redirect_uri: GOODBYE });
  return (await send(`${running.openid}/oauth2/logout?${parameters}`)).status;
}

const bothLook = async (): Promise<void> => {
  await running.service.keys.list();
  await second.keys.list();
};

describe("a rotation of the signing keys", () => {
  it("is published immediately and signs after an hour; ID token hints are valid as long as sessions [D-KEYS-1]", async () => {
    await start();
    await running.service.clients.update("news", { post_logout_redirect_uris: [GOODBYE] });
    const before = await newTokens();
    const [old] = await jwks();
    expect(kidOf(before)).toBe(old);
    const { kid } = await rotateAll();
    await second.keys.list();

    expect(await atBoth(jwks)).toEqual([
      [old, kid],
      [old, kid],
    ]);
    clock.advance(HOUR - 1);
    expect(await atBoth(async () => kidOf(await newTokens()))).toEqual([old, old]);
    const last = await newTokens();
    clock.advance(1);
    expect(await atBoth(jwks)).toEqual([
      [kid, old],
      [kid, old],
    ]);
    expect(await atBoth(async () => kidOf(await newTokens()))).toEqual([kid, kid]);
    expect(await atBoth(() => verified(last.id_token))).toEqual([old, old]);
    // Refreshes of older sign-ins use the new key.
    const refreshed = readTokens(await news.refresh(before.refresh_token));
    expect(kidOf(refreshed)).toBe(kid);
    expect(kidOf(readTokens(await news.password(ADA, { scope: "openid" })))).toBe(kid);

    clock.advance(SESSION_MAX - 1);
    expect(await atBoth(() => signOutWith(last))).toEqual([303, 303]);
    clock.advance(1);
    expect(await atBoth(jwks)).toEqual([[kid], [kid]]);
    expect(await atBoth(() => signOutWith(last))).toEqual([400, 400]);
    await bothLook();
    expect(await atBoth(jwks)).toEqual([[kid], [kid]]);
  });

  it("by schedule happens at a start, and in one of several processes [D-KEYS-2]", async () => {
    const every = 30 * DAY;
    await start({ keys: { rotation: { signing: every } } });
    const [old] = await jwks();
    clock.advance(every);
    const third = await another();
    await third.close();
    await bothLook();
    const [first, ...rest] = await jwks();
    expect([first, rest.length]).toEqual([old, 1]);
    clock.advance(HOUR);
    expect(await atBoth(async () => kidOf(await newTokens()))).toEqual([rest[0], rest[0]]);
  });

  it("reaches the other service within seconds, or at its next read on MongoDB", async () => {
    await start();
    // The second service must be listening before the rotation.
    await pause(1_000);
    const { kid } = await rotateAll();
    // On MongoDB, services only read the keys once a minute, or on a call.
    if (BACKENDS.includes("mongodb")) await bothLook();
    isSecond = true;
    for (let tries = 0; tries < 1_000 && (await jwks()).length === 1; tries += 1) await pause(50);
    expect(await jwks()).toContain(kid);
  });

  it("leaves running requests on their provider [D-KEYS-5]", async () => {
    await start();
    const code = await news.code(ADA, { scope: "openid" });
    const arrived = Promise.withResolvers<void>();
    const rotated = Promise.withResolvers<void>();
    const before = running.service.provider;
    const providers: unknown[] = [];
    before.use(async (ctx, next) => {
      arrived.resolve();
      await rotated.promise;
      await next();
      providers.push(ctx.oidc.provider);
    });
    const answer = news.exchange(code);
    await arrived.promise;
    const old = (await running.service.keys.list()).items[0]?.kid;
    await running.service.keys.retire(old ?? "");
    expect(running.service.provider).not.toBe(before);
    rotated.resolve();
    expect(kidOf(readTokens(await answer))).toBe(old);
    expect(providers).toEqual([before]);
    await news.password(ADA);
    expect(providers.at(-1)).toBe(running.service.provider);
  });

  it("keeps the host's listeners, and unfinished sign-ins", async () => {
    await start();
    const grants: unknown[] = [];
    running.service.provider.on("grant.success", (ctx) => grants.push(ctx.oidc.params?.["grant_type"]));
    const browser = await news.browser().get(news.authorizeUrl({ scope: "openid" }));
    const { kid } = await rotateAll();
    // The sign-in ends with the hour, and Redis counts the rest of it in real time.
    clock.advance(HOUR - 30);
    expect(running.service.provider).not.toBe(undefined);
    await signIn(browser);
    clock.advance(30);
    const code = browser.location?.searchParams.get("code") ?? "";
    expect(kidOf(readTokens(await news.exchange(code)))).toBe(kid);
    expect(grants).toEqual(["authorization_code"]);
  });
});

describe("a leaked key", () => {
  it("is removed immediately with its ID tokens; users stay signed in [D-KEYS-3]", async () => {
    await start();
    await running.service.clients.update("news", { post_logout_redirect_uris: [GOODBYE] });
    const browser = news.browser();
    const before = await news.signIn({ ...ADA, browser }, { scope: "openid" });
    const [leaked] = await jwks();
    await running.service.keys.retire(String(leaked), { actor: { kind: "operator", id: "grace" } });
    await second.keys.list();
    const [[kid] = []] = await atBoth(jwks);
    expect(kid).not.toBe(leaked);
    expect(await atBoth(jwks)).toEqual([[kid], [kid]]);
    await expect(verified(before.id_token)).rejects.toThrow();
    expect(await atBoth(() => signOutWith(before))).toEqual([400, 400]);
    expect((await news.userinfo(before.access_token)).status).toBe(200);
    await browser.get(news.authorizeUrl({ scope: "openid", prompt: "none" }));
    const code = browser.location?.searchParams.get("code") ?? "";
    const after = readTokens(await news.exchange(code));
    expect(await atBoth(() => verified(after.id_token))).toEqual([kid, kid]);
    const { items: records } = await running.service.audit.list({ action: "signing_key.retired" });
    expect(records).toMatchObject([{ subject: leaked, actor: { kind: "operator", id: "grace" } }]);
  });
});

describe("a client's own algorithm", () => {
  it.each(["PS256", "ES256", "EdDSA"] as const)(
    "%s signs its ID tokens and hints, and rotates with the others [D-KEYS-6]",
    async (alg) => {
      await start();
      const { clients, keys } = running.service;
      const credentials = await clients.register({
        name: "Modern news",
        service: "1",
        redirect_uris: [NEWS.redirect_uris[0] ?? ""],
        post_logout_redirect_uris: [GOODBYE],
        id_token_signed_response_alg: alg,
      });
      await expect(clients.find(credentials.client_id)).resolves.toMatchObject({
        id_token_signed_response_alg: alg,
      });
      const modern = clientAt(running, "openid", { ...NEWS, ...credentials });
      const tokens = await modern.signIn(ADA, { scope: "openid" });
      expect(decodeProtectedHeader(tokens.id_token ?? "").alg).toBe(alg);
      const [signing] = await jwks(alg);
      await expect(verified(tokens.id_token, credentials.client_id)).resolves.toBe(signing);
      const next = (await keys.rotate()).find((key) => key.alg === alg);
      clock.advance(HOUR);
      const later = await modern.signIn(ADA, { scope: "openid" });
      await expect(verified(later.id_token, credentials.client_id)).resolves.toBe(next?.kid);
      expect(await atBoth(() => signOutWith(tokens))).toEqual([303, 303]);
      await expect(
        clients.update(credentials.client_id, { id_token_signed_response_alg: "RS256" } as never),
      ).rejects.toThrow(TypeError);
    },
  );

  it("needs a key in keys.signing, if that is configured, and FAPI 2.0 one that is not for RS256 [D-FAPI-6]", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
    await start({ keys: { signing: [rsa] } });
    const settings = { name: "x", service: "1", redirect_uris: [NEWS.redirect_uris[0] ?? ""] };
    const { clients } = running.service;
    await expect(clients.register({ ...settings, id_token_signed_response_alg: "ES256" })).rejects.toThrow(
      "id_token_signed_response_alg: no key in keys.signing signs with ES256",
    );
    await clients.register({ ...settings, id_token_signed_response_alg: "RS256" });
    const { kty = "", n = "", e = "" } = rsa;
    const strict = { ...settings, profile: "fapi2", jwks: { keys: [{ kty, n, e }] } } as const;
    await expect(clients.register(strict)).rejects.toThrow(
      "profile: needs a signing key of the service for PS256, ES256, EdDSA",
    );
  });
});

describe("configured keys", () => {
  it("sign in their order, have names, and can be changed only in the configuration [D-KEYS-4]", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
    const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
    await start({ keys: { signing: [rsa, { ...other, kid: "other" }] } });
    const thumbprint = await calculateJwkThumbprint(rsa);
    expect(await atBoth(jwks)).toEqual([
      [thumbprint, "other"],
      [thumbprint, "other"],
    ]);
    expect(kidOf(await newTokens())).toBe(thumbprint);
    await expect(second.keys.list().then(({ items }) => items)).resolves.toMatchObject([
      { kid: thumbprint, state: "signing" },
      { kid: "other", state: "published" },
    ]);
    await expect(second.keys.rotate()).rejects.toMatchObject({ code: "configured_elsewhere" });
    await expect(second.keys.retire("other")).rejects.toMatchObject({ code: "configured_elsewhere" });
  });
});
