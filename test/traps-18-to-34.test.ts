/** Where the library that is used and the documented interface differ: one short test for each place, 18 to 34. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { Browser } from "../lib/testing/browser/browser.ts";
import {
  basic,
  type Parameters,
  PATHS,
  readTokens,
  type RelyingParty,
  relyingParty,
  send,
} from "./flows/relying-party.ts";
import { ADA, BOB, NEWS, PARTNER, type RunningService, SHOP, startService } from "./flows/running-service.ts";

const KINDS = ["oauth2", "openid"] as const;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

let running: RunningService;
let oauth2: RelyingParty;
let openid: RelyingParty;
/** Ada's browser, signed in. */
let browser: Browser;
/** Milliseconds by which the service's clock is ahead. */
let ahead = 0;
let folder: string;
const told: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sign-in-traps-"));
  running = await startService({
    config: { storage: `sqlite:${join(folder, "sign-in.db")}`, clock: { now: () => Date.now() + ahead } },
    // The same request passes the service twice: what it has answered is not undone by the second time.
    host: (application) =>
      void application.use(async (ctx, next) => {
        const twice = ctx.query["twice"] === "yes";
        if (twice) await running.service.routes()(ctx, () => Promise.resolve());
        await next();
      }),
  });
  oauth2 = relyingParty(running, "oauth2", NEWS);
  openid = relyingParty(running, "openid", NEWS);
  browser = oauth2.browser();
  const { events } = running.service;
  for (const event of ["tokens.issued", "code.issued", "token.revoked", "sign_in.success"] as const) {
    events.on(event, (argument) => void told.push(JSON.stringify(argument)));
  }
  await oauth2.authorize(browser);
});
afterAll(async () => {
  await running.close();
  await rm(folder, { recursive: true });
});

/** Where Ada's browser is sent at once. */
async function ask(party: RelyingParty, parameters: Parameters = {}): Promise<URLSearchParams> {
  await browser.getOnly(party.authorizeUrl(parameters));
  return browser.location?.searchParams ?? new URLSearchParams();
}

describe("accounts and sessions", () => {
  it("trap 18: the session of a deleted account is over, also with prompt=none, and does not come back [D-ACCOUNT-6]", async () => {
    const { sub } = await running.service.accounts.create({
      email: "gone@example.com",
      password: "the password of gone",
    });
    const person = { username: "gone@example.com", password: "the password of gone" };
    const own = oauth2.browser();
    await oauth2.authorize(own, {}, person);
    const racing = Array.from({ length: 10 }, () =>
      send(oauth2.authorizeUrl(), { headers: { cookie: own.jar.header(new URL(oauth2.base)) } }),
    );
    await running.service.accounts.delete(sub);
    for (const { status } of await Promise.all(racing)) expect([302, 303, 400]).toContain(status);
    await own.get(oauth2.authorizeUrl());
    expect([own.status, own.form("password").method]).toEqual([200, "POST"]);
    await own.getOnly(openid.authorizeUrl({ prompt: "none", scope: "openid" }));
    expect(own.location?.searchParams.get("error")).toBe("login_required");
  });

  it("trap 19: no keys of the host, other cases, HEAD and a second pass harm nothing [D-DEPLOY-11]", async () => {
    expect((await ask(oauth2)).has("code")).toBe(true);
    for (const path of ["/OAUTH2/Authorize", "/oauth2/authorize/"]) {
      expect((await send(`${running.origin}${path}?client_id=news&response_type=code`)).status).toBe(404);
    }
    const head = await send(oauth2.authorizeUrl(), { method: "HEAD" });
    expect([head.status, head.headers.get("allow"), head.headers.getSetCookie()]).toEqual([405, "GET", []]);
    const keys = await send(`${openid.base}/oauth2/jwks?twice=yes`);
    expect([keys.status, Object.keys(JSON.parse(keys.text) as object)]).toEqual([200, ["keys"]]);
  });

  it("trap 20: a first-party client is never asked, and a grant outlives its refresh token [D-AUTHZ-15, D-TOKEN-12]", async () => {
    const { access_token, refresh_token } = await oauth2.tokens({}, ADA, browser);
    for (const prompt of [undefined, "consent"])
      expect((await ask(oauth2, { prompt })).has("code")).toBe(true);
    ahead = 29 * 86_400_000;
    expect((await oauth2.userinfo(access_token)).status).toBe(400);
    expect((await oauth2.refresh(refresh_token)).status).toBe(200);
    ahead = 31 * 86_400_000;
    expect((await oauth2.refresh(refresh_token)).body["error"]).toBe("invalid_grant");
    ahead = 0;
  });

  it("trap 21: a receiver's secret is kept so that it can be read again, and never as it is", async () => {
    const client_secret = "the secret prepared for the receiver";
    const receiver = {
      url: "https://news.example/notify",
      client_id: "r",
      client_secret,
      types: ["DELETE_ACCOUNT" as const],
    };
    await running.service.directory.services.put("4", { name: "Told", receiver });
    const shown = JSON.stringify(await running.service.directory.services.find("4"));
    expect(shown).toContain("https://news.example/notify");
    expect(shown).not.toContain(client_secret);
    const bytes = ["", "-wal"]
      .map((end) => readFileSync(join(folder, `sign-in.db${end}`), "latin1"))
      .join("");
    expect(bytes).toContain("https://news.example/notify");
    expect(bytes).not.toContain(client_secret);
  });
});

