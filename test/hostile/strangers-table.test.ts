/** The table of what a stranger can cause, held against requests: nothing else is stored, and no more than its limits allow. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { RATE_LIMITS } from "../../accounts/limits/limit-table.ts";
import {
  ACTIONS_OF_STRANGERS,
  isCaused,
  RECORDS_OF_STRANGERS,
  type StrangerFact,
} from "../../accounts/limits/strangers.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { AUDIT_ACTIONS } from "../../records/audit/actions.ts";
import { APP, clientAt } from "../flows/clients.ts";
import { TELEVISION } from "../flows/devices.ts";
import { TestClient, basic, newProof, send } from "../../testing/test-client.ts";
import {
  ADA,
  NEWS,
  onLocalhost,
  type RunningService,
  startService,
  UNLIMITED,
} from "../flows/running-service.ts";
import { createTestProvider, type TestProvider } from "../../testing/test-provider.ts";
import { serveConsole } from "../administration/console/console-visitor.ts";
import { closing } from "../closing.ts";
import { type JsonAnswer, JsonVisitor } from "../interactions/json-visitor.ts";

const caused = (facts: Readonly<Record<string, StrangerFact>>): string[] =>
  Object.entries(facts).flatMap(([name, fact]) => (isCaused(fact) ? [name] : []));

describe("the table of what a stranger can cause", () => {
  it("has a row for every kind of record and every action of the audit, and no others [D-STRANGER-1]", () => {
    expect(Object.keys(RECORDS_OF_STRANGERS).toSorted()).toEqual(
      KINDS.all.map(({ name }) => name).toSorted(),
    );
    expect(Object.keys(ACTIONS_OF_STRANGERS).toSorted()).toEqual(Object.keys(AUDIT_ACTIONS).toSorted());
  });

  it("names a limit or another bound in each row that a stranger can cause [D-STRANGER-1]", () => {
    for (const facts of [RECORDS_OF_STRANGERS, ACTIONS_OF_STRANGERS] as const)
      for (const [name, fact] of Object.entries(facts)) {
        if (!isCaused(fact)) continue;
        expect([name, fact.limits.length > 0 || fact.bound !== undefined]).toEqual([name, true]);
        for (const limit of fact.limits) expect(RATE_LIMITS).toHaveProperty([limit]);
      }
  });
});

const FEW = { points: 5, seconds: 900 };
const SOME = { points: 20, seconds: 900 };
const REQUESTS = 50;
/** Sign-ins that one address may start. */
const MOST = 40;
/** Documents that are looked at for one address. */
const DOCUMENTS = 20;
const UNKNOWN = "https://unknown.example";
const ARTICLES = "https://articles.example";
let fetched = 0;

/** Every path of the unknown host has a good document. Everything else is asked as it is. */
async function answering(url: string | URL | Request, init?: RequestInit): Promise<Response> {
  const { url: client_id } = new Request(url);
  if (!client_id.startsWith(UNKNOWN)) return fetch(url, init);
  fetched += 1;
  return Response.json({ client_id, redirect_uris: [`${UNKNOWN}/callback`] });
}

let running: RunningService;
let administration: string;
let provider: TestProvider;

beforeEach(async () => {
  // At the start of an hour, so that no attack is in two windows of the audit.
  const offset = 3_600_000 - (Date.now() % 3_600_000);
  const clock = { virtual: true, now: () => Date.now() + offset };
  provider = await createTestProvider();
  closing(provider);
  provider.clock = clock;
  provider.signIn({ sub: "nobody-there" });
  running = await startService({
    config: {
      providers: { corp: { ...provider.settings, registration: false } },
      clock,
      fetch: answering,
      clients: { metadataDocuments: { allow: "any" } },
      features: { dpop: true },
      signIn: { emailCode: true },
      interactions: { registration: {} },
      mail: { send: () => Promise.reject(new Error("nothing is sent here")) },
      notifications: { worker: false },
      rateLimits: {
        ...UNLIMITED,
        clientSecret: SOME,
        deviceRequests: FEW,
        interactions: { points: MOST, seconds: 900 },
        registrations: FEW,
        mail: { ...UNLIMITED.mail, caller: FEW },
        signIn: { accountAndAddress: SOME, account: SOME, address: SOME },
      },
    },
    deployments: onLocalhost,
  });
  await running.service.clients.register(APP);
  await running.service.clients.register(TELEVISION);
  await running.service.directory.apis.put(ARTICLES, {
    name: "Articles",
    service: NEWS.service,
    scopes: { "articles:read": "Read articles" },
    unregistered: ["articles:read"],
  });
  administration = await serveConsole(running);
});

