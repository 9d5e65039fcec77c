import { afterEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import {
  basic,
  send,
  type TestAnswer,
  type TestClient,
  type TestVisitor,
} from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  type RunningService,
  SHOP,
  startService,
  UNLIMITED,
} from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";

/** At once. */
const GUESSES = rounds(40, 100);

const WINDOW = 900;

let running: RunningService;
let news: TestClient;
/** Milliseconds that are added to the service's clock. */
let offset = 0;

async function start(config: Omit<SignInServiceConfig, "deployments"> = {}): Promise<void> {
  offset = 0;
  running = await startService({
    logsErrors: true,
    config: { clock: { virtual: true, now: () => Date.now() + offset }, rateLimits: {}, ...config },
  });
  news = clientAt(running, "oauth2", NEWS);
}

afterEach(() => {
  expect(
    running.log.filter(
      (line) =>
        /"level":[56]0/.test(line) &&
        // Sent away by the queue, or by the limit on the time of a request.
        !/"fault":\{"kind":"StorageUnavailable"(?:,"reason":"timeout")?\}/.test(line),
    ),
  ).toEqual([]);
});

/** A browser in front of the login form. */
async function atLogin(
  headers: Record<string, string> = {},
  browser = news.browser({ headers }),
): Promise<Browser> {
  return browser.get(news.authorizeUrl());
}

const from = (address: string): Promise<Browser> => atLogin({ "x-forwarded-for": address });
const wrong = (username = "ada"): TestVisitor => ({ username, password: "this is not the password" });

/** Submits the form. @returns the status. The response has the next form. */
async function submit(browser: Browser, { username, password }: TestVisitor): Promise<number> {
  return (await browser.submit(browser.form("password"), { username, password })).visits[0]!.status;
}

async function submitWrong(browser: Browser, times: number, username = "ada"): Promise<number[]> {
  const statuses: number[] = [];
  for (let count = 0; count < times; count += 1) statuses.push(await submit(browser, wrong(username)));
  return statuses;
}

const times = <T>(count: number, value: T): T[] => Array<T>(count).fill(value);
const isLimited = ({ headers }: TestAnswer): boolean => headers.has("retry-after");

