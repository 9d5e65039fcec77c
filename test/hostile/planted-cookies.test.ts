/** A sibling host plants the cookies of its own sign-in in somebody else's browser. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Browser, type Send } from "../../testing/browser/browser.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn, viaProxy } from "../flows/clients.ts";
import { ADA, BOB, CALLBACK, NEWS, storageIn } from "../flows/running-service.ts";
import { linkIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { newFolder } from "../closing.ts";

const BASE = "https://login.example.org";
const RESUME = `${BASE}/oauth2/authorize/`;
const SIBLING = new URL("https://evil.example.org");
const HTML = { accept: "text/html" };

let folder: string;
let service: SelfService;
let send: Send;
let news: TestClient;
let mallory: Browser;
let ada: Browser;

beforeAll(async () => {
  folder = newFolder();
  service = await startSelfService(undefined, {
    deployments: () => ({ oauth2: { url: BASE } }),
    config: { ...(await storageIn(folder)), proxy: true, interactions: { theme: { name: "Example" } } },
  });
  send = viaProxy(service);
  news = clientAt(service, "oauth2", NEWS);
});

function browser(): Browser {
  return new Browser({ send, headers: HTML, stopAt: [CALLBACK, RESUME] });
}

/** Gives a browser the cookies of another one, as a sibling host can. */
function plant(from: Browser, to: Browser): void {
  const planted = from.jar.all().map(({ name, value, path, secure }) => {
    const flags = `Domain=example.org; Path=${path}${secure ? "; Secure" : ""}`;
    return `${name}=${value}; ${flags}`;
  });
  to.jar.take(SIBLING, planted);
}

/** Whether somebody is signed in in this browser. */
async function isSignedIn(visitor: Browser): Promise<boolean> {
  await visitor.get(news.authorizeUrl({ prompt: "none" }));
  return visitor.location?.searchParams.has("code") ?? false;
}