describe("what the library switches on", () => {
  it("trap 22: pages are ours, DPoP and resource indicators are off [D-DEPLOY-5]", async () => {
    const login = await oauth2.browser().get(oauth2.authorizeUrl());
    expect(login.url.pathname).toMatch(/^\/interaction\/[\w-]+$/);
    expect(login.form().fields.map(([name]) => name)).toEqual(["csrf", "username", "password"]);
    const { body } = await send(`${openid.base}/.well-known/openid-configuration`);
    expect(Object.keys(body).filter((name) => /dpop|registration|resource/.test(name))).toEqual([]);
    expect((await ask(openid, { resource: "https://api.example" })).has("code")).toBe(true);
    const tokens = await openid.exchange(await openid.code({}, ADA, browser), {
      resource: "https://api.example",
    });
    expect(tokens.body["token_type"]).toBe("bearer");
  });

  it("trap 23: lifetimes are exact [D-TOKEN-10]", async () => {
    const before = Date.now();
    const { access_token, expires_in } = await oauth2.tokens({}, ADA, browser);
    const took = Date.now() - before;
    ahead = expires_in * 1000 - 1000 - took;
    expect((await oauth2.userinfo(access_token)).status).toBe(200);
    ahead = expires_in * 1000 + 1000;
    expect((await oauth2.userinfo(access_token)).status).toBe(400);
    ahead = 0;
  });

  it("trap 24: introspection is for a client's own tokens [D-DEPLOY-4]", async () => {
    const { access_token } = await openid.tokens({}, ADA, browser);
    const introspect = async (authorization: string): Promise<unknown> => {
      const body = new URLSearchParams({ token: access_token });
      return (
        await send(`${openid.base}/oauth2/introspect`, { method: "POST", headers: { authorization }, body })
      ).body["active"];
    };
    expect([
      await introspect(basic(NEWS)),
      await introspect(basic(SHOP)),
      await introspect(basic(PARTNER)),
    ]).toEqual([true, false, false]);
  });
});

describe("identifiers and endings", () => {
  it("trap 25: sub is a UUID everywhere, and user_id an integer that no client sees [RES-BASIC-1, D-ACCOUNT-1]", async () => {
    const { access_token, id_token = "" } = await openid.tokens({ scope: "openid" }, ADA, browser);
    const { body, text } = await openid.profile(access_token);
    expect([body["sub"], decodeJwt(id_token).sub]).toEqual([running.ada.sub, running.ada.sub]);
    expect(running.ada.sub).toMatch(UUID);
    expect(Number.isSafeInteger(running.ada.user_id)).toBe(true);
    expect(text).not.toContain("user_id");
  });

  it("trap 26: unassignment ends the tokens of that service's clients and no others [D-ACCOUNT-5]", async () => {
    const shop = relyingParty(running, "oauth2", SHOP);
    const [news, shops] = [await oauth2.tokens({}, BOB), await shop.tokens({}, BOB)];
    await running.service.accounts.unassign(running.bob.sub, ["1"]);
    expect([
      (await oauth2.userinfo(news.access_token)).status,
      (await oauth2.refresh(news.refresh_token)).status,
    ]).toEqual([400, 400]);
    expect((await shop.userinfo(shops.access_token)).status).toBe(200);
  });
});

