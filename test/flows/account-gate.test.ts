import { describe, expect, it } from "@jest/globals";
import { StorageUnavailable } from "../../core/errors.ts";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { clientAt, signedIn, signIn } from "./clients.ts";
import { send } from "../../testing/test-client.ts";
import { ADA, BOB, NEWS, startService, useService } from "./running-service.ts";

const KINDS = ["oauth2", "openid"] as const;

const running = useService({
  host(application) {
    application.use(async (ctx, next) => {
      await next();
      if (ctx.status === 404 && !ctx.body) ctx.body = "the host's own page";
    });
  },
});

const session = (name: string): boolean => /_session_[0-9a-f]{8}$/.test(name);
const signature = (name: string): boolean => /_session_[0-9a-f]{8}\.sig$/.test(name);

/** The cookies of a browser, with changes. */
function cookies(browser: Browser, change: (name: string, value: string) => string | undefined): string {
  const all = browser.jar.all().map(({ name, value }) => change(name, value) ?? `${name}=${value}`);
  return all.join("; ");
}

describe.each(KINDS)("the account page of %s", (kind) => {
  it("redirects to the sign-in, and back to the requested page [D-DEPLOY-14]", async () => {
    const base = running[kind];
    const browser = await new Browser().get(`${base}/account?tab=1`);
    const [first, ...others] = browser.visits;
    expect([first?.status, first?.headers.get("cache-control")]).toEqual([303, "no-store"]);
    const authorization = new URL(first?.headers.get("location") ?? "");
    expect(authorization.origin + authorization.pathname).toBe(`${base}/oauth2/authorize`);
    expect([...authorization.searchParams.keys()]).toEqual([
      "client_id",
      "response_type",
      "redirect_uri",
      "state",
      "code_challenge",
      "code_challenge_method",
    ]);
    expect(authorization.searchParams.get("redirect_uri")).toBe(`${base}/account/callback`);
    expect(others.at(-1)?.url.pathname).toContain("/interaction/");
    expect(browser.title).toBe("Sign in");
    await signIn(browser);
    expect([browser.status, browser.url.href]).toEqual([200, `${base}/account?tab=1`]);
    expect(browser.title).toBe("Your account");
    expect(browser.html).toContain(ADA.email);
    const callback = browser.visits.find(({ url }) => url.pathname.endsWith("/account/callback"));
    expect(callback?.url.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
    expect([callback?.status, callback?.headers.get("location")]).toEqual([303, `${base}/account?tab=1`]);
    expect(callback?.headers.get("referrer-policy")).toBe("same-origin");
    expect(callback?.headers.get("cache-control")).toBe("no-store");
  });

  it("opens without a form after a sign-in at a client", async () => {
    const news = clientAt(running, kind, NEWS);
    const browser = news.browser();
    await news.code({ ...BOB, browser });
    await browser.get(`${running[kind]}/account`);
    expect(browser.visits.map(({ status }) => status)).toEqual([200]);
    expect(browser.html).toContain(BOB.email);
    expect(browser.html).not.toContain("/account/deliveries");
    expect(browser.headers.get("content-security-policy")).toContain("default-src 'none'");
  });

  it("opens without a form after a sign-in at the other deployment", async () => {
    const browser = await signedIn(running[kind]);
    const other = kind === "oauth2" ? "openid" : "oauth2";
    await browser.get(`${running[other]}/account`);
    expect([browser.status, browser.visits.length, browser.title]).toEqual([200, 1, "Your account"]);
  });

  it("leaves unknown paths to the host application", async () => {
    // Without operators there is no console.
    for (const path of [
      "/account/",
      "/account/x",
      "/accounts",
      "/Account",
      "/account/deliveries",
      "/account/people",
    ]) {
      for (const method of ["GET", "POST"]) {
        await expect(send(running[kind] + path, { method })).resolves.toMatchObject({
          text: "the host's own page",
        });
      }
    }
  });

  it("refuses malformed and repeated query parameters", async () => {
    for (const query of ["a=%", "a=%zz", "a=%C3", "a=%00", "a=1&a=2"]) {
      for (const path of ["/account", "/account/callback"]) {
        const { status, headers } = await send(`${running[kind]}${path}?${query}`);
        expect([query, path, status, headers.get("location")]).toEqual([query, path, 400, null]);
      }
    }
  });
});

describe("the session", () => {
  it.each([
    ["sessions are ended", (sub: string) => running.service.accounts.endSessions(sub)],
    [
      "the password changes",
      (sub: string) => running.service.accounts.setPassword(sub, "a new password here"),
    ],
    ["the account is deleted", (sub: string) => running.service.accounts.delete(sub)],
  ])("is over when %s", async (_what, end) => {
    const person = { username: `eve-${Math.random()}`, password: "the password of eve" };
    const { sub } = await running.service.accounts.create({
      email: `${person.username}@example.com`,
      ...person,
    });
    const browser = await new Browser().get(`${running.oauth2}/account`);
    await signIn(browser, person);
    expect(browser.title).toBe("Your account");
    await end(sub);
    await browser.get(`${running.oauth2}/account`);
    expect([browser.visits[0]?.status, browser.title]).toEqual([303, "Sign in"]);
  });

  it.each(KINDS)("is over after signing out on %s [D-SELF-1]", async (kind) => {
    const browser = await signedIn(running[kind]);
    await browser.get(`${running[kind]}/account`);
    await browser.submit(browser.form("csrf"));
    expect([browser.status, browser.title]).toEqual([200, "You are signed out"]);
    expect(browser.jar.all().filter(({ name }) => name.includes("_session_"))).toEqual([]);
    await browser.get(`${running[kind]}/account`);
    expect(browser.title).toBe("Sign in");
  });

  it("is invalid without its signature, with another one, or next to a second cookie", async () => {
    const browser = await signedIn(running.oauth2);
    const other = await signedIn(running.oauth2, BOB);
    const theirs = other.jar.all().find(({ name }) => session(name));
    const status = async (cookie: string): Promise<number> =>
      (await send(`${running.oauth2}/account`, { headers: { cookie } })).status;
    await expect(status(cookies(browser, () => undefined))).resolves.toBe(200);
    for (const change of [
      (name: string) => (signature(name) ? "x=1" : undefined),
      (name: string) => (signature(name) ? `${name}=${"A".repeat(27)}` : undefined),
      (name: string) => (session(name) ? `${name}=${theirs?.value}` : undefined),
      (name: string, value: string) =>
        session(name) ? `${name}=${value}; ${name}=${theirs?.value}` : undefined,
      (name: string, value: string) =>
        signature(name) ? `${name}=${value}; ${name}=${"A".repeat(27)}` : undefined,
    ]) {
      await expect(status(cookies(browser, change))).resolves.toBe(303);
    }
  });
});

it("is 503 while the storage is unavailable, without a redirect or a cookie, and then works again", async () => {
  const watched: WatchedStorage[] = [];
  const faulty = await startService({
    logsErrors: true,
    storage(opened) {
      const one = new WatchedStorage(opened);
      watched.push(one);
      return one.storage;
    },
  });
  const [storage] = watched;
  if (storage === undefined) throw new Error("no storage was opened");
  const browser = await signedIn(faulty.oauth2);
  for (const broken of ["artifacts.find", "directory.findAccount"]) {
    storage.fail = ({ name }) => {
      if (name === broken) throw new StorageUnavailable("out of reach");
    };
    await browser.getOnly(`${faulty.oauth2}/account`);
    expect([broken, browser.status, browser.location]).toEqual([broken, 503, undefined]);
    expect(browser.headers.getSetCookie()).toEqual([]);
    expect(browser.headers.get("retry-after")).toBe("5");
    expect(browser.title).toBe("Temporarily unavailable");
  }
  storage.fail = () => undefined;
  await browser.getOnly(`${faulty.oauth2}/account`);
  expect([browser.status, browser.title]).toEqual([200, "Your account"]);
  // A session that can't be removed is invalid too, because the account's generation counts.
  storage.fail = ({ name }) => {
    if (name === "artifacts.page") throw new StorageUnavailable("out of reach");
  };
  await faulty.service.accounts.endSessions(faulty.ada.sub);
  await browser.get(`${faulty.oauth2}/account`);
  expect([browser.visits[0]?.status, browser.title]).toEqual([303, "Sign in"]);
});

it("works with the strict profile, with one deployment, and with a prefix that a proxy removes", async () => {
  const strict = await startService({
    config: { profile: "strict", stripPrefix: "/login" },
    deployments: (origin) => ({ openid: { url: `${origin}/login` } }),
  });
  const behind = new Browser({
    send(url, init) {
      const inner = new URL(url);
      inner.pathname = inner.pathname.replace(/^\/login/, "");
      return fetch(inner, init);
    },
  });
  await signIn(await behind.get(`${strict.openid}/account`));
  expect([behind.status, behind.url.href, behind.title]).toEqual([
    200,
    `${strict.openid}/account`,
    "Your account",
  ]);
});
