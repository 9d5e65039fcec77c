/** Trips to a provider from the account pages: what comes back belongs to one session of one account. */
import { createSecretKey, randomBytes } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import pino from "pino";
import { createAttemptLimits } from "../../accounts/limits/attempt-limits.ts";
import type { Configuration } from "../../config/configuration.ts";
import { readConfiguration } from "../../config/read.ts";
import { createEvents } from "../../core/events.ts";
import { createTrips, type Trips } from "../../interactions/trips.ts";
import type { ServiceContext } from "../../provider/exchange.ts";
import { createFindBrowser } from "../../provider/sessions/browser-cookie.ts";
import { createUnitsOfWork } from "../../provider/unit-of-work.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { CookieJar } from "../../testing/browser/cookie-jar.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { createTestProvider, type TestProvider } from "../../testing/test-provider.ts";
import { createUpstream } from "../../upstream/upstream.ts";
import { closing } from "../closing.ts";
import { SEALER } from "../provider/stage.ts";
import { account } from "../records/rules/stage.ts";

const BASE = "http://127.0.0.1:1";
const ADA = { sub: "ada", session: "s1", generation: 3 };
const IDENTITY = {
  provider: "corp",
  issuer: "https://corp.example",
  subject: "1",
  vouched: false,
  mfa: false,
};

let clock: TestClock;
let configuration: Configuration;
let storage: Storage;
let provider: TestProvider;
let trips: Trips;

beforeEach(async () => {
  clock = new TestClock();
  provider = closing(await createTestProvider());
  provider.signIn({ sub: "1" });
  configuration = readConfiguration({
    deployments: { openid: { url: BASE } },
    storage: "sqlite::memory:",
    clock,
    providers: { corp: provider.settings },
  });
  storage = closing(await openStorage(configuration));
  const logger = pino({ enabled: false });
  const events = createEvents(() => undefined);
  trips = createTrips({
    configuration,
    storage,
    clock,
    sealer: SEALER,
    units: createUnitsOfWork(storage, SEALER, clock),
    limits: createAttemptLimits(
      configuration.rateLimits,
      storage.rateLimits,
      createSecretKey(randomBytes(32)),
    ),
    upstream: closing(createUpstream({ configuration, clock, events, logger })),
  });
  await storage.records.transact((tx) => tx.create(ACCOUNT.record(account(1, { sub: ADA.sub }))));
});

/** A request of a browser. */
function request(jar: CookieJar): ServiceContext {
  const url = new URL(`${BASE}/providers/corp/callback`);
  const req = { headers: { cookie: jar.header(url) } };
  const deployment = configuration.deployments.openid;
  const exchange = {
    deployment,
    address: "192.0.2.1",
    browser: createFindBrowser(configuration)({ req }),
    outside: <T>(work: () => Promise<T>): Promise<T> => work(),
  };
  const append = (_field: string, value: string): void => jar.take(url, [value]);
  return { req, exchange, append } as unknown as ServiceContext;
}

/** Leaves for the provider, and comes back. */
async function comeBack(jar: CookieJar, owner = ADA, subject = IDENTITY.subject): Promise<void> {
  const departure = { provider: "corp", owner: { kind: "account", ...owner }, locale: "en" } as const;
  const begun = await trips.begin(request(jar), departure);
  if (begun.kind !== "begun") throw new Error("too many trips");
  const state = new URL(begun.location).searchParams.get("state") ?? "";
  const ended = await trips.end(request(jar), "corp", state);
  if (typeof ended === "string") throw new Error(ended);
  expect(ended.owner).toEqual({ kind: "account", ...owner });
  await trips.keep(request(jar), ended, { identity: { ...IDENTITY, subject } });
}

describe("who has come back to the account pages", () => {
  it("is kept for the session that has left, once, for ten minutes [D-PROV-96]", async () => {
    const jar = new CookieJar(() => clock.now());
    await comeBack(jar);
    expect(await trips.returned(request(jar), ADA)).toMatchObject({ provider: "corp", identity: IDENTITY });
    await comeBack(jar, ADA, "2");
    expect(await trips.returned(request(jar), ADA)).toMatchObject({ identity: { subject: "2" } });
    await trips.forget(ADA.session);
    expect(await trips.returned(request(jar), ADA)).toBeUndefined();
    await comeBack(jar);
    clock.advance(600);
    expect(await trips.returned(request(jar), ADA)).toBeUndefined();
  });

  it("is nobody for another session, account, generation or browser [D-PROV-96]", async () => {
    const jar = new CookieJar(() => clock.now());
    await comeBack(jar);
    for (const other of [{ session: "s2" }, { sub: "bob" }, { generation: 4 }])
      expect([other, await trips.returned(request(jar), { ...ADA, ...other })]).toEqual([other, undefined]);
    expect(await trips.returned(request(new CookieJar()), ADA)).toBeUndefined();
  });

  it("is sealed, and goes with the account [D-PROV-96]", async () => {
    const jar = new CookieJar(() => clock.now());
    await comeBack(jar);
    const { records } = await storage.records.store.scan("trip", undefined, 10);
    expect(JSON.stringify(records)).not.toContain(IDENTITY.issuer);
    await storage.records.transact((tx) => tx.remove(ACCOUNT.ref(ADA.sub)));
    expect((await storage.records.store.scan("trip", undefined, 10)).records).toEqual([]);
  });

  it("is limited to thirty trips of an account in a day [D-PROV-96]", async () => {
    const jar = new CookieJar(() => clock.now());
    for (let trip = 0; trip < 30; trip += 1) await comeBack(jar);
    const departure = { provider: "corp", owner: { kind: "account", ...ADA }, locale: "en" } as const;
    expect((await trips.begin(request(jar), departure)).kind).toBe("limited");
  });

  it("is nobody, if the account is deleted meanwhile [D-PROV-96]", async () => {
    const jar = new CookieJar(() => clock.now());
    await storage.records.transact((tx) => tx.remove(ACCOUNT.ref(ADA.sub)));
    await expect(comeBack(jar)).rejects.toThrow("gone");
  });
});