describe("methods and bodies", () => {
  it("trap 27: a wrong method is 405 with Allow and JSON [EP-2, D-DEPLOY-11]", async () => {
    for (const kind of KINDS) {
      for (const [method, path, allow] of [
        ["GET", "/oauth2/token", "POST"],
        ["POST", PATHS[kind].userinfo, "GET"],
        ["PUT", "/oauth2/revoke", "GET, POST"],
      ] as const) {
        const { status, headers, body } = await send(`${running[kind]}${path}`, { method });
        expect([status, headers.get("allow"), body["error"]]).toEqual([405, allow, "invalid_request"]);
      }
    }
  });

  it("trap 28: GET revoke is not kept, not done for a prefetch, and takes no token from the query [D-TOKEN-16, D-TOKEN-18]", async () => {
    const { access_token } = await oauth2.tokens({}, ADA, browser);
    for (const headers of [{ "sec-purpose": "prefetch;prerender" }, { purpose: "prefetch" }]) {
      expect((await oauth2.bearer("/oauth2/revoke", access_token, { headers })).status).toBe(400);
    }
    for (const path of ["/oauth2/revoke", PATHS.oauth2.userinfo, PATHS.oauth2.profile]) {
      const query = `client_id=news&access_token=${access_token}&token=${access_token}`;
      expect((await send(`${oauth2.base}${path}?${query}`)).body["error"]).toBe("invalid_request");
    }
    const { status, headers } = await oauth2.revoke(access_token);
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
  });

  it("trap 29: discovery is the OpenID Connect deployment's alone, and its userinfo needs no client_id [D-DEPLOY-3, D-DEPLOY-4]", async () => {
    expect((await send(`${oauth2.base}/.well-known/openid-configuration`)).status).toBe(404);
    const { body } = await send(`${openid.base}/.well-known/openid-configuration`);
    expect(body["userinfo_endpoint"]).toBe(`${openid.base}/oauth2/userinfo`);
    const { access_token } = await openid.tokens({ scope: "openid" }, ADA, browser);
    const headers = { authorization: `Bearer ${access_token}` };
    expect((await send(String(body["userinfo_endpoint"]), { headers })).body["sub"]).toBe(running.ada.sub);
    expect(
      (await send(String(body["userinfo_endpoint"]), { headers: { authorization: "Bearer x" } })).status,
    ).toBe(401);
  });

  it("trap 30: a body may have 64 KiB, and must be a form [D-TOKEN-8]", async () => {
    const { refresh_token } = await oauth2.tokens({}, ADA, browser);
    const form = `grant_type=refresh_token&refresh_token=${refresh_token}&x=`;
    const post = async (body: string, type = "application/x-www-form-urlencoded"): Promise<number> => {
      const headers = { authorization: basic(NEWS), "content-type": type };
      return (await send(`${oauth2.base}/oauth2/token`, { method: "POST", headers, body })).status;
    };
    expect(await post(form.padEnd(65_536, "x"))).toBe(200);
    expect(await post(form.padEnd(65_537, "x"))).toBe(400);
    expect(
      await post(JSON.stringify({ grant_type: "refresh_token", refresh_token }), "application/json"),
    ).toBe(400);
  });

  it("trap 31: guessing is slowed down, at the form and at the token endpoint [D-TOKEN-21]", async () => {
    const wrong = { username: "nobody", password: "a wrong password" };
    const answers = await Promise.all(Array.from({ length: 12 }, () => oauth2.password(wrong)));
    expect(answers.filter(({ headers }) => headers.has("retry-after"))).toHaveLength(2);
    const guessing = await oauth2.browser().get(oauth2.authorizeUrl());
    for (let count = 0; count < 11; count += 1) await guessing.submit(guessing.form("password"), wrong);
    expect(guessing.status).toBe(429);
  });

  it("trap 32: no event and no log line holds a token or a code", async () => {
    const code = await oauth2.code({}, ADA, browser);
    const { access_token, refresh_token } = readTokens(await oauth2.exchange(code));
    await oauth2.revoke(access_token);
    const all = `${told.join("\n")}\n${running.log.join("\n")}`;
    expect(all).toContain(running.ada.sub);
    for (const secret of [code, access_token, refresh_token]) expect(all).not.toContain(secret);
  });

  it("trap 33: parameters of OpenID Connect are no errors on the OAuth 2.0 deployment [D-AUTHZ-7]", async () => {
    const parameters = {
      max_age: "x",
      id_token_hint: "x",
      acr_values: "1",
      claims: "{",
      claims_locales: "pl",
      registration: "x",
    };
    expect([...(await ask(oauth2, { ...parameters, request: "x", request_uri: "x" })).keys()]).toEqual([
      "code",
    ]);
  });

  it("trap 34: a token response says nothing about other origins [D-DEPLOY-8]", async () => {
    const answer = await oauth2.exchange(await oauth2.code({}, ADA, browser));
    expect(answer.status).toBe(200);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});
