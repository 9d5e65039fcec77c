/** How the bundled server responds to unknown paths. */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../../testing/browser/browser.ts";
import { freePorts } from "../../examples/processes.ts";
import { configuration, Servers } from "../../examples/servers.ts";

const servers = new Servers();

/** Starts a server; resolves with its origin and the base URLs that it prints. */
async function serve(
  more: (origin: string) => object = () => ({}),
): Promise<{ origin: string; bases: string[] }> {
  const port = await freePorts();
  const origin = `http://127.0.0.1:${port}`;
  const storage = `sqlite:./${randomUUID()}.db`;
  const file = servers.write({ ...configuration(origin), storage, port, ...more(origin) });
  const server = servers.run(["--config", file], { env: { HOST: "127.0.0.1" } });
  const [, printed = ""] = await server.until(/listening on port \d+ for ([^"]+)"/);
  return { origin, bases: printed.split(" and ") };
}

const html = { accept: "text/html" };

describe("an unknown path", () => {
  it("is a page for browsers, in the style and language of the other pages, with a link to the account", async () => {
    const { origin } = await serve(() => ({ interactions: { theme: { name: "Contoso & sons" } } }));
    for (const path of [
      "/nothing",
      "/openid/nothing",
      "/openid/oauth2/authorise?x=<b>y</b>",
      "/%zz",
      "//x",
      "/OPENID",
    ]) {
      const browser = new Browser({ headers: html });
      await browser.get(origin + path);
      expect([browser.status, browser.title]).toEqual([404, "This page doesn’t exist"]);
      expect(browser.html).toContain("<span>Contoso &amp; sons</span>");
      expect(browser.html).not.toMatch(/<b>|authorise/);
      expect(browser.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(browser.headers.get("cache-control")).toBe("no-store");
      await browser.click("Go to your account");
      expect([browser.status, browser.title]).toEqual([200, "Sign in"]);
      expect(browser.url.pathname).toMatch(path.startsWith("/openid/") ? /^\/openid\// : /^\/interaction\//);
    }
    const polish = await fetch(`${origin}/nothing`, { headers: { ...html, "accept-language": "pl" } });
    expect(await polish.text()).toContain("Pod tym adresem nic nie ma.");
    expect((await fetch(`${origin}/nothing`, { method: "POST", headers: html })).status).toBe(404);
    const head = await fetch(`${origin}/nothing`, { method: "HEAD", headers: html });
    expect([head.status, await head.text()]).toEqual([404, ""]);
  });

  it("is JSON for programs", async () => {
    const { origin } = await serve();
    for (const accept of [
      "*/*",
      "application/json",
      "application/json, text/html",
      "image/png",
      "x".repeat(5000),
    ]) {
      const answer = await fetch(`${origin}/nothing`, { headers: { accept } });
      expect([answer.status, answer.headers.get("content-type"), await answer.json()]).toEqual([
        404,
        "application/json; charset=utf-8",
        { error: "not_found", error_description: "there is nothing at this address" },
      ]);
    }
  });
});

const SIGN_IN = [200, "Sign in", true];

/** The page at this URL. */
async function open(address: string): Promise<unknown[]> {
  const browser = new Browser({ headers: html });
  await browser.get(address);
  return [browser.status, browser.title, browser.hasForm("password")];
}

describe("a base URL", () => {
  it("leads to the account page, with and without a trailing slash", async () => {
    const { origin, bases } = await serve();
    expect(bases).toEqual([origin, `${origin}/openid`]);
    for (const base of bases) {
      expect(await open(base)).toEqual(SIGN_IN);
      expect(await open(`${base}/`)).toEqual(SIGN_IN);
      expect(await open(`${base}/?next=https://evil.example`)).toEqual(SIGN_IN);
    }
    const to = async (path: string, method = "GET"): Promise<unknown[]> => {
      const answer = await fetch(origin + path, { method, redirect: "manual" });
      return [answer.status, answer.headers.get("location")];
    };
    expect(await to("/")).toEqual([302, "/account"]);
    expect(await to("/openid", "HEAD")).toEqual([302, "/openid/account"]);
    expect(await to("/openid/")).toEqual([302, "/openid/account"]);
    for (const path of ["//", "/openid//", "/OpenID", "/%6fpenid", "/openid/..", "//evil.example"]) {
      const [status, location] = await to(path);
      expect([path, status, location]).toEqual([
        path,
        path === "/openid/.." ? 302 : 404,
        path === "/openid/.." ? "/account" : null,
      ]);
    }
    expect(await to("/", "POST")).toEqual([404, null]);
  });

  it("does so with one deployment, and with two hosts that use the same path", async () => {
    const alone = await serve((origin) => ({ deployments: { openid: { url: `${origin}/sign-in` } } }));
    expect(alone.bases).toEqual([`${alone.origin}/sign-in`]);
    expect(await open(alone.bases[0] ?? "")).toEqual(SIGN_IN);
    expect((await fetch(alone.origin)).status).toBe(404);
    const two = await serve((origin) => ({
      deployments: { oauth2: { url: origin }, openid: { url: origin.replace("127.0.0.1", "localhost") } },
    }));
    for (const base of two.bases) {
      const browser = new Browser({ headers: html });
      await browser.get(base);
      expect([browser.status, browser.url.origin]).toEqual([200, base]);
    }
  });

  it("redirects to the path that the browser sees if a proxy removes a prefix", async () => {
    const { origin } = await serve((at) => ({
      deployments: { oauth2: { url: `${at}/login` }, openid: { url: `${at}/login/openid` } },
      stripPrefix: "/login",
    }));
    for (const [path, location] of [
      ["/", "/login/account"],
      ["/openid", "/login/openid/account"],
    ] as const) {
      const answer = await fetch(origin + path, { redirect: "manual" });
      expect([answer.status, answer.headers.get("location")]).toEqual([302, location]);
    }
    const lost = await (await fetch(`${origin}/openid/nothing`, { headers: html })).text();
    expect(lost).toContain(`href="${origin}/login/openid/account"`);
  });
});
