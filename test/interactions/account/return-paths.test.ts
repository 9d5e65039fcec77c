import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { createReturnPaths, isAccountPath } from "../../../interactions/account/return-paths.ts";
import type { FindBrowser } from "../../../provider/sessions/browser-cookie.ts";
import { encrypt } from "../../../core/sealing.ts";
import { rounds } from "../../rounds.ts";

const COOKIE = "browser";
const ROOT = { url: "https://login.example", path: "", secure: true };
const BELOW = { url: "https://login.example/openid", path: "/openid", secure: true };

type Deployment = typeof ROOT;

/** A request of one browser, and the cookies that the answer sets. */
function request(deployment: Deployment = ROOT, cookie?: string) {
  const set: string[] = [];
  return {
    set,
    req: { headers: { cookie } },
    exchange: { deployment },
    append: (_field: string, value: string) => void set.push(value),
  };
}

function paths(now: () => number = Date.now, key: KeyObject = createSecretKey(randomBytes(32))) {
  return createReturnPaths({ keys: [key], findBrowser, clock: { now } });
}

/** The cookie is the digest. */
const findBrowser: FindBrowser = ({ req }) => {
  const digest = req.headers.cookie?.split(`${COOKIE}=`)[1] ?? randomBytes(16).toString("base64url");
  return { digest, remember: (ctx) => ctx.append("Set-Cookie", `${COOKIE}=${digest}`) };
};

/** Encrypts a path for a new browser. @returns its state and cookie. */
function sealed(returns: ReturnType<typeof paths>, path: string, deployment: Deployment = ROOT) {
  const ctx = request(deployment);
  const state = returns.seal(ctx, path);
  return { state, cookie: ctx.set[0] ?? "" };
}

/** Paths that are not account pages. */
const ELSEWHERE = [
  "",
  "/",
  "//evil",
  "//evil/account",
  "///evil",
  "/\\evil/account",
  "/account\\..\\evil",
  "https://evil.example/account",
  "https:/account",
  "javascript:alert(1)//account",
  "account",
  "/accounts",
  "/account-evil",
  "/Account",
  "/account/../oauth2/logout",
  "/account/..//evil",
  "/account/%2e%2e/oauth2/logout",
  "/account/.",
  "/account#x",
  "/account\r\nLocation: https://evil.example",
  "/account\nx",
  "/account\tx",
  "/account\0",
  "/account x",
  "/account/é",
  '/account?"',
  "/openid/account",
  `/account?${"x".repeat(2_000)}`,
  "@evil/account",
  "/@evil/../account",
];

describe("a return path", () => {
  it.each([
    "/account",
    "/account/deliveries",
    "/account?a=b%20c&d=%0D%0A",
    "/account/deliveries/msg_1?x=//y",
  ])("%s is valid", (path) => {
    expect(isAccountPath(path, ROOT)).toBe(true);
    const returns = paths();
    const { state, cookie } = sealed(returns, path);
    expect(returns.open(request(ROOT, `other=1; ${cookie}`), state)).toBe(path);
    expect(isAccountPath(`/openid${path}`, BELOW)).toBe(true);
    expect(isAccountPath(path, BELOW)).toBe(false);
  });

  it.each(ELSEWHERE)("%j is invalid, even if it is encrypted with our key", (path) => {
    expect(isAccountPath(path, ROOT)).toBe(false);
    const key = createSecretKey(randomBytes(32));
    const browser = randomBytes(16).toString("base64url");
    const text = JSON.stringify([path, Date.now() + 60_000]);
    const state = encrypt(key, `account return ${browser}`, text);
    const returns = paths(Date.now, key);
    expect(returns.open(request(ROOT, `${COOKIE}=${browser}`), state)).toBeUndefined();
    // The account page is used instead.
    const instead = sealed(returns, path);
    expect(returns.open(request(ROOT, instead.cookie), instead.state)).toBe("/account");
  });

  it("leads only to account pages of the same origin [D-DEPLOY-14]", () => {
    const piece = fc.constantFrom(
      ..."/|//|\\|account|.|..|%2e|%2F|@|:|evil.example|https|?|#|&|=|\t|\r\n|é".split("|"),
    );
    const path = fc.array(piece, { maxLength: 8 }).map((parts) => `/account${parts.join("")}`);
    fc.assert(
      fc.property(fc.oneof(path, fc.string({ unit: "binary" })), (text) => {
        if (!isAccountPath(text, ROOT)) return;
        const { origin, pathname } = new URL(text, "https://login.example/somewhere");
        expect(origin).toBe("https://login.example");
        expect(`${pathname}/`).toMatch(/^\/account\//);
      }),
      { numRuns: rounds(200, 2_000) },
    );
  });
});

describe("a sealed return path", () => {
  it("does not reveal its path", () => {
    const { state } = sealed(paths(), "/account/deliveries?sub=5f0c");
    expect(Buffer.from(state, "base64url").toString("latin1")).not.toMatch(/account|sub|5f0c/);
  });

  it("is valid for two days", () => {
    let now = 1_000_000;
    const returns = paths(() => now);
    const { state, cookie } = sealed(returns, "/account/deliveries");
    now += 172_799_999;
    expect(returns.open(request(ROOT, cookie), state)).toBe("/account/deliveries");
    now += 1;
    expect(returns.open(request(ROOT, cookie), state)).toBeUndefined();
  });

  it("works in another tab of the same browser, and in no other browser", () => {
    const returns = paths();
    const one = sealed(returns, "/account/deliveries");
    const tab = request(ROOT, one.cookie);
    const second = returns.seal(tab, "/account");
    expect(tab.set).toEqual([one.cookie]);
    expect(returns.open(request(ROOT, one.cookie), one.state)).toBe("/account/deliveries");
    expect(returns.open(request(ROOT, one.cookie), second)).toBe("/account");
    const other = sealed(returns, "/account");
    expect(returns.open(request(ROOT, other.cookie), one.state)).toBeUndefined();
    expect(returns.open(request(ROOT), one.state)).toBeUndefined();
  });

  it.each(["", "x", "AAAA", "%", "a.b.c", "\0", "é"])("is invalid as %j", (state) => {
    const returns = paths();
    const { cookie } = sealed(returns, "/account");
    expect(returns.open(request(ROOT, cookie), state)).toBeUndefined();
  });

  it("is invalid with another key, on another deployment, and after a change of one bit", () => {
    const returns = paths();
    const { state, cookie } = sealed(returns, "/account");
    expect(paths().open(request(ROOT, cookie), state)).toBeUndefined();
    expect(returns.open(request(BELOW, cookie), state)).toBeUndefined();
    for (const at of [0, 12, 27, 30]) {
      const bytes = Buffer.from(state, "base64url");
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      expect(returns.open(request(ROOT, cookie), bytes.toString("base64url"))).toBeUndefined();
    }
  });
});
