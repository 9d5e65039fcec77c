/** What people see when they run `npm start` and open the printed URL. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { readTags } from "../../testing/browser/html.ts";
import { namedBlock, ROOT } from "./documents.ts";
import { freePorts, type Running, start } from "./processes.ts";

/** The rows of all tables: `name` → value. */
function rowsOf(html: string): Record<string, string> {
  const cells = readTags(html).filter(({ name }) => name === "th" || name === "td");
  return Object.fromEntries(
    cells.flatMap(({ name, text }, i) =>
      name === "th" ? [[text.trim(), cells[i + 1]?.text.trim() ?? ""]] : [],
    ),
  );
}

/** The list of calls, as `METHOD /path STATUS`. */
function callsOf(html: string): string[] {
  return [...html.matchAll(/<code>(\w+) http:\/\/[^/]+([^<]*)<\/code>\s*<b>(\d+)<\/b>/g)].map(
    ([, method, path, status]) => `${method} ${path} ${status}`,
  );
}

describe("npm start", () => {
  let demo: Running;
  let client: string;
  let server: string;
  let receiver: string;
  let password: string;

  beforeAll(async () => {
    const port = await freePorts(4);
    demo = start("cli/main.ts", { args: ["serve", "--demo"], env: { PORT: String(port) } });
    await demo.until(/Ctrl\+C stops it/);
    [, client = ""] = await demo.until(/Open +(\S+)/);
    [, server = ""] = await demo.until(/OAuth 2\.0 +(\S+)/);
    [, receiver = ""] = await demo.until(/Receiver +(\S+)/);
    [, password = ""] = await demo.until(/Password +(\S+)/);
  });
  afterAll(async () => {
    await demo.stop("SIGKILL");
  });

  /** Signs in to the client through a deployment, with the password if the form asks for it. */
  async function signIn(browser: Browser, label: string): Promise<Browser> {
    await browser.get(client);
    await browser.click(label);
    if (browser.url.origin === server) {
      await browser.submit(browser.form("password"), { username: "ada", password });
    }
    return browser;
  }

  it("prints base URLs that lead to the account page", async () => {
    const [, openid = ""] = await demo.until(/OpenID Connect +(\S+)/);
    const browser = new Browser();
    for (const base of [server, `${server}/`, openid, `${openid}/`]) {
      await browser.get(base);
      if (browser.hasForm("password")) {
        await browser.submit(browser.form("password"), { username: "ada", password });
      }
      expect([browser.status, browser.title]).toEqual([200, "Your account"]);
    }
  });

  it("uses the port of the environment, and prints the URLs and the user", async () => {
    expect(demo.output()).toContain(`Open            ${client}`);
    expect(Number(new URL(client).port)).toBe(Number(new URL(server).port) + 1);
    expect(demo.output()).toMatch(/User +ada\n/);
    const printed = demo
      .output()
      .replaceAll(new URL(server).port, "3000")
      .replaceAll(new URL(client).port, "3001")
      .replaceAll(new URL(receiver).port, "3002")
      .replaceAll(String(Number(new URL(server).port) + 3), "3003");
    expect(namedBlock("what-the-demo-prints").code).toBe(`${printed.trim()}\n`);
    const discovery = await fetch(`${server}/openid/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({ issuer: `${server}/openid` });
  });

  it("shows basic and extended user information from the documented paths", async () => {
    const browser = await signIn(new Browser(), "Sign in with OAuth 2.0");
    expect(browser.url.href).toBe(`${client}/`);
    expect(browser.title).toBe("Hello, Ada");
    expect(rowsOf(browser.html)).toEqual({
      sub: expect.stringMatching(/^[\da-f-]{36}$/),
      email: "ada@example.com",
      name: "Ada",
      surname: "Lovelace",
      date_of_birth: "1990-12-10",
      gender: "female",
    });
    expect(callsOf(browser.html)).toEqual([
      "POST /oauth2/token 200",
      "GET /resources/userinfo?client_id=news 200",
      "GET /external/profile?client_id=news 200",
    ]);
  });

  it("skips the form with OpenID Connect if the user is already signed in, and signs out", async () => {
    const browser = await signIn(new Browser(), "Sign in with OAuth 2.0");
    await browser.get("/");
    await browser.submit(browser.form("sign_out"), {});
    expect(browser.title).toBe("Welcome");
    await browser.click("Sign in with OpenID Connect");
    expect(browser.title).toBe("Hello, Ada");
    expect(rowsOf(browser.html)).toMatchObject({
      iss: `${server}/openid`,
      aud: "news",
      gender: "female",
      department: "Analytical engines",
    });
    expect(callsOf(browser.html)).toEqual([
      "POST /openid/oauth2/token 200",
      "GET /openid/oauth2/resources/userinfo?client_id=news 200",
      "GET /openid/oauth2/external/profile?client_id=news 200",
    ]);
    await browser.submit(browser.form("sign_out"), {});
    expect(browser.url.origin).toBe(server);
    await browser.submit(browser.form("logout"), { logout: "yes" });
    expect([browser.url.href, browser.title]).toEqual([`${client}/`, "Welcome"]);
    await browser.click("Sign in with OpenID Connect");
    expect(browser.title).toBe("Sign in");
  });

  it("refreshes and revokes the token, and shows the effect", async () => {
    const browser = await signIn(new Browser(), "Sign in with OAuth 2.0");
    await browser.submit(browser.form("refresh"));
    expect(browser.html).toContain("You have a new access token.");
    expect(callsOf(browser.html)[0]).toBe("POST /oauth2/token 200");
    await browser.submit(browser.form("revoke"));
    expect(browser.html).toContain("User information now responds with: 400 invalid_token");
    expect(callsOf(browser.html)).toEqual([
      "GET /oauth2/revoke?client_id=news 200",
      "GET /resources/userinfo?client_id=news 400",
    ]);
    expect(rowsOf(browser.html)).toEqual({});
    await browser.submit(browser.form("refresh"));
    expect(rowsOf(browser.html)).toMatchObject({ surname: "Lovelace" });
  });

  it("refuses responses without a request, and forms of other sites", async () => {
    const browser = await signIn(new Browser(), "Sign in with OAuth 2.0");
    await browser.get("/callback?code=abc&state=def");
    expect([browser.status, browser.title]).toEqual([400, "Not signed in"]);
    const stranger = new Browser({ stopAt: server });
    await stranger.get(`${client}/sign-in/oauth2`);
    await stranger.get("/callback?code=abc&state=%3Cscript%3E&error=%3Cscript%3E");
    expect([stranger.status, stranger.title]).toEqual([400, "Not signed in"]);
    expect(stranger.html).not.toContain("<script>");
    await stranger.get(`${client}/sign-in/oauth2`);
    const state = stranger.location?.searchParams.get("state") ?? "";
    await stranger.get(`/callback?error=%3Cscript%3E&state=${state}`);
    expect([stranger.status, stranger.html]).toEqual([400, expect.stringContaining("(&lt;script&gt;)")]);
    const foreign = await fetch(`${client}/revoke`, {
      method: "POST",
      headers: { origin: "http://evil.example" },
    });
    expect(foreign.status).toBe(403);
  });

  it.each(["oauth2", "openid"])(
    "signs in two tabs at once with %s, and says what a mismatch is",
    async (deployment) => {
      const asked = await Promise.all(
        [1, 2].map(() => fetch(`${client}/sign-in/${deployment}`, { redirect: "manual" })),
      );
      const browser = new Browser();
      for (const { headers } of asked) browser.jar.take(new URL(client), headers.getSetCookie());
      const [first = "", second = ""] = asked.map(({ headers }) => headers.get("location") ?? "");
      await browser.get(second);
      await browser.submit(browser.form("password"), { username: "ada", password });
      expect([browser.url.href, browser.title]).toEqual([`${client}/`, "Hello, Ada"]);
      await browser.get(first);
      expect([browser.url.href, browser.title]).toEqual([`${client}/`, "Hello, Ada"]);

      const callback = new URL(new URL(first).searchParams.get("redirect_uri") ?? "");
      const state = new URL(first).searchParams.get("state") ?? "";
      for (const query of [
        `code=abc&state=${state}`,
        "code=abc&state=forged",
        "code=abc",
        "error=access_denied",
      ]) {
        await browser.get(`${callback.href}?${query}`);
        expect([query, browser.status, browser.title]).toEqual([query, 400, "Not signed in"]);
        expect(browser.html).toContain("This sign-in was not started in this browser, or it is over.");
      }
      // Who is signed in stays it.
      expect((await browser.get(client)).title).toBe("Hello, Ada");

      await browser.getOnly(`${client}/sign-in/${deployment}`);
      const refused = new URLSearchParams({
        error: "access_denied",
        state: browser.location?.searchParams.get("state") ?? "",
        ...(deployment === "openid" && { iss: `${server}/openid` }),
      });
      await browser.get(`${callback.href}?${refused}`);
      expect([browser.status, browser.title]).toEqual([400, "Not signed in"]);
      expect(browser.html).toContain("You did not allow it, or went back.");
    },
  );

  it("keeps the last five sign-ins that a browser began", async () => {
    const browser = new Browser();
    const begun: (string | null)[] = [];
    for (let tab = 0; tab < 7; tab += 1) {
      await browser.getOnly(`${client}/sign-in/oauth2`);
      begun.push(browser.location?.searchParams.get("state") ?? null);
    }
    const names = browser.jar.all().map(({ name }) => name);
    expect(names.filter((name) => name.startsWith("demo_client_sign_in_"))).toEqual(
      begun.slice(-5).map((state) => `demo_client_sign_in_${state}`),
    );
  });

  it("sets only its own cookie, and allows no scripts or content from other hosts", async () => {
    const browser = await signIn(new Browser(), "Sign in with OAuth 2.0");
    await browser.get(client);
    expect(browser.headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; img-src data:; style-src 'sha256-/,
    );
    const own = browser.jar.all().filter(({ name }) => name.startsWith("demo_client"));
    expect(own).toEqual([expect.objectContaining({ httpOnly: true, sameSite: "lax", path: "/" })]);
  });

  it("stops when npm is stopped, although the shell of npm does not forward the signal", async () => {
    const port = await freePorts(4);
    const main = join(ROOT, "cli/main.ts");
    // Plays the shell of npm: runs the server, and forwards no signals.
    const shell = start("test/examples/npm-shell.mjs", {
      args: [main, "serve", "--demo"],
      env: { PORT: `${port}`, npm_lifecycle_event: "start" },
    });
    await shell.until(/Ctrl\+C stops it/);
    await shell.stop();
    const isGone = async (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/health`).then(
        () => false,
        () => true,
      );
    while (!(await isGone()));
  });

  it("prints nothing else, and exits with 0 on SIGTERM", async () => {
    await expect(demo.stop()).resolves.toBe(0);
    expect(demo.output().trimEnd().endsWith("Ctrl+C stops it.")).toBe(true);
  });
});
