/** Rate limits do not reveal which names exist or belong together. */
import { describe, expect, it } from "@jest/globals";
import type { Clock } from "../../core/clock.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import type { TestAnswer, TestClient, TestVisitor } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import {
  ADA,
  NEWS,
  onLocalhost,
  type RunningOptions,
  type RunningService,
  SHOP,
  startService,
} from "../flows/running-service.ts";

let running: RunningService;
let news: TestClient;
let shop: TestClient;

async function start(
  config: Omit<SignInServiceConfig, "deployments"> = {},
  more: Pick<RunningOptions, "deployments"> = {},
): Promise<void> {
  running = await startService({ ...more, config: { proxy: true, rateLimits: {}, ...config } });
  news = clientAt(running, "oauth2", NEWS);
  shop = clientAt(running, "oauth2", SHOP);
  await running.service.clients.update("shop", { password_grant: true, error_status: "documented" });
}

const times = <T>(count: number, value: T): T[] => Array<T>(count).fill(value);
const isLimited = ({ headers }: TestAnswer): boolean => headers.has("retry-after");
const wrong = (username: string): TestVisitor => ({ username, password: "this is not the password" });

/** A browser in front of the login form. */
const from = (address: string): Promise<Browser> =>
  news.browser({ headers: { "x-forwarded-for": address } }).get(news.authorizeUrl());

/** Submits the form. @returns the status. The response has the next form. */
async function submit(browser: Browser, { username, password }: TestVisitor): Promise<number> {
  return (await browser.submit(browser.form("password"), { username, password })).visits[0]!.status;
}

async function submitWrong(browser: Browser, count: number, username: string): Promise<number[]> {
  const statuses: number[] = [];
  for (let number = 0; number < count; number += 1) statuses.push(await submit(browser, wrong(username)));
  return statuses;
}

/** Ways to write the name `ada`. */
const SPELLINGS = [" ada", "ada\u3000", "ADA\t", "\ufeffＡＤＡ\u00a0", `${" ".repeat(300)}ada`];

const points = (count: number): { points: number; seconds: number } => ({ points: count, seconds: 900 });

/** A fixed clock, so that Retry-After is equal. */
function frozen(): Clock {
  const now = Date.now();
  return { virtual: true, now: () => now };
}

const withoutDate = (headers: Headers): [string, string][] =>
  [...headers].filter(([name]) => name !== "date" && name !== "x-request-id");

/** The page and its headers, without variable parts and the name. */
function visible(browser: Browser, username: string): unknown {
  const text = browser.html
    .replaceAll(`value="${username}"`, 'value="NAME"')
    .replaceAll(/name="(?:csrf|again)" value="[^"]*"/g, "")
    .replaceAll(/interaction\/[\w-]+/g, "interaction");
  return [text, withoutDate(browser.headers).filter(([name]) => name !== "content-length")];
}

/** All responses to a browser: four from one address of a network, then two from another one. */
async function formResponses(username: string, network: string): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const address of [...times(4, `${network}.1`), ...times(2, `${network}.2`)]) {
    const browser = await from(address);
    answers.push(await submit(browser, wrong(username)), visible(browser, username));
  }
  return answers;
}

/** All responses to clients: four to one, then two to another. */
async function grantResponses(username: string) {
  const answers: TestAnswer[] = [];
  for (const client of [...times(4, news), ...times(2, shop)]) {
    answers.push(await client.password(wrong(username)));
  }
  return answers.map(({ status, body, headers }) => ({ status, body, headers: withoutDate(headers) }));
}

