/** What tests can do with `sign-in-service/testing` beyond a sign-in: see `test-sign-in.test.ts`. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import {
  createTestSignIn,
  type TestClient,
  type TestPerson,
  type TestSignIn,
  type TestTokens,
} from "../../testing/index.ts";
import { closing } from "../closing.ts";

let test: TestSignIn;
let news: TestClient;
let ada: TestPerson;

beforeEach(async () => {
  test = closing(await createTestSignIn());
  news = await test.addClient();
  ada = await test.addPerson({ username: "ada", email: "ada@example.com" });
});

async function works({ access_token }: TestTokens): Promise<boolean> {
  const { status } = await news.userinfo(access_token);
  return status === 200;
}

describe("signing in with one call", () => {
  it("signs in a person, an account, or a name, which is added if nobody has it", async () => {
    const eve = await test.signInAs("eve", news);
    expect(await works(eve.tokens)).toBe(true);
    expect(eve.account.username).toBe("eve");
    // The browser keeps the cookies.
    expect(await news.authorize(eve)).toMatchObject({ loginShown: false });
    expect((await test.signInAs("EVE", news)).account.sub).toBe(eve.account.sub);
    expect((await test.signInAs("fay@example.com", news)).account.email).toBe("fay@example.com");
    expect((await test.signInAs(ada, news)).browser).toBe(ada.browser);
    const { tokens } = await test.signInAs(ada.account, news.at("oauth2"));
    expect(tokens).not.toHaveProperty("id_token");
  });

  it("refuses an account whose password it doesn't know", async () => {
    const { accounts } = test.service;
    const gil = await accounts.create({ email: "gil@example.com", password: "the password of gil" });
    for (const account of [gil, gil.email])
      await expect(test.signInAs(account, news)).rejects.toThrow("account: its password is not known");
  });
});

describe("a receiver of a test", () => {
  const FAULTS = [
    ["a status", { status: 500, times: 1 }, [500, 200]],
    ["no status", { times: 2 }, [503, 503, 200]],
    ["a closed connection", { close: true, times: 1 }, [null, 200]],
    ["a delay", { delay: 0.2, times: 1 }, [200]],
    ["a delay beyond the time-out", { delay: 2, times: 1 }, [200, 200]],
  ] as const;

  it.each(FAULTS)("fails with %s, as often as it should", async (_what, fault, statuses) => {
    const own = closing(
      await createTestSignIn({
        notifications: { retryDelays: [60, 60], timeouts: { connect: 1, total: 1 } },
      }),
    );
    const receiver = await own.addReceiver("shop");
    const bob = await own.addPerson({ services: { shop: 7 } });
    receiver.fail(fault);
    await own.service.accounts.delete(bob.account.sub);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await own.deliver();
      own.clock.advance(60);
    }
    expect(receiver.received.map(({ status }) => status)).toEqual(statuses);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);
    expect(await own.notifications()).toMatchObject([{ receiver: "service:shop", state: "delivered" }]);
  });

  it("fails until it recovers, and takes no wrong credentials", async () => {
    const receiver = await test.addReceiver("1", ["DELETE_ACCOUNT"]);
    const bob = await test.addPerson({ services: { "1": 7 } });
    receiver.fail();
    await test.service.accounts.update(bob.account.sub, { name: "Bob" });
    await test.service.accounts.delete(bob.account.sub);
    await test.deliver();
    await test.deliver();
    test.clock.advance(5);
    await test.deliver();
    receiver.recover();
    test.clock.advance(300);
    await test.deliver();
    expect(receiver.received.map(({ status }) => status)).toEqual([503, 503, 200]);
    expect(receiver.received.at(-1)?.body.data).toMatchObject({ services: { "1": 7 } });
    expect((await fetch(receiver.url, { method: "POST", body: "{}" })).status).toBe(401);
    for (const times of [0, -1, Number.NaN]) expect(() => receiver.fail({ times })).toThrow(TypeError);
  });

  it("leaves the name and the group of its service as they are", async () => {
    const { groups, services } = test.service.directory;
    await groups.put("media", { name: "Media" });
    await services.put("tv", { name: "Television", group: "media" });
    await test.addReceiver("tv");
    expect(await services.find("tv")).toMatchObject({ name: "Television", group: "media" });
  });
});

describe("faults of the storage", () => {
  it("make the next commits fail, and nothing of them is written", async () => {
    const { code } = await news.authorize(ada);
    test.storage.failCommits(2);
    expect((await news.exchange(code!)).status).toBe(503);
    await expect(test.service.accounts.update(ada.account.sub, { name: "Eve" })).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    expect((await test.service.accounts.find(ada.account.sub))?.name).not.toBe("Eve");
    expect((await news.exchange(code!)).status).toBe(200);
    for (const count of [-1, 0.5, Number.NaN])
      expect(() => test.storage.failCommits(count)).toThrow(TypeError);
  });

  it("make everything fail until they are mended", async () => {
    const { tokens } = await test.signInAs(ada, news);
    test.storage.unavailable();
    expect((await news.userinfo(tokens.access_token)).status).toBe(503);
    expect(await test.service.health()).toMatchObject({ ok: false, parts: { storage: { ok: false } } });
    test.storage.mend();
    expect(await works(tokens)).toBe(true);
    expect((await test.service.health()).ok).toBe(true);
  });

  it("make the storage slow", async () => {
    const { tokens } = await test.signInAs(ada, news);
    test.storage.slow(300);
    const startedAt = performance.now();
    expect(await works(tokens)).toBe(true);
    expect(performance.now() - startedAt).toBeGreaterThan(290);
    expect(() => test.storage.slow(Number.NaN)).toThrow(TypeError);
    test.storage.mend();
  });
});
