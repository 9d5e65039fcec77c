/** The examples that embed the service in an application. */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { freePorts, type Running, start } from "./processes.ts";

const running: Running[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop("SIGKILL")));
});

async function startExample(script: string): Promise<{ readonly example: Running; readonly origin: string }> {
  const port = await freePorts();
  const example = start(script, { env: { PORT: `${port}` } });
  running.push(example);
  await example.until(/at http:\S+/);
  return { example, origin: `http://localhost:${port}` };
}

/** Stops it with SIGTERM, while a browser has a connection open that it never used. */
async function stop({ example, origin }: Awaited<ReturnType<typeof startExample>>): Promise<number | string> {
  const silent = connect(Number(new URL(origin).port), "127.0.0.1");
  await new Promise((resolve) => void silent.once("connect", resolve));
  silent.on("error", () => undefined);
  return example.stop();
}

describe("examples/embed.ts", () => {
  it("signs in under the prefix, and the cookie, body parser and header of the application keep working", async () => {
    const started = await startExample("examples/embed.ts");
    const { origin } = started;
    const browser = await new Browser().get(origin);
    await browser.click("Sign in");
    expect(browser.url.pathname).toMatch(/^\/auth\/interaction\//);
    await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
    expect(browser.url.pathname).toBe("/callback");
    expect(JSON.parse(browser.html)).toMatchObject({ email: "ada@example.com", name: null });
    expect(browser.headers.get("x-response-time")).toMatch(/^\d+ms$/);

    const hello = await fetch(`${origin}/api/hello`, {
      method: "POST",
      headers: { "content-type": "application/json", cookie: browser.jar.header(new URL(origin)) },
      body: JSON.stringify({ name: "Ada" }),
    });
    // Home, sign-in, authorize, form, submit, resume, callback: each is counted, so the signed cookie was read each time.
    expect(await hello.json()).toEqual({ hello: "Ada", visits: browser.visits.length + 5 });
    expect((await fetch(`${origin}/auth/nothing`)).status).toBe(404);
    expect((await fetch(`${origin}/oauth2/authorize`)).status).toBe(404);
    await expect(stop(started)).resolves.toBe(0);
  });

  it("signs in two tabs at once, and takes no answer that this browser did not ask for", async () => {
    const { origin } = await startExample("examples/embed.ts");
    const asked = await Promise.all([1, 2].map(() => fetch(`${origin}/sign-in`, { redirect: "manual" })));
    const browser = new Browser();
    for (const { headers } of asked) browser.jar.take(new URL(origin), headers.getSetCookie());
    await browser.get(asked[1]?.headers.get("location") ?? "");
    await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
    const { href } = browser.url;
    expect(JSON.parse(browser.html)).toMatchObject({ email: "ada@example.com" });
    await browser.get(asked[0]?.headers.get("location") ?? "");
    expect(JSON.parse(browser.html)).toMatchObject({ email: "ada@example.com" });
    for (const again of [href, `${origin}/callback?code=abc`, `${origin}/callback?code=abc&state=x`])
      expect([again, (await browser.get(again)).status]).toEqual([again, 400]);
    for (let tab = 0; tab < 7; tab += 1) await browser.getOnly(`${origin}/sign-in`);
    expect(browser.jar.all().filter(({ name }) => name.startsWith("sign-in-"))).toHaveLength(5);
  });

  it("serves OpenID Connect under the prefix", async () => {
    const { origin } = await startExample("examples/embed.ts");
    const discovery = await fetch(`${origin}/auth/openid/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({
      issuer: `${origin}/auth/openid`,
      token_endpoint: `${origin}/auth/openid/oauth2/token`,
    });
    const metadata = await fetch(`${origin}/.well-known/oauth-authorization-server/auth/openid`);
    expect(await metadata.json()).toMatchObject({ issuer: `${origin}/auth/openid` });
  });
});

describe("examples/minimal.ts", () => {
  it("is a complete service in fifteen lines", async () => {
    const file = join(import.meta.dirname, "../../examples/minimal.ts");
    const lines = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.trim() !== "" && !line.startsWith("/*"));
    expect(lines.length).toBeLessThanOrEqual(15);

    const started = await startExample("examples/minimal.ts");
    const [, address = ""] = await started.example.until(/at (http:\S+)/);
    const browser = new Browser({ stopAt: "http://localhost:3001/callback" });
    await browser.get(address);
    await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{20,}$/);
    await expect(stop(started)).resolves.toBe(0);
  });
});