describe("the sign-in form", () => {
  it("responds to unknown and existing names in the same way [D-LIMIT-1]", async () => {
    const signIn = { accountAndAddress: points(3), account: points(4) };
    await start({ clock: frozen(), rateLimits: { signIn } });
    const known = await formResponses("ada", "192.0.2");
    expect(known.filter((each) => typeof each === "number")).toEqual([400, 400, 400, 429, 400, 429]);
    expect(await formResponses("eve", "198.51.100")).toEqual(known);
    expect(await formResponses("ada@example.com", "203.0.113")).toEqual(
      await formResponses("eve@example.com", "233.252.0"),
    );
  });

  it("does not reveal whether two names belong to one account: each has its own points [D-LIMIT-1]", async () => {
    await start({ rateLimits: { signIn: { account: points(12) } } });
    const browser = await from("192.0.2.1");
    expect(await submitWrong(browser, 11, "ada")).toEqual([...times(10, 400), 429]);
    expect(await submitWrong(browser, 9, "ada@example.com")).toEqual(times(9, 400));
    expect(await submit(await from("192.0.2.1"), { ...ADA, username: "ada@example.com" })).toBe(303);
    expect(await submitWrong(await from("192.0.2.2"), 3, "ada")).toEqual([400, 400, 429]);
    expect(await submitWrong(await from("192.0.2.2"), 3, "ada@example.com")).toEqual(times(3, 400));
    // The account's identifier is not a name either.
    expect(await submitWrong(await from("192.0.2.1"), 1, running.ada.sub)).toEqual([400]);
  });

  it.each(SPELLINGS)("signs in a name that is written as %j [D-NAME-1]", async (username) => {
    await start({ rateLimits: { signIn: { account: points(3) } } });
    const browser = await from("192.0.2.1");
    expect(await submit(browser, { ...ADA, username })).toBe(303);
    // The device cookie counts for every way to write the name.
    expect(await submitWrong(await from("198.51.100.1"), 4, "ada")).toEqual([...times(3, 400), 429]);
    await running.service.accounts.endSessions(running.ada.sub);
    await browser.get(news.authorizeUrl());
    expect(await submit(browser, { ...ADA, username })).toBe(303);
  });

  it("takes the points of one name, however it is written [D-NAME-1]", async () => {
    await start({ rateLimits: { signIn: { accountAndAddress: points(3), account: points(100) } } });
    for (const name of ["ada", "eve"]) {
      const address = name === "ada" ? "192.0.2.1" : "192.0.2.2";
      const statuses: number[] = [];
      for (const spelling of SPELLINGS)
        statuses.push(await submit(await from(address), wrong(spelling.replace(/ada|ADA|ＡＤＡ/, name))));
      expect(statuses).toEqual([400, 400, 400, ...times(SPELLINGS.length - 3, 429)]);
    }
  });

  it("shares the points of one address among all names that are too long [D-LIMIT-2]", async () => {
    await start();
    const browser = await from("192.0.2.1");
    for (const name of ["x".repeat(255), "x".repeat(50_000), "\ufdfa".repeat(15), "\ufdfa".repeat(5_000)]) {
      expect(await submitWrong(browser, 2, name)).toEqual([400, 400]);
    }
    expect(await submitWrong(browser, 3, "y".repeat(1_000))).toEqual([400, 400, 429]);
    expect(await submitWrong(browser, 1, "y".repeat(254))).toEqual([400]);
    expect(await submitWrong(await from("192.0.2.2"), 1, "y".repeat(1_000))).toEqual([400]);
    expect(await submit(await from("192.0.2.1"), ADA)).toBe(303);
  });
});

describe("the password grant", () => {
  it("responds to unknown and existing names in the same way [D-LIMIT-1]", async () => {
    const passwordGrant = { accountAndClient: points(3), account: points(4) };
    await start({ clock: frozen(), rateLimits: { passwordGrant } });
    const known = await grantResponses("ada");
    const limited = known.map(({ headers }) => headers.some(([name]) => name === "retry-after"));
    expect(limited).toEqual([false, false, false, true, false, true]);
    expect(await grantResponses("eve")).toEqual(known);
    // One name has used up its points; the other name of the same account still has all of them.
    expect(await grantResponses("ada@example.com")).toEqual(known);
    expect(await grantResponses("eve@example.com")).toEqual(known);
  });

  it("knows a name however it is written, and counts it as one [D-NAME-1]", async () => {
    await start({ rateLimits: { passwordGrant: { accountAndClient: points(3), account: points(100) } } });
    for (const username of SPELLINGS) {
      const answer = await news.password({ ...ADA, username });
      expect([username, answer.status]).toEqual([username, 200]);
    }
    const limited: boolean[] = [];
    for (const username of SPELLINGS) limited.push(isLimited(await news.password(wrong(username))));
    expect(limited).toEqual([...times(3, false), ...times(SPELLINGS.length - 3, true)]);
  });

  it("shares the points of one client among all names that are too long [D-LIMIT-2]", async () => {
    await start();
    for (const [index, name] of ["x".repeat(255), "x".repeat(4_000), "\ufdfa".repeat(15)].entries()) {
      const answers = await Promise.all(times(4, name).map((username) => news.password(wrong(username))));
      expect(answers.map(({ status, body }) => [status, body["error"]])).toEqual(
        times(4, [400, "invalid_grant"]),
      );
      expect(answers.filter(isLimited)).toHaveLength(index < 2 ? 0 : 2);
    }
    expect(isLimited(await news.password(wrong("y".repeat(255))))).toBe(true);
    expect(isLimited(await shop.password(wrong("y".repeat(255))))).toBe(false);
    expect(isLimited(await news.password(wrong("y".repeat(254))))).toBe(false);
    expect((await news.password(ADA)).status).toBe(200);
  });
});

describe("the words for a name with many wrong passwords", () => {
  const mail = { send: async () => undefined };
  it.each<[string, Parameters<typeof start>, string]>([
    [
      "passkeys and mail",
      [{ mail }, { deployments: onLocalhost }],
      " A passkey works now, and so does a new password by mail.",
    ],
    ["passkeys", [{}, { deployments: onLocalhost }], " A passkey works now."],
    // Browsers make no passkeys for an IP address.
    ["mail", [{ mail }], " A new password by mail works now."],
    ["neither", [], ""],
  ])("name the ways that still work: %s [D-GUESS-6]", async (_ways, [config, more], ways) => {
    await start({ ...config, rateLimits: { signIn: { account: points(1) } } }, more);
    const browser = await from("192.0.2.1");
    expect(await submitWrong(browser, 2, ADA.username)).toEqual([400, 429]);
    const [, text = ""] = /role="alert"[^>]*>\n<p>([^<]*)</.exec(browser.html) ?? [];
    const said = "Many wrong passwords were entered for this name. Try again in 15 minutes.";
    expect(text).toBe(`${said}${ways}`);
  });
});