/** Mallory signs in as Bob. */
describe.each([
  ["a browser that is new here", async () => browser()],
  ["a browser with a sign-in of its own", async () => browser().get(news.authorizeUrl())],
  [
    "a browser in which somebody is signed in",
    async () => {
      const visitor = await browser().get(news.authorizeUrl());
      await signIn(visitor, ADA);
      await visitor.follow();
      return visitor;
    },
  ],
])("with planted cookies, %s", (_which, start) => {
  it("does not go on with a sign-in that began elsewhere [D-BROWSER-3]", async () => {
    [mallory, ada] = [await browser().get(news.authorizeUrl()), await start()];
    const form = mallory.form("password");
    plant(mallory, ada);
    await ada.get(mallory.url);
    expect([ada.status, ada.title]).toEqual([400, "This sign-in belongs to another browser"]);
    await ada.submit(form, { username: ADA.username, password: ADA.password });
    expect([ada.status, ada.title, ada.location]).toEqual([
      400,
      "This sign-in belongs to another browser",
      undefined,
    ]);
    const answer = await send(mallory.url, {
      headers: { accept: "application/json", cookie: ada.jar.header(mallory.url) },
    });
    expect(answer.status).toBe(410);
    // It still waits where it began.
    await signIn(mallory, BOB);
    expect(mallory.location?.href).toContain(RESUME);
  });

  it("does not finish a sign-in that began elsewhere [D-BROWSER-3]", async () => {
    [mallory, ada] = [await browser().get(news.authorizeUrl()), await start()];
    const wasSignedIn = await isSignedIn(ada);
    await signIn(mallory, BOB);
    plant(mallory, ada);
    await ada.get(mallory.location ?? "");
    expect([ada.status, ada.title, ada.location]).toEqual([
      400,
      "This sign-in belongs to another browser",
      undefined,
    ]);
    expect(await isSignedIn(ada)).toBe(wasSignedIn);
    await mallory.follow();
    expect(mallory.location?.searchParams.has("code")).toBe(true);
  });

  it("finishes its own sign-in in spite of another one [D-BROWSER-3]", async () => {
    [mallory, ada] = [await browser().get(news.authorizeUrl()), await start()];
    await signIn(mallory, BOB);
    // The cookie of Mallory's sign-in, on the path of another one of Ada's.
    await ada.get(news.authorizeUrl({ prompt: "login" }));
    await signIn(ada, ADA);
    const own = ada.location ?? new URL(RESUME);
    const planted = mallory.jar
      .all()
      .filter(({ path }) => path.startsWith("/oauth2/authorize/"))
      .map(({ name, value }) => `${name}=${value}; Domain=example.org; Path=${own.pathname}; Secure`);
    expect(planted).toHaveLength(2);
    ada.jar.take(SIBLING, planted);
    await ada.get(own);
    await ada.get(`${BASE}/account`);
    expect([ada.title, ada.html.includes(ADA.email), ada.html.includes(BOB.email)]).toEqual([
      "Your account",
      true,
      false,
    ]);
  });

  it("has not opened a link that was opened elsewhere [D-BROWSER-3]", async () => {
    [mallory, ada] = [await browser().get(news.authorizeUrl()), await start()];
    await mallory.get(`${mallory.url.href}/forgot-password`);
    await mallory.submit(mallory.form("username"), { username: BOB.email });
    const link = linkIn(await service.mailTo(BOB.email));
    await mallory.get(link);
    expect([mallory.status, mallory.hasForm("code"), mallory.hasForm("password")]).toEqual([
      200,
      false,
      true,
    ]);
    plant(mallory, ada);
    await ada.get(`${BASE}/confirm`);
    expect([ada.status, ada.hasForm("password")]).toEqual([400, false]);
    // A sign-in of her own asks for the code.
    await ada.get(news.authorizeUrl({ prompt: "login" }));
    await ada.get(`${ada.url.href}/new-password`);
    expect(ada.html).not.toContain('autocomplete="new-password"');
    await mallory.submit(mallory.form("password"), { password: "a new password of Bob" });
    expect([mallory.status, mallory.hasForm("username")]).toEqual([200, true]);
    await service.service.accounts.setPassword(service.bob.sub, BOB.password);
  });

  it("does not accept a return path from elsewhere [D-BROWSER-3]", async () => {
    [mallory, ada] = [await browser().get(`${BASE}/account/profile`), await start()];
    const state = mallory.visits.find(({ url }) => url.pathname === "/oauth2/authorize")?.url.searchParams;
    const callback = `${BASE}/account/callback?${new URLSearchParams({ code: "x", state: state?.get("state") ?? "" })}`;
    plant(mallory, ada);
    expect((await ada.getOnly(callback)).headers.get("location")).toBe(`${BASE}/account/callback`);
    expect((await mallory.getOnly(callback)).headers.get("location")).toBe(`${BASE}/account/profile`);
  });
});

it("a browser has one cookie, which no sibling host can set or replace [D-BROWSER-3]", async () => {
  const visitor = await browser().get(news.authorizeUrl());
  const own = (): readonly object[] => visitor.jar.all().filter(({ name }) => name.includes("sis_browser_"));
  const [before] = own();
  expect(own()).toEqual([
    expect.objectContaining({
      name: expect.stringMatching(/^__Host-sis_browser_[0-9a-f]{8}$/),
      value: expect.stringMatching(/^[\w-]{43}$/),
      hostOnly: true,
      path: "/",
      secure: true,
      httpOnly: true,
      sameSite: "lax",
    }),
  ]);
  plant(visitor, visitor);
  await signIn(visitor, ADA);
  await visitor.follow();
  await visitor.get(`${BASE}/account/deliveries`);
  await visitor.get(`${BASE}/confirm?token=${"a".repeat(43)}`);
  expect(own()).toEqual([expect.objectContaining({ name: (before as { name: string }).name })]);
  expect(own()).toEqual([expect.objectContaining({ value: (before as { value: string }).value })]);
});