describe("the sign-in form", () => {
  it("allows ten wrong passwords for one account from one address, then responds with 429 until the window ends [D-TOKEN-21]", async () => {
    await start();
    const browser = await atLogin();
    // All spellings are one name.
    for (const name of ["ada", "ADA", "Ada", "aDA", "\uff41da"]) {
      expect(await submitWrong(browser, 2, name)).toEqual([400, 400]);
    }
    expect(await submit(browser, ADA)).toBe(429);
    expect(browser.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const wait = Number(browser.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(WINDOW);
    expect(await submit(await atLogin(), BOB)).toBe(303);
    offset += wait * 1000;
    expect(await submit(browser, ADA)).toBe(303);
  });

  it("counts parallel guesses: exactly ten are checked", async () => {
    await start();
    const browser = await atLogin();
    const { action, fields } = browser.form("password");
    const csrf = fields.find(([name]) => name === "csrf")?.[1] ?? "";
    const guess = (password: string): Promise<TestAnswer> =>
      send(action.href, {
        method: "POST",
        headers: { accept: "text/html", cookie: browser.jar.header(action) },
        body: new URLSearchParams({ csrf, username: "ada", password }),
      });
    const guesses = Array.from({ length: GUESSES }, (_, index) => guess(`guess number ${index}`));
    const answers = await Promise.all(guesses);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(10);
    expect(answers.filter((answer) => answer.status === 429 && isLimited(answer))).toHaveLength(GUESSES - 10);
  });

  it("returns the point of a success", async () => {
    await start();
    expect(await submitWrong(await atLogin(), 9)).toEqual(times(9, 400));
    for (let count = 0; count < 3; count += 1) expect(await submit(await atLogin(), ADA)).toBe(303);
    expect(await submitWrong(await atLogin(), 2)).toEqual([400, 429]);
  });

  it("counts one account from many addresses, many accounts from one address, and a /64 as one address [D-TOKEN-22]", async () => {
    await start({
      proxy: true,
      rateLimits: {
        signIn: {
          accountAndAddress: { points: 2, seconds: WINDOW },
          account: { points: 5, seconds: WINDOW },
          address: { points: 6, seconds: WINDOW },
        },
      },
    });
    expect(await submitWrong(await from("2001:db8:1:2::1"), 1)).toEqual([400]);
    expect(await submitWrong(await from("2001:DB8:1:2:ffff::9"), 2)).toEqual([400, 429]);
    expect(await submitWrong(await from("2001:db8:1:3::1"), 1)).toEqual([400]);
    // The caller can forge the addresses on the left.
    expect(await submitWrong(await from("198.51.100.1, 2001:db8:1:3::1"), 2)).toEqual([400, 429]);
    // A refused attempt takes no point of the account: it has one left.
    expect(await submitWrong(await from("192.0.2.1"), 2)).toEqual([400, 429]);
    const many = await from("203.0.113.1");
    for (const name of "abcdef") expect(await submitWrong(many, 1, `user-${name}`)).toEqual([400]);
    expect(await submit(many, BOB)).toBe(429);
    expect(await submit(await from("203.0.113.2"), BOB)).toBe(303);
  });
});

describe("a flood of guesses from one network", () => {
  it("is sent away with 503, for known and unknown names, while people elsewhere sign in [D-HASH-1]", async () => {
    // The hashes are flooded, not the storage.
    const passwords = { passes: 8, parallel: 1 };
    await start({ storage: "sqlite::memory:", proxy: true, rateLimits: UNLIMITED, passwords });
    const browser = await from("2001:db8:1::1");
    const neighbor = await from("198.51.100.1");
    const { action, fields } = browser.form("password");
    const csrf = fields.find(([name]) => name === "csrf")?.[1] ?? "";
    const guess = (username: string, index: number): Promise<TestAnswer> =>
      send(action.href, {
        method: "POST",
        headers: {
          accept: "text/html",
          cookie: browser.jar.header(action),
          "x-forwarded-for": `2001:db8:1:${index}::1`,
        },
        body: new URLSearchParams({ csrf, username, password: "this is not the password" }),
      });
    const answers: { readonly known: number; readonly answer: TestAnswer }[] = [];
    const over = new AbortController();
    let left = 450;
    const flood = Array.from({ length: left }, async (_, index) => {
      const known = index % 2;
      // A guess that was checked is followed by another: the flood lasts as long as the sign-in elsewhere, on any machine.
      let answer: TestAnswer;
      do {
        answer = await guess(known === 0 ? "ada" : "nobody", index);
        answers.push({ known, answer });
      } while (answer.status === 400 && !over.signal.aborted);
      left -= 1;
    });
    // The first answers are those that found no place.
    await Promise.race(flood);
    expect(await submit(neighbor, BOB)).toBe(303);
    expect(left).toBeGreaterThan(0);
    over.abort();
    await Promise.all(flood);
    for (const known of [0, 1]) {
      const own = answers.filter((each) => each.known === known).map(({ answer }) => answer);
      const refused = own.filter(({ status }) => status === 503);
      expect(refused.every(isLimited)).toBe(true);
      expect([refused.length > 50, own.some(({ status }) => status === 400)]).toEqual([true, true]);
    }
    expect(new Set(answers.map(({ answer }) => answer.status))).toEqual(new Set([400, 503]));
  });
});

describe("the password grant", () => {
  it("allows ten wrong passwords for one account at one client, also in parallel, then sends Retry-After [D-TOKEN-21]", async () => {
    await start();
    const guesses = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        news.password({ ...wrong(), password: `guess number ${index}` }),
      ),
    );
    expect(guesses.map(({ status, body }) => [status, body["error"]])).toEqual(
      times(60, [400, "invalid_grant"]),
    );
    expect(guesses.filter(isLimited)).toHaveLength(50);
    const right = await news.password(ADA);
    expect([right.status, right.body["error"], isLimited(right)]).toEqual([400, "invalid_grant", true]);
    expect((await news.password(BOB)).status).toBe(200);
    // The sign-in form has points of its own.
    expect(await submit(await atLogin(), ADA)).toBe(303);
    offset += Number(right.headers.get("retry-after")) * 1000;
    expect((await news.password(ADA)).status).toBe(200);
  });

  it("returns the point of a success [D-TOKEN-21]", async () => {
    await start({ rateLimits: { passwordGrant: { accountAndClient: { points: 3, seconds: WINDOW } } } });
    for (let count = 0; count < 5; count += 1) expect((await news.password(ADA)).status).toBe(200);
    for (const limited of [false, false, false, true])
      expect(isLimited(await news.password(wrong()))).toBe(limited);
  });
});

const secret = (client_secret: string, headers: Record<string, string> = {}): Promise<TestAnswer> =>
  news.token(
    { grant_type: "refresh_token", refresh_token: "unknown" },
    { authorization: basic({ client_id: "news", client_secret }), ...headers },
  );
const errors = (answers: TestAnswer[]): unknown[] =>
  answers.map(({ status, body }) => `${status} ${String(body["error"])}`);