type Counts = Readonly<Record<string, number>>;

/** How many records of each kind there are, and how many of the audit of each action. */
async function census(): Promise<{ readonly records: Counts; readonly actions: Counts }> {
  const actions: Record<string, number> = {};
  for (const { action } of (await running.service.audit.list({ limit: 1_000 })).items)
    actions[action] = (actions[action] ?? 0) + 1;
  const records: Record<string, number> = {};
  for (const { name } of KINDS.all)
    records[name] = (await running.storage.records.store.scan(name, undefined, 10_000)).records.length;
  return { records, actions };
}

/** What is there more often than before. */
const grown = (before: Counts, after: Counts): Counts =>
  Object.fromEntries(
    Object.entries(after)
      .map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
      .filter(([, count]) => count !== 0),
  );

const news = (): TestClient => clientAt(running, "oauth2", NEWS);

/** Starts a sign-in, and does an action of its first page, or of the one that this way leads to. */
async function act(
  action: string,
  values: Record<string, string>,
  way?: string,
  then?: (visitor: JsonVisitor, answer: JsonAnswer) => Promise<unknown>,
): Promise<void> {
  const visitor = new JsonVisitor(news().browser());
  const { status, url } = await visitor.browser.get(news().authorizeUrl());
  if (status !== 200) return;
  const first = await visitor.open(url.href);
  const { body } = way === undefined ? first : await visitor.act(first.body, way);
  const answer = await visitor.act(body, action, values);
  await then?.(visitor, answer);
}

/** Somebody comes back from a provider, and has no account here. */
const comeBack = (visitor: JsonVisitor, { body }: JsonAnswer): Promise<unknown> =>
  visitor.browser.get(body.location ?? "");

/** One sign-in leaves for a provider more often than a person does. */
async function leaveOften(): Promise<void> {
  const visitor = new JsonVisitor(news().browser());
  const { status, url } = await visitor.browser.get(news().authorizeUrl());
  if (status !== 200) return;
  const { body } = await visitor.open(url.href);
  for (let round = 0; round < 3; round += 1) await visitor.act(body, "provider", { provider: "corp" });
}

async function push(): Promise<void> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const app = clientAt(running, "openid", APP);
  const htu = `${app.base}/oauth2/par`;
  const dpop = await new SignJWT({ htm: "POST", htu, jti: `p${(count += 1)}` })
    .setIssuedAt()
    .setProtectedHeader({ alg: "ES256", typ: "dpop+jwt", jwk: await exportJWK(publicKey) })
    .sign(privateKey);
  const { redirect_uri } = app;
  const parameters = { response_type: "code", redirect_uri, ...newProof().request };
  await app.post("/oauth2/par", parameters, { dpop });
}

/** A client that nobody has registered asks, each time another one. */
async function askUnknown(): Promise<void> {
  const client_id = `${UNKNOWN}/${(count += 1)}.json`;
  const redirect_uris = [`${UNKNOWN}/callback`];
  const client = new TestClient({ client_id, redirect_uris, urls: running, deployment: "openid" });
  const { status } = await send(client.authorizeUrl({ resource: ARTICLES, ...newProof().request }));
  expect([303, 503]).toContain(status);
}

const post = (path: string, form: Record<string, string>, authorization?: string): Promise<unknown> =>
  send(`${running.oauth2}${path}`, {
    method: "POST",
    ...(authorization !== undefined && { headers: { authorization } }),
    body: new URLSearchParams(form),
  });

let count = 0;
const secret = (client_id: string): string => basic({ client_id, client_secret: "wrong" });

