/** What a guess costs the storage: the same for a name that an account has and one that nobody has, allowed or limited. */
import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, BOB, NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { newStorage, withCalls } from "../servers/storage.ts";

let running: RunningService;
let news: TestClient;
/** The calls of the storage since this was last reset. */
let calls: string[];

/** The same store, whose calls are noted with the kinds of the records. */
function noted(store: RecordStore): RecordStore {
  return withCalls(store, {
    get(refs, options) {
      calls.push(`get ${refs.map(({ kind }) => kind).join()}`);
      return store.get(refs, options);
    },
    commit(change) {
      const written = [...(change.put ?? []), ...(change.remove ?? [])].map(({ kind }) => kind);
      calls.push(`commit ${written.join()}`);
      return store.commit(change);
    },
  });
}

async function start(rateLimits: SignInServiceConfig["rateLimits"] = UNLIMITED): Promise<void> {
  running = await startService({
    config: { rateLimits, ...(await newStorage()) },
    through: noted,
  });
  news = clientAt(running, "oauth2", NEWS);
}

beforeEach(() => {
  calls = [];
});

/** The calls about names, accounts and failures while `work` runs. The audit is written in the background, at any time. */
async function costOf(work: () => Promise<unknown>): Promise<string[]> {
  calls = [];
  await work();
  return calls.filter((call) => /sign-in-name|\baccount\b(?!-events)|failed-sign-ins/.test(call));
}

const wrong = (username: string) => ({ username, password: "not the password of anybody" });
const unknown = (): string => `nobody-${randomBytes(4).toString("hex")}`;

async function guess(browser: Browser, username: string, status: number): Promise<string[]> {
  await browser.get(news.authorizeUrl());
  const cost = await costOf(() => signIn(browser, wrong(username)));
  expect(browser.visits[0]?.status).toBe(status);
  return cost;
}

describe("a wrong password at the form", () => {
  it("costs the same reads and writes for a known and an unknown name, without and with a device cookie [D-LIMIT-5]", async () => {
    await start();
    const withCookie = news.browser();
    await news.authorize({ ...BOB, browser: withCookie });
    withCookie.jar.clear(withCookie.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    for (const browser of [news.browser(), withCookie]) {
      const cost = await guess(browser, unknown(), 400);
      expect(cost.filter((call) => call.startsWith("get"))).toHaveLength(3);
      for (const name of ["ada", "ada@example.com", unknown()])
        await expect(guess(browser, name, 400)).resolves.toEqual(cost);
    }
  });

  it("costs one read when it is limited, of the failures: the name is not looked up [D-LIMIT-5]", async () => {
    const few = { points: 2, seconds: 900 };
    await start({ ...UNLIMITED, signIn: { accountAndAddress: few, account: few, address: few } });
    for (const name of ["ada", unknown()]) {
      const browser = news.browser();
      while (
        (await browser.get(news.authorizeUrl()), await signIn(browser, wrong(name))).visits[0]?.status === 400
      );
      await expect(guess(browser, name, 429)).resolves.toEqual(["get failed-sign-ins"]);
    }
  });
});

describe("a wrong password of the password grant", () => {
  it("costs the same reads and writes for a known and an unknown name", async () => {
    await start();
    const cost = await costOf(() => news.password(wrong(unknown())));
    for (const name of ["ada", "ada@example.com", unknown()])
      await expect(costOf(() => news.password(wrong(name)))).resolves.toEqual(cost);
  });

  it("costs one read when it is limited, of the failures", async () => {
    const few = { points: 2, seconds: 900 };
    await start({ ...UNLIMITED, passwordGrant: { accountAndClient: few, account: few, client: few } });
    for (const name of ["ada", unknown()]) {
      while (!(await news.password(wrong(name))).headers.has("retry-after"));
      await expect(costOf(() => news.password(wrong(name)))).resolves.toEqual(["get failed-sign-ins"]);
    }
  });
});

describe("limits of others", () => {
  const few = { points: 3, seconds: 900 };

  it("stop no browser that has signed in to the account before, not even those of its own address [D-LIMIT-4]", async () => {
    await start({ ...UNLIMITED, signIn: { ...UNLIMITED.signIn, address: few } });
    const known = news.browser();
    await news.authorize({ ...ADA, browser: known });
    known.jar.clear(known.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    const neighbour = news.browser();
    for (const status of [400, 400, 400, 429]) await guess(neighbour, unknown(), status);
    await known.get(news.authorizeUrl());
    await signIn(known, ADA);
    expect(known.location?.searchParams.has("code")).toBe(true);
    // For other names, the browser counts like any other at its address.
    known.jar.clear(known.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    await guess(known, "bob", 429);
  });

  it("stop no client with a secret that the service generated, and one with a chosen secret [D-LIMIT-6]", async () => {
    await start({ ...UNLIMITED, clientSecret: few });
    const made = await running.service.clients.register({
      client_id: "made",
      name: "Made",
      service: "1",
      redirect_uris: NEWS.redirect_uris,
      password_grant: true,
    });
    for (const client of [{ ...NEWS, ...made }, NEWS]) {
      const party = clientAt(running, "oauth2", client);
      const guesser = clientAt(running, "oauth2", {
        ...client,
        client_secret: "a guess of thirty-two characters",
      });
      for (let count = 0; count < 5; count += 1)
        expect((await guesser.password(ADA)).body["error"]).toBe("invalid_client");
      const { status, body } = await party.password(ADA);
      expect([status, body["error"]]).toEqual(client === NEWS ? [400, "invalid_client"] : [200, undefined]);
    }
    const { client_secret } = await running.service.clients.rotateSecret("made");
    const rotated = clientAt(running, "oauth2", { ...NEWS, ...made, client_secret });
    expect((await rotated.password(ADA)).status).toBe(200);
  });
});
