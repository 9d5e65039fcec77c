/** The applications of docs/connect/sign-in/your-server.md, with a real service and a browser. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { signIn } from "../flows/clients.ts";
import { onLocalhost, type RunningService, startService } from "../flows/running-service.ts";
import { freePorts, type Running, start } from "./processes.ts";

const FOLDER = "examples/your-application";

/** What runs each file. */
const APPLICATIONS = {
  "express.ts": `${FOLDER}/express.ts`,
  "koa.ts": `${FOLDER}/koa.ts`,
  "next.ts": "test/examples/next-server.ts",
};

describe.each(Object.entries(APPLICATIONS))("%s", (file, script) => {
  let service: RunningService;
  let application: Running;
  let url: string;

  beforeAll(async () => {
    // The application starts before the service, and still works.
    const port = await freePorts(2);
    const issuer = `http://localhost:${port + 1}/openid`;
    url = `http://localhost:${port}`;
    const client = { client_id: "your-application", client_secret: "the secret of your application, 32" };
    application = start(script, {
      env: {
        ISSUER: issuer,
        CLIENT_ID: client.client_id,
        CLIENT_SECRET: client.client_secret,
        APP_URL: url,
        SESSION_SECRET: "a secret for cookies with at least 32 characters",
      },
    });
    await application.until(/listening on/);
    expect((await fetch(`${url}/`)).status).toBe(200);
    service = await startService({ port: port + 1, deployments: onLocalhost });
    await service.service.clients.register({
      ...client,
      name: "Your application",
      service: "1",
      redirect_uris: [`${url}/auth/callback`],
      post_logout_redirect_uris: [url],
    });
  });
  afterAll(async () => {
    await application.stop();
  });

  it("protects a page: the person signs in and comes back to it", async () => {
    const browser = await new Browser().get(`${url}/account?tab=2`);
    await signIn(browser);
    expect(browser.url.href).toBe(`${url}/account?tab=2`);
    expect(JSON.parse(browser.html)).toEqual({ sub: service.ada.sub, email: service.ada.email });
  });

  it("signs in two tabs, whichever of them comes back first, also when both ask at once", async () => {
    for (const first of [1, 2]) {
      const browser = new Browser({ stayAt: [url, new URL(service.openid).origin] });
      const asked = await Promise.all(
        [1, 2].map((tab) => fetch(`${url}/auth/sign-in?to=/account?tab=${tab}`, { redirect: "manual" })),
      );
      for (const { headers } of asked)
        browser.jar.take(new URL(`${url}/auth/sign-in`), headers.getSetCookie());
      for (const tab of [first, 3 - first]) {
        await browser.get(asked[tab - 1]?.headers.get("location") ?? "");
        // The second tab comes back at once.
        if (tab === first) await signIn(browser);
        expect(browser.url.href).toBe(`${url}/account?tab=${tab}`);
      }
    }
  });

  it("keeps the last five sign-ins that a browser began, each of which counts once", async () => {
    const browser = new Browser({ stayAt: [url] });
    const begun: URL[] = [];
    for (let tab = 0; tab < 7; tab += 1) {
      const to = encodeURIComponent(`/account?tab=${tab}&more=${"x".repeat(900)}`);
      await browser.get(`${url}/auth/sign-in?to=${to}`);
      begun.push(browser.location!);
    }
    const kept = browser.jar.all().filter(({ name }) => name.startsWith("sign-in-"));
    expect(kept.map(({ name }) => name.slice(8))).toEqual(
      begun.slice(-5).map(({ searchParams }) => searchParams.get("state")),
    );
    expect(browser.jar.header(new URL(`${url}/auth/callback`)).length).toBeLessThan(12_000);
    const other = new Browser({ stopAt: `${url}/auth/callback` });
    await signIn(await other.get(begun.at(-1)!));
    const back = other.location!;
    await browser.get(back);
    expect(browser.url.href).toContain(`${url}/account?tab=6&more=xxx`);
    await browser.get(back);
    expect([browser.status, browser.url.pathname]).toEqual([400, "/auth/callback"]);
  });

  it("signs out here and at the service", async () => {
    const browser = await new Browser().get(`${url}/account`);
    await signIn(browser);
    const signOut = {
      action: new URL(`${url}/auth/sign-out`),
      method: "POST",
      fields: [],
      buttons: [],
    } as const;
    await browser.submit(signOut);
    // The page of the service sends its form by itself, with a script.
    await browser.submit(browser.form("logout"), { logout: "yes" });
    expect(browser.url.href).toBe(`${url}/`);
    expect(browser.html).toContain("Sign in");
    await browser.get(`${url}/account`);
    expect(browser.hasForm("password")).toBe(true);
  });

  if (file === "next.ts")
    it("has the page of the document, which leads to the sign-in, shows the person and signs out", async () => {
      const browser = await new Browser().get(`${url}/documented`);
      expect(browser.visits[0]?.headers.get("location")).toBe("/auth/sign-in?to=/account");
      await signIn(browser);
      expect(browser.url.href).toBe(`${url}/account`);
      await browser.get(`${url}/documented`);
      expect(browser.html).toContain(service.ada.email);
      const [form] = browser.forms();
      expect([form?.action.href, form?.method]).toEqual([`${url}/auth/sign-out`, "POST"]);
    });

  it.each([
    "https://evil.example/",
    "//evil.example/",
    String.raw`/\evil.example/`,
    String.raw`\\evil.example/`,
    "javascript:alert(1)",
    "APP//evil.example/",
    "APP@evil.example/",
  ])("never sends anybody to another site: %s", async (to) => {
    const browser = new Browser({ stayAt: [url, new URL(service.openid).origin] });
    await browser.get(`${url}/auth/sign-in?to=${encodeURIComponent(to.replace("APP", url))}`);
    await signIn(browser);
    expect((browser.location ?? browser.url).origin).toBe(url);
  });

  it.each([
    ["nothing", ""],
    ["a state of its own", "?code=abc&state=forged"],
    ["an error", "?error=access_denied&state=forged"],
  ])("refuses a response that it didn't ask for: %s", async (_name, query) => {
    const stranger = await new Browser().get(`${url}/auth/callback${query}`);
    expect(stranger.status).toBe(400);
    const asking = await new Browser({ stayAt: [url] }).get(`${url}/auth/sign-in`);
    await asking.get(`${url}/auth/callback${query}`);
    expect(asking.status).toBe(400);
    expect((await asking.get(`${url}/`)).html).toContain("Sign in");
  });

  it("refuses the response to another browser", async () => {
    const attacker = new Browser({ stopAt: `${url}/auth/callback` });
    await signIn(await attacker.get(`${url}/auth/sign-in`));
    const victim = await new Browser({ stayAt: [url] }).get(`${url}/auth/sign-in`);
    await victim.get(attacker.location!);
    expect(victim.status).toBe(400);
    expect((await victim.get(`${url}/`)).html).toContain("Sign in");
  });

  it("offers to sign in again after a refusal", async () => {
    const browser = await new Browser({ stayAt: [url] }).get(`${url}/auth/sign-in`);
    const state = browser.location?.searchParams.get("state") ?? "";
    await browser.get(`${url}/auth/callback?${new URLSearchParams({ error: "access_denied", state })}`);
    expect(browser.status).toBe(400);
    expect(browser.html).toContain('href="/auth/sign-in"');
  });

  it("keeps the session where scripts and other sites can't use it", async () => {
    const { headers } = await fetch(`${url}/auth/sign-in`, { redirect: "manual" });
    const [cookie = ""] = headers.getSetCookie();
    expect(cookie).toMatch(/; httponly/i);
    expect(cookie).toMatch(/; samesite=lax/i);
    const changed = cookie.split(";", 1)[0]!.replace(/.{5}$/, "AAAAA");
    const answer = await fetch(`${url}/auth/callback?code=abc&state=abc`, { headers: { cookie: changed } });
    expect(answer.status).toBe(400);
  });
});
