/** The operations that are counted, on a test service: one request or call each, with nothing else going on. */
import { hash, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import Koa from "koa";
import { openStores } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { Browser, createTestSignIn, type TestClient, type TestSignIn } from "../../testing/index.ts";
import { basic, PATHS, send } from "../../testing/test-client.ts";
import type { Counter, Figures } from "./counters.ts";

export const OPERATIONS = [
  "account change, one notification",
  "account change, two notifications",
  "delivery",
  "sign-in",
  "sign-in by passkey",
  "authorization with a session",
  "exchange",
  "refresh",
  "userinfo",
  "refresh with DPoP",
  "userinfo with DPoP",
  "introspection",
  "sign-out",
  "sweep of 1,000 records",
] as const;
export type Operation = (typeof OPERATIONS)[number];

/** The figures of each operation. */
export type Counts = Readonly<Record<Operation, Figures>>;

/** The addresses of the stores. */
export interface Addresses {
  readonly storage: string;
  readonly artifacts?: string;
}

/** The smallest of this many counts is used, because a background task may add to one of them. */
const REPEATS = 4;
/** Milliseconds after which everything that a request has started is done. */
const QUIET = 80;
const SWEPT = 1_000;
/** Families that are added in one commit. */
const BATCH = 25;

type Call = () => Promise<unknown>;

/** Runs and counts one operation. */
type Count = (operation: Operation, call: Call) => Promise<void>;

function expectStatus({ status }: { readonly status: number }): void {
  if (status !== 200) throw new Error(`an operation was answered ${status}`);
}

async function countChanges(test: TestSignIn, count: Count, round: number): Promise<void> {
  const { accounts } = test.service;
  const [one, both] = [await test.addPerson(), await test.addPerson()];
  await accounts.assign(one.account.sub, "1");
  for (const service of ["1", "2"]) await accounts.assign(both.account.sub, service);
  await test.deliver();
  const name = `Ada ${round}`;
  await count("account change, one notification", () => accounts.update(one.account.sub, { name }));
  await count("delivery", () => test.deliver());
  await count("account change, two notifications", () => accounts.update(both.account.sub, { name }));
  await test.deliver();
}

/** The proofs of a new key. */
async function newProver(): Promise<(htm: string, htu: string, token?: string) => Promise<string>> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const jwk = await exportJWK(publicKey);
  return (htm, htu, token) => {
    const ath = token === undefined ? {} : { ath: hash("sha256", token, "base64url") };
    return new SignJWT({ htm, htu, jti: randomUUID(), ...ath })
      .setProtectedHeader({ alg: "ES256", typ: "dpop+jwt", jwk })
      .setIssuedAt()
      .sign(privateKey);
  };
}

async function countBound(client: TestClient, refresh_token: string, count: Count): Promise<void> {
  const prove = await newProver();
  const refreshing = {
    authorization: basic(client),
    dpop: await prove("POST", `${client.base}/oauth2/token`),
  };
  let token = "";
  await count("refresh with DPoP", async () => {
    const answer = await client.token({ grant_type: "refresh_token", refresh_token }, refreshing);
    expectStatus(answer);
    token = String(answer.body["access_token"]);
  });
  const userinfo = client.base + PATHS[client.deployment].userinfo;
  const headers = { authorization: `DPoP ${token}`, dpop: await prove("GET", userinfo, token) };
  await count("userinfo with DPoP", async () =>
    expectStatus(await send(`${userinfo}?client_id=${client.client_id}`, { headers })),
  );
}

async function countTokens(test: TestSignIn, client: TestClient, count: Count): Promise<void> {
  const person = await test.addPerson();
  const base = test.urls.openid ?? "";
  // A first sign-in does more than the following ones.
  await client.signIn(person);
  const again = { ...person, browser: new Browser({ stayAt: [`${base}/`], now: () => 0 }) };
  await count("sign-in", () => client.authorize(again));
  let code = "";
  await count("authorization with a session", async () => {
    const answer = await client.authorize(again);
    if (answer.loginShown) throw new Error("there was no session");
    code = answer.code ?? "";
  });
  let tokens: Readonly<Record<string, unknown>> = {};
  const keep = (answer: Awaited<ReturnType<TestClient["exchange"]>>): void => {
    expectStatus(answer);
    tokens = answer.body;
  };
  await count("exchange", async () => keep(await client.exchange(code)));
  await count("refresh", async () => keep(await client.refresh(String(tokens["refresh_token"]))));
  const token = String(tokens["access_token"]);
  await count("userinfo", async () => expectStatus(await client.userinfo(token)));
  await countBound(client, String(tokens["refresh_token"]), count);
  await count("introspection", async () => expectStatus(await client.post("/oauth2/introspect", { token })));
  await again.browser.get(`${base}/oauth2/logout`);
  await count("sign-out", () => again.browser.submit(again.browser.form("logout"), { logout: "yes" }));
}