describe("client secrets", () => {
  it("may be wrong twenty times for one client from one address [D-TOKEN-21]", async () => {
    await start({ proxy: true });
    const guesses = await Promise.all(
      Array.from({ length: 50 }, (_, index) => secret(`a wrong secret ${index}`)),
    );
    expect(errors(guesses)).toEqual(times(50, "400 invalid_client"));
    expect(guesses.filter(isLimited)).toHaveLength(30);
    const right = await secret(NEWS.client_secret ?? "");
    expect([...errors([right]), isLimited(right)]).toEqual(["400 invalid_client", true]);
    const elsewhere = await secret(NEWS.client_secret ?? "", { "x-forwarded-for": "192.0.2.1" });
    expect(errors([elsewhere])).toEqual(["400 invalid_grant"]);
    const shop = clientAt(running, "oauth2", SHOP);
    expect((await shop.refresh("unknown")).body["error"]).toBe("invalid_grant");
    offset += Number(right.headers.get("retry-after")) * 1000;
    expect(errors([await secret(NEWS.client_secret ?? "")])).toEqual(["400 invalid_grant"]);
  });

  it("that are right never reach the limit, however many requests are concurrent", async () => {
    await start();
    expect(
      errors(await Promise.all(Array.from({ length: 19 }, () => secret("a wrong secret here")))),
    ).toEqual(times(19, "400 invalid_client"));
    const right = await Promise.all(Array.from({ length: 50 }, () => secret(NEWS.client_secret ?? "")));
    expect(errors(right)).toEqual(times(50, "400 invalid_grant"));
    expect(right.filter(isLimited)).toEqual([]);
  });
});

describe("new sign-ins", () => {
  it("from one address are limited: 429 as a page or JSON, without a new interaction [D-TOKEN-21]", async () => {
    await start({ proxy: true, rateLimits: { interactions: { points: 4, seconds: WINDOW } } });
    const known = news.browser({ headers: { "x-forwarded-for": "192.0.2.9" } });
    await news.code({ ...ADA, browser: known });
    const statuses: number[] = [];
    for (let count = 0; count < 5; count += 1) statuses.push((await from("192.0.2.9")).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    const headers = { "x-forwarded-for": "192.0.2.9" };
    const page = await send(news.authorizeUrl(), { headers: { ...headers, accept: "text/html" } });
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const json = await send(news.authorizeUrl(), { headers });
    expect([json.status, json.body["error"], isLimited(json)]).toEqual([
      429,
      "temporarily_unavailable",
      true,
    ]);
    expect([json.headers.getSetCookie(), json.headers.get("location")]).toEqual([[], null]);
    // Signed-in users and other addresses are not affected.
    expect(await news.code({ ...ADA, browser: known })).toMatch(/^[\w-]{43}$/);
    expect((await from("192.0.2.10")).status).toBe(200);
    offset += Number(json.headers.get("retry-after")) * 1000;
    expect((await from("192.0.2.9")).status).toBe(200);
  });
});

describe("codes without a page", () => {
  it("are limited for one account: then the client gets temporarily_unavailable, and nothing is stored [D-OWN-1]", async () => {
    await start({ rateLimits: { authorizations: { points: 3, seconds: WINDOW } } });
    const openid = clientAt(running, "openid", NEWS);
    const browser = news.browser();
    // The sign-in is a page, so its code takes no point.
    await news.code({ ...ADA, browser });
    const answers: (string | null | undefined)[] = [];
    for (let count = 0; count < 3; count += 1) answers.push(await openid.silently(browser));
    await running.service.accounts.unassign(running.ada.sub, [NEWS.service]);
    await browser.get(openid.authorizeUrl({ state: "a state" }));
    const refused = Object.fromEntries(browser.location?.searchParams ?? []);
    const { status, headers } = browser.visits.at(-1)!;
    expect([answers, status]).toEqual([["code", "code", "code"], 302]);
    const cookies = headers.getSetCookie().map((line) => line.split("=")[0]);
    expect(cookies).toEqual([...new Set(cookies)]);
    expect(refused).toEqual({
      error: "temporarily_unavailable",
      error_description: "too many authorizations of this account",
      state: "a state",
      iss: running.openid,
    });
    expect((await running.service.accounts.find(running.ada.sub))?.services).toEqual({});
    await browser.get(openid.authorizeUrl({ response_mode: "form_post" }));
    expect(browser.form("error").fields).toContainEqual(["error", "temporarily_unavailable"]);
    // Another browser of the account has the same limit; other people, and those who see a page, are not affected.
    const another = news.browser();
    await news.code({ ...ADA, browser: another });
    expect(await news.silently(another)).toBe("temporarily_unavailable");
    expect(await news.code({ ...ADA, browser }, { prompt: "login" })).toMatch(/^[\w-]{43}$/);
    const bob = news.browser();
    await news.code({ ...BOB, browser: bob });
    expect(await news.silently(bob)).toBe("code");
    const { items: records } = await running.service.audit.list({
      action: "grant.created",
      account: running.ada.sub,
      limit: 100,
    });
    expect(records.filter(({ outcome }) => outcome === "failure")).toMatchObject([
      { reason: "limited", detail: { limit: "authorizations" } },
    ]);
    offset += WINDOW * 1000;
    expect(await news.silently(browser)).toBe("code");
  });
});
