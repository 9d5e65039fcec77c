import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, jest } from "@jest/globals";
import { pino } from "pino";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { basic, send, type TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { Secrets } from "./secrets-in-text.ts";
import { ADA, BOB, CALLBACK, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { newFolder } from "../closing.ts";
import { recordTelemetry, textOf } from "../core/recorded-telemetry.ts";

const EVENTS = [
  "sign_in.success",
  "sign_in.failure",
  "code.issued",
  "tokens.issued",
  "tokens.refused",
  "authorization.refused",
  "token.revoked",
  "family.revoked",
  "session.ended",
  "account.changed",
  "client.changed",
  "fault",
] as const;

const RECEIVER_URL = "https://receiver.example/notify";
const folder = newFolder();
const secrets = new Secrets();
const log: string[] = [];
const emitted: string[] = [];
const printed: string[] = [];
const answers: string[] = [];
const recorded = recordTelemetry();
/** Of the requests with an unexpected error. */
const statuses: number[] = [];
let running: RunningService;
let watched: WatchedStorage;
let news: TestClient;

/** Sends secrets, right and wrong, to every endpoint of one deployment. */
async function useEverything(party: TestClient): Promise<void> {
  const { base } = party;
  const wrongPassword = secrets.add(
    `typed password ${party.deployment}`,
    `my other password ${party.deployment}`,
  );
  const browser = party.browser();
  await browser.get(party.authorizeUrl({ scope: "openid email profile", nonce: "n" }));
  const csrf = browser.form().fields.find(([name]) => name === "csrf")?.[1];
  secrets.add(`form token ${party.deployment}`, csrf);
  await browser.submit(browser.form("password"), { username: ADA.email, password: wrongPassword });
  await browser.submit(browser.form("password"), { username: ADA.email, password: ADA.password });
  const code = secrets.add(
    `code ${party.deployment}`,
    browser.location?.searchParams.get("code") ?? undefined,
  );
  for (const { name, value } of browser.jar.all()) secrets.add(`cookie ${name}`, value);
  const exchanged = await party.exchange(code);
  const { access_token, refresh_token, id_token } = exchanged.body as Record<string, string>;
  secrets.add(`access token ${party.deployment}`, access_token);
  secrets.add(`refresh token ${party.deployment}`, refresh_token);
  if (party.deployment === "openid") secrets.add("ID token", id_token);
  const token = access_token ?? "";
  await party.userinfo(token);
  await party.profile(token);
  const second = await party.refresh(refresh_token ?? "");
  secrets.add(`second access token ${party.deployment}`, second.body["access_token"] as string);
  await party.password(ADA);
  answers.push((await party.password({ username: ADA.email, password: wrongPassword })).text);
  const wrongSecret = secrets.add(
    `wrong secret ${party.deployment}`,
    `not the secret of anybody ${party.deployment}`,
  );
  const credentials = { client_id: NEWS.client_id, client_secret: wrongSecret };
  answers.push((await party.token({}, { authorization: basic(credentials) })).text);
  answers.push(
    (await party.token({ ...credentials, grant_type: "refresh_token", refresh_token: "x" }, {})).text,
  );
  // Secrets in the wrong queries, headers and fields.
  const misplaced = new URLSearchParams({
    client_secret: NEWS.client_secret,
    access_token: token,
    password: ADA.password,
    code,
    login_hint: ADA.email,
  });
  for (const path of [
    "/oauth2/authorize",
    "/oauth2/token",
    "/resources/userinfo",
    "/external/profile",
    "/oauth2/revoke",
  ]) {
    for (const method of ["GET", "POST", "PUT"]) {
      const body = method === "GET" ? {} : { body: misplaced };
      const headers = { authorization: `Bearer ${token}x`, cookie: `sis_session_x=${token}` };
      const { text } = await send(`${base}${path}?client_id=news&${misplaced}`, { method, headers, ...body });
      answers.push(text);
    }
  }
  answers.push(
    (await send(`${base}/oauth2/authorize?client_id=${encodeURIComponent(NEWS.client_secret)}`)).text,
  );
  answers.push((await party.revoke(token)).text);
  answers.push((await party.exchange(code)).text);
}

/** Unexpected errors of the store and a listener, with a secret in the message. */
const CHOSEN = "a-secret-in-the-words-of-an-error";
const unexpected = (): never => {
  throw Object.assign(new Error(`${CHOSEN} of ${ADA.email}`), { code: "ODD", detail: CHOSEN });
};

beforeAll(async () => {
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    jest
      .spyOn(console, method)
      .mockImplementation((...parts) => void printed.push(parts.map(String).join(" ")));
  }
  running = await startService({
    config: {
      storage: `sqlite:${join(folder, "sign-in.db")}`,
      telemetry: true,
      logger: pino({ level: "trace" }, { write: (line: string) => void log.push(line) }),
    },
    storage: (opened) => (watched = new WatchedStorage(opened)).storage,
  });
  running.service.events.on("token.revoked", unexpected);
  for (const event of EVENTS)
    running.service.events.on(event, (argument) => void emitted.push(JSON.stringify(argument)));
  news = clientAt(running, "oauth2", NEWS);
  for (const [name, { client_secret }] of Object.entries({ NEWS }))
    secrets.add(`secret of ${name}`, client_secret);
  secrets.add("password of Ada", ADA.password);
  secrets.add("password of Bob", BOB.password);
  secrets.add("in the words of an error", CHOSEN);
  const { accounts, clients, directory } = running.service;
  const client_secret = secrets.add("secret of a receiver", "the secret of the receiver");
  const receiver = { url: RECEIVER_URL, client_id: "r", client_secret, types: ["DELETE_ACCOUNT" as const] };
  await directory.services.put("4", { name: "Receiver", receiver });
  const rotated = await clients.rotateSecret("shop", { keepOldFor: 60 });
  secrets.add("rotated secret", rotated.client_secret);
  await useEverything(news);
  await useEverything(clientAt(running, "openid", NEWS));
  watched.fail = unexpected;
  for (const path of ["/oauth2/authorize", "/resources/userinfo", "/interaction/some-id"]) {
    const faulty = await send(`${news.base}${path}?client_id=news`, {
      headers: { authorization: "Bearer x" },
    });
    answers.push(faulty.text);
    statuses.push(faulty.status);
  }
  watched.fail = () => undefined;
  await accounts.setPassword(running.bob.sub, secrets.add("new password", "a brand new password"));
  await accounts.endSessions(running.ada.sub);
  await accounts.delete(running.bob.sub);
});
afterAll(async () => {
  jest.restoreAllMocks();
  await recorded.close();
});

describe("a secret", () => {
  it("of every kind is checked by this test", () => {
    expect(secrets.all.size).toBeGreaterThan(20);
    expect(secrets.in(`{"a":"${encodeURIComponent(ADA.password)}"}`)).toEqual(["password of Ada"]);
    expect(secrets.in(Buffer.from(NEWS.client_secret).toString("base64"))).toEqual(["secret of NEWS"]);
  });

  it("is not in the log, even after unexpected errors, nor is an e-mail address", async () => {
    const all = log.join("");
    // Unexpected errors are logged with their type, code and location, not their message.
    const unexpectedOnes = log.filter(
      (line) => line.includes("unexpected error") && line.includes('"error_code":"ODD"'),
    );
    expect(unexpectedOnes.length).toBeGreaterThanOrEqual(4);
    expect(unexpectedOnes.every((line) => line.includes("secrets.test.ts"))).toBe(true);
    expect(secrets.in(all)).toEqual([]);
    expect(all).not.toMatch(/[\w.+-]+@[\w-]+\.\w+/);
    expect(printed).toEqual([]);
  });

  it("is not in events and metrics, nor is an e-mail address", async () => {
    expect(emitted.length).toBeGreaterThan(20);
    expect(
      new Set(emitted.map((text) => Object.keys(JSON.parse(text) as object).join())).size,
    ).toBeGreaterThan(4);
    const text = `${emitted.join("\n")}${await running.service.metrics()}${JSON.stringify(await running.service.health())}`;
    expect(secrets.in(text)).toEqual([]);
    expect(text).not.toMatch(/[\w.+-]+@[\w-]+\.\w+/);
  });

  it("is in no span and no metric, nor is a path, a query, a header or an e-mail address [D-OTEL-2]", async () => {
    const spans = recorded.spans();
    const routes = new Set(spans.map(({ attributes }) => attributes["http.route"]));
    expect([...routes]).toEqual(
      expect.arrayContaining(["/oauth2/token", "/oauth2/authorize", "/interaction/:uid"]),
    );
    expect(new Set(spans.flatMap(({ attributes }) => Object.keys(attributes)))).toEqual(
      new Set([
        "db.namespace",
        "db.operation.name",
        "db.system.name",
        "error.type",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "sign_in.hashing.priority",
        "sign_in.hashing.waited",
      ]),
    );
    expect(spans.flatMap(({ events }) => events)).toEqual([]);
    const points = (await recorded.metrics()).map(({ descriptor, dataPoints }) => [
      descriptor,
      dataPoints.map(({ attributes }) => attributes),
    ]);
    const text = [...spans.map(textOf), JSON.stringify(points)].join("\n");
    expect(secrets.in(text)).toEqual([]);
    for (const each of [running.ada.sub, running.bob.sub, "127.0.0.1", "client_id", "misplaced", "?"])
      expect([each, text.includes(each)]).toEqual([each, false]);
    expect(text).not.toMatch(/[\w.+-]+@[\w-]+\.\w+/);
  });

  it("is not in responses to refused requests", () => {
    expect(answers.length).toBeGreaterThan(30);
    expect(statuses).toEqual([503, 503, 503]);
    // The login form contains the e-mail address of login_hint.
    expect(secrets.in(answers.filter((text) => !text.includes("<form")).join("\n"))).toEqual([]);
    expect(answers.filter((text) => text.includes(CALLBACK))).toEqual([]);
  });

  it("is not in the files of the storage [D-TOKEN-20, D-ACCOUNT-13]", () => {
    const files = readdirSync(folder).filter(
      (name) => name.startsWith("sign-in.db") && !name.endsWith(".keys"),
    );
    const bytes = files.map((name) => readFileSync(join(folder, name), "latin1")).join("\n");
    expect(bytes).toContain(running.ada.sub);
    expect(bytes).toContain(RECEIVER_URL);
    // ID tokens and form tokens are not stored, others only as hashes.
    expect(secrets.in(bytes)).toEqual([]);
  });
});