async function countPasskey(test: TestSignIn, client: TestClient, count: Count): Promise<void> {
  const openid = test.urls.openid ?? "";
  const person = await test.addPerson();
  // As with a password: a first sign-in does more.
  await client.signIn(person);
  const phone = await test.addPasskey(person);
  await count("sign-in by passkey", async () => {
    const browser = new Browser({ stayAt: [`${openid}/`], now: () => 0 });
    await browser.get(client.authorizeUrl());
    const asked = tagsNamed(browser.html, "form").find(({ attributes }) => attributes.has("data-passkey"));
    const request = JSON.parse(asked?.attributes.get("data-passkey") ?? "") as Parameters<
      typeof phone.get
    >[0];
    await browser.submit(browser.form("credential"), { credential: JSON.stringify(phone.get(request)) });
    if (!browser.location?.searchParams.has("code")) throw new Error("the passkey did not sign in");
  });
}

/** Half of the records are children of the others, and each has an index entry. */
async function addExpired(store: RecordStore, round: number): Promise<void> {
  const now = Date.now();
  const record = (kind: string, index: number) => ({
    kind,
    key: `${round}-${index}`,
    value: {},
    index: [{ name: "all", at: String(index % 100), order: index }],
    expiresAt: now + 1,
  });
  for (let from = 0; from < SWEPT / 2; from += BATCH) {
    const put = Array.from({ length: BATCH }, (_each, index) => [
      record("parent", from + index),
      { ...record("child", from + index), parent: { kind: "parent", key: `${round}-${from + index}` } },
    ]).flat();
    await store.commit({ id: `expired-${round}-${from}`, deadline: Date.now() + 30_000, put });
  }
}

async function countSweep(
  { main, artifacts }: Awaited<ReturnType<typeof openStores>>,
  count: Count,
  round: number,
): Promise<void> {
  const stores = artifacts === undefined ? [main] : [main, artifacts];
  for (const store of stores) await addExpired(store, round);
  await pause(QUIET);
  await count("sweep of 1,000 records", () =>
    Promise.all(stores.map((store) => store.sweep(SWEPT, Date.now()))),
  );
}

/** The least of each figure. */
export function least(all: readonly Figures[]): Figures {
  const names = Object.keys(all[0] ?? {}) as (keyof Figures)[];
  return Object.fromEntries(
    names.map((name) => [name, Math.min(...all.map((each) => each[name] ?? 0))]),
  ) as unknown as Figures;
}

/**
 * Counts every operation on a new service.
 * @param counters one for each store.
 * @param begin is called when the tables of the stores are created.
 * @returns the counts of each counter.
 */
export async function countOperations(
  addresses: Addresses,
  counters: readonly Counter[],
  begin: () => Promise<void> = () => Promise.resolve(),
): Promise<readonly Counts[]> {
  const seen = counters.map(() => new Map<Operation, Figures[]>());
  const count: Count = async (operation, call) => {
    // Stores the collected audit records, which would otherwise be counted in some operation of the next second.
    await test.service.audit.list({ limit: 1 });
    await pause(QUIET);
    for (const counter of counters) await counter.take();
    await call();
    await pause(QUIET);
    for (const [index, counter] of counters.entries()) {
      const figures = await counter.take();
      const before = seen[index]?.get(operation) ?? [];
      seen[index]?.set(operation, [...before, figures]);
    }
  };
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  // Browsers create no passkeys for IP addresses.
  const base = `http://localhost:${(server.address() as AddressInfo).port}`;
  const deployments = { oauth2: { url: base }, openid: { url: `${base}/openid` } };
  const test = await createTestSignIn({ ...addresses, deployments, features: { dpop: true } });
  const answer = new Koa().use(test.service.routes()).callback();
  server.on("request", (request, response) => void answer(request, response));
  // Opened now, because nothing starts on a PostgreSQL with triggers of others.
  const opened = await openStores({
    artifacts: addresses.storage,
    ...addresses,
    clock: { now: Date.now },
    sharedKinds: [],
    watchedKinds: [],
  });
  try {
    await begin();
    const client = await test.addClient();
    for (const key of ["1", "2"]) await test.addReceiver(key);
    for (let round = 0; round < REPEATS; round += 1) {
      await countChanges(test, count, round);
      await countTokens(test, client, count);
      await countPasskey(test, client, count);
      await countSweep(opened, count, round);
    }
  } finally {
    server.close();
    server.closeAllConnections();
    await opened.close();
    await test.close();
  }
  return seen.map(
    (each) =>
      Object.fromEntries(
        OPERATIONS.map((operation) => [operation, least(each.get(operation) ?? [])]),
      ) as Counts,
  );
}