/** What anybody can send, and how much it may leave at most. */
interface Attack {
  readonly send: () => Promise<unknown>;
  readonly records: Counts;
  readonly actions: Counts;
}

/** Ten failures one by one, and the rest with a count. */
const ELEVEN = 11;
const NOTHING = { records: {}, actions: {} };

const ATTACKS: Readonly<Record<string, Attack>> = {
  "sign-ins that are started": {
    send: () => send(news().authorizeUrl()),
    records: { interaction: MOST, "rate-limit": 1, audit: 1 },
    actions: { interaction: 1 },
  },
  "pushed requests with proofs": {
    send: push,
    records: {
      "pushed-authorization-request": MOST,
      "replay-detection": MOST,
      "rate-limit": 1,
      audit: 1,
    },
    actions: { interaction: 1 },
  },
  "clients that nobody registered": {
    send: askUnknown,
    records: { document: DOCUMENTS, interaction: DOCUMENTS, "rate-limit": 4, audit: 1 },
    actions: { interaction: 1 },
  },
  "devices that ask for codes": {
    send: () => post("/oauth2/device", { client_id: "television" }),
    records: { "device-code": FEW.points, "rate-limit": 1, audit: 1 },
    actions: { "device.requested": 1 },
  },
  "wrong secrets": {
    send: () => post("/oauth2/token", { grant_type: "refresh_token" }, secret("news")),
    records: { "rate-limit": 1, audit: ELEVEN },
    actions: { "client.authentication": ELEVEN },
  },
  "names that no client has": {
    send: () => post("/oauth2/token", { grant_type: "refresh_token" }, secret(`x${(count += 1)}`)),
    records: { "rate-limit": 1, audit: ELEVEN },
    actions: { "client.authentication": ELEVEN },
  },
  "wrong redirect addresses": {
    send: () => send(news().authorizeUrl({ redirect_uri: "https://evil.example/" })),
    records: { audit: 1 },
    actions: { "client.redirect_refused": 1 },
  },
  "wrong passwords of one account": {
    send: () => act("submit", { username: ADA.username, password: "a wrong password" }),
    records: {
      interaction: MOST,
      "account-events": 1,
      "failed-sign-ins": 1,
      "rate-limit": 4,
      audit: SOME.points + 4,
    },
    actions: { sign_in: SOME.points + 3, interaction: 1 },
  },
  "a password for many names": {
    send: () => act("submit", { username: `x${(count += 1)}`, password: "a wrong password" }),
    records: {
      interaction: MOST,
      "failed-sign-ins": SOME.points,
      "rate-limit": 2 * SOME.points + 2,
      audit: SOME.points + 2,
    },
    actions: { sign_in: SOME.points + 1, interaction: 1 },
  },
  "wrong passkeys": {
    send: () => act("passkey", { credential: "x" }),
    records: { interaction: MOST, "rate-limit": MOST + 2, audit: ELEVEN + 2 },
    actions: { sign_in: ELEVEN + 1, interaction: 1 },
  },
  registrations: {
    send: () =>
      act(
        "submit",
        { email: `x${(count += 1)}@example.com`, password: "the password of a stranger" },
        "register",
      ),
    records: {
      interaction: MOST,
      confirmation: FEW.points,
      mail: FEW.points,
      "rate-limit": 8 * FEW.points + 3,
      audit: 3,
    },
    actions: { "mail.requested": 2, interaction: 1 },
  },
  "password resets": {
    send: () => act("submit", { username: `x${(count += 1)}@example.com` }, "forgot-password"),
    records: {
      interaction: MOST,
      confirmation: FEW.points,
      mail: FEW.points,
      "rate-limit": 8 * FEW.points + 2,
      audit: FEW.points + 2,
    },
    actions: { "password_reset.requested": FEW.points, "mail.requested": 1, interaction: 1 },
  },
  "codes to sign in": {
    send: () => act("submit", { username: `x${(count += 1)}@example.com` }, "email-code"),
    records: {
      interaction: MOST,
      confirmation: FEW.points,
      mail: FEW.points,
      "rate-limit": 8 * FEW.points + 2,
      audit: FEW.points + 2,
    },
    actions: { "sign_in.code_requested": FEW.points, "mail.requested": 1, interaction: 1 },
  },
  "codes and tokens that nobody has": {
    send: async () => {
      const form = { client_id: "app", code: "x", redirect_uri: APP.redirect_uris[0]!, refresh_token: "x" };
      for (const grant_type of ["authorization_code", "refresh_token"])
        await post("/oauth2/token", { ...form, code_verifier: "x".repeat(43), grant_type });
      await post("/oauth2/revoke", { client_id: "app", token: "x" });
      for (const path of ["/resources/userinfo", "/external/profile"])
        await send(`${running.oauth2}${path}?client_id=news`, { headers: { authorization: "Bearer x" } });
      await send(`${running.oauth2}/confirm?token=${"x".repeat(43)}`);
      await send(`${running.oauth2}/account`, { headers: { cookie: "sign_in_session=x" } });
    },
    ...NOTHING,
  },
  "people who leave for a provider": {
    send: () => act("provider", { provider: "corp" }),
    records: { interaction: MOST, trip: MOST, "rate-limit": MOST + 2, audit: 1 },
    actions: { interaction: 1 },
  },
  "people who leave again and again": {
    send: leaveOften,
    records: { interaction: MOST, trip: MOST, "rate-limit": MOST + 2, audit: 3 },
    actions: { interaction: 1, sign_in: 2 },
  },
  "strangers who come back": {
    send: () => act("provider", { provider: "corp" }, undefined, comeBack),
    records: { interaction: MOST, "rate-limit": MOST + 2, audit: MOST + 1 },
    actions: { interaction: 1, sign_in: MOST },
  },
  "answers of providers that nobody asked": {
    send: async () => {
      const callback = `${running.openid}/providers/corp/callback`;
      await send(`${callback}?state=s${(count += 1)}&code=x`);
      await send(callback, { method: "POST", body: new URLSearchParams({ state: "s", code: "x" }) });
    },
    ...NOTHING,
  },
  "requests for administration": {
    send: () =>
      send(`${administration}/v1/accounts`, { headers: { authorization: `Bearer x${(count += 1)}` } }),
    records: { audit: 1 },
    actions: { "administration.refused": 1 },
  },
  "signing out without a session": {
    send: () => send(`${running.openid}/oauth2/logout`),
    ...NOTHING,
  },
};

describe.each(Object.entries(ATTACKS))("%s", (_what, attack) => {
  it("leave what the table says, and no more than their limits [D-STRANGER-1]", async () => {
    const before = await census();
    fetched = 0;
    await Promise.all(Array.from({ length: REQUESTS }, attack.send));
    const after = await census();
    expect(fetched).toBe(attack.records["document"] ?? 0);
    const grew = {
      records: grown(before.records, after.records),
      actions: grown(before.actions, after.actions),
    };
    for (const part of ["records", "actions"] as const) {
      const facts: Readonly<Record<string, StrangerFact>> =
        part === "records" ? RECORDS_OF_STRANGERS : ACTIONS_OF_STRANGERS;
      expect(Object.keys(grew[part]).toSorted()).toEqual(Object.keys(attack[part]).toSorted());
      for (const [name, count_] of Object.entries(grew[part])) {
        expect([name, isCaused(facts[name]!)]).toEqual([name, true]);
        expect([name, count_ <= attack[part][name]!, count_]).toEqual([name, true, count_]);
      }
    }
  });
});

const attacked = (part: "records" | "actions"): string[] => [
  ...new Set(Object.values(ATTACKS).flatMap((attack) => Object.keys(attack[part]))),
];

it("every row that a stranger can cause is attacked, but for registrations, health and a hundred failures [D-STRANGER-1]", () => {
  const others = [
    "account",
    "sign-in-name",
    "identifier",
    "user-id",
    "search-words",
    "passkey",
    "write-probe",
    "notice-count",
    "refused-mail",
  ];
  expect([...attacked("records"), ...others].toSorted()).toEqual(caused(RECORDS_OF_STRANGERS).toSorted());
  expect([...attacked("actions"), "account.registered"].toSorted()).toEqual(
    caused(ACTIONS_OF_STRANGERS).toSorted(),
  );
});
