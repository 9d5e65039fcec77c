/** What requests without valid credentials leave: a bounded number of records, however many there are. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { exportJWK, generateKeyPair, type CryptoKey, SignJWT } from "jose";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { createAuthenticator, type TestAuthenticator } from "../../testing/authenticator.ts";
import { APP, clientAt, issue } from "../flows/clients.ts";
import { type TestClient, basic, newProof, send, type TestAnswer } from "../../testing/test-client.ts";
import { ADA, NEWS, onLocalhost, type RunningService, startService } from "../flows/running-service.ts";
import { untilReplay } from "../flows/token-answers.ts";
import { type JsonAnswer, JsonVisitor, afterPassword } from "../interactions/json-visitor.ts";

const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/** The first failures of a bucket have records of their own. */
const OWN = 10;

let running: RunningService;
let robotKey: CryptoKey;
let key: CryptoKey;
/** Moves the clock to the start of a window of the audit, so that no test is in two of them. */
let offset = 0;

beforeEach(async () => {
  offset = 900_000 - (Date.now() % 900_000);
  running = await startService({
    config: { proxy: true, rateLimits: {}, clock: { virtual: true, now: () => Date.now() + offset } },
    deployments: onLocalhost,
  });
  ({ privateKey: key } = await generateKeyPair("ES256"));
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  robotKey = privateKey;
  const jwks = { keys: [(await exportJWK(publicKey)) as Record<string, string>] };
  await running.service.clients.register({
    kind: "machine",
    client_id: "robot",
    name: "Robot",
    service: "1",
    jwks,
  });
});

let count = 0;

function assertion(client = "robot", signer = key): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({ jti: `j${(count += 1)}`, iss: client, sub: client, iat: now, exp: now + 60 })
    .setAudience(running.openid)
    .setProtectedHeader({ alg: "ES256" })
    .sign(signer);
}

const form = (parameters: Record<string, string>, headers: Record<string, string>): RequestInit => ({
  method: "POST",
  headers,
  body: new URLSearchParams({ token: "unknown", ...parameters }),
});

const introspect = async (made: Promise<string>, from = "192.0.2.1"): Promise<TestAnswer> =>
  send(
    `${running.openid}/oauth2/introspect`,
    form(
      { client_assertion_type: ASSERTION_TYPE, client_assertion: await made },
      { "x-forwarded-for": from },
    ),
  );

const withSecret = (client_id: string, from = "192.0.2.1"): Promise<TestAnswer> =>
  send(
    `${running.openid}/oauth2/introspect`,
    form({}, { authorization: basic({ client_id, client_secret: "wrong" }), "x-forwarded-for": from }),
  );

const failures = async (action: string): Promise<readonly AuditRecord[]> =>
  (await running.service.audit.list({ action, limit: 1_000 })).items;

/** How often each failure happened, most often first. */
const counts = (records: readonly AuditRecord[]): readonly number[] =>
  records.map((each) => each.count).toSorted((one, other) => other - one);

const times = <T>(many: number, act: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: many }, (_, index) => act(index)));

describe("wrong credentials of clients", () => {
  it.each<[string, () => Promise<TestAnswer>, AuditRecord["reason"], string | null]>([
    ["assertions", () => introspect(assertion()), "assertion", "robot"],
    ["secrets", () => withSecret("news"), "credentials", "news"],
    ["secrets for a client with keys", () => withSecret("robot"), "credentials", "robot"],
    ["assertions for a client with a secret", () => introspect(assertion("news")), "assertion", "news"],
    ["names that no client has", () => withSecret(`nobody-${(count += 1)}`), "unknown", null],
    [
      "assertions of clients that nobody has",
      () => introspect(assertion(`x${(count += 1)}`)),
      "unknown",
      null,
    ],
  ])(
    "leave ten records and one with a count, also in parallel: %s [D-STRANGER-3]",
    async (_what, send_, reason, subject) => {
      const answers = await times(100, send_);
      expect(new Set(answers.map(({ body }) => body["error"]))).toEqual(new Set(["invalid_client"]));
      expect(answers.filter(({ headers }) => headers.has("retry-after"))).toHaveLength(80);
      const records = await failures("client.authentication");
      expect(counts(records)).toEqual([90, ...Array<number>(OWN).fill(1)]);
      expect(records.filter((each) => each.count === 1)).toEqual(
        Array<unknown>(OWN).fill(expect.objectContaining({ reason, subject, outcome: "failure" })),
      );
      expect(JSON.stringify(records)).not.toContain("nobody");
    },
  );

  it("of an IPv6 /48 leave ten times as many [D-STRANGER-2, D-STRANGER-3]", async () => {
    for (let round = 0; round < 8; round += 1)
      await times(50, (index) => introspect(assertion(), `2001:db8:1:${round * 50 + index}::1`));
    expect(counts(await failures("client.authentication"))).toEqual([300, ...Array<number>(100).fill(1)]);
  });

  it("stop no right assertion [D-STRANGER-3]", async () => {
    await times(50, () => introspect(assertion()));
    expect((await introspect(assertion("robot", robotKey))).status).toBe(200);
    expect((await introspect(assertion())).headers.has("retry-after")).toBe(true);
  });

  it("of a disabled client say so in the audit [D-STRANGER-3]", async () => {
    await running.service.clients.disable("robot");
    await introspect(assertion("robot", robotKey));
    const [record] = await failures("client.authentication");
    expect(record).toMatchObject({ subject: "robot", reason: "disabled" });
  });
});

/** A sign-in from an address, and what its page sends for a passkey. */
async function atLogin(from = "192.0.2.1") {
  const news = clientAt(running, "oauth2", NEWS);
  const visitor = new JsonVisitor(news.browser({ headers: { "x-forwarded-for": from } }));
  const { body: step } = await visitor.open(news.authorizeUrl());
  const { publicKey } = step.passkey!;
  const { href = "" } = step.actions.find(({ name }) => name === "passkey") ?? {};
  const use = (authenticator: TestAuthenticator): Promise<JsonAnswer> =>
    visitor.post(href, { csrf: step.csrf, credential: authenticator.get(publicKey) });
  const junk = (credential: unknown): Promise<JsonAnswer> =>
    visitor.post(href, { csrf: step.csrf, credential });
  /** Asks for the page again, which has a new challenge after a refusal. */
  async function useAnew(authenticator: TestAuthenticator): Promise<JsonAnswer> {
    const { body: fresh } = await visitor.get();
    const credential = authenticator.get(fresh.passkey!.publicKey);
    return visitor.post(href, { csrf: fresh.csrf, credential });
  }
  return { use, junk, useAnew };
}

describe("wrong passkeys", () => {
  let phone: TestAuthenticator;
  beforeEach(() => {
    phone = createAuthenticator({ origin: new URL(running.oauth2).origin });
  });

  it("are ten for a sign-in, also in parallel, and leave as many records [D-STRANGER-4]", async () => {
    const { use, junk } = await atLogin();
    const stranger = await addPhone(running, running.bob.sub, { now: Date.now });
    await running.service.accounts.removeFactors(running.bob.sub);
    const answers = await times(100, (index) => (index % 2 === 0 ? use(stranger) : junk({ id: "x" })));
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(90);
    expect(answers.filter(({ headers }) => headers.has("retry-after"))).toHaveLength(90);
    expect(counts(await failures("sign_in"))).toEqual([90, ...Array<number>(OWN).fill(1)]);
  });

  it("of an address take points of its sign-ins, and after ten only add to a count [D-STRANGER-4]", async () => {
    for (let sign = 0; sign < 5; sign += 1) {
      const { junk } = await atLogin();
      await times(10, () => junk("x"));
    }
    expect(counts(await failures("sign_in"))).toEqual([40, ...Array<number>(OWN).fill(1)]);
    const { junk } = await atLogin("192.0.2.2");
    expect((await junk("x")).status).not.toBe(429);
  });

  it("stop no right one, neither in the same sign-in nor from the same address [D-STRANGER-4]", async () => {
    phone = await addPhone(running, running.ada.sub, { now: () => Date.now() + offset });
    const { use, junk, useAnew } = await atLogin();
    await times(20, () => junk("x"));
    // The first refusal has replaced the challenge.
    expect((await use(phone)).status).toBe(429);
    expect(await useAnew(phone)).toMatchObject({ body: { done: true } });
    const { use: elsewhere } = await atLogin();
    expect(await elsewhere(phone)).toMatchObject({ body: { done: true } });
  });

  it("after the right password are in the audit of the account, with a count beyond ten [D-STRANGER-4]", async () => {
    await addPhone(running, running.ada.sub, { now: () => Date.now() + offset });
    const news = clientAt(running, "oauth2", NEWS);
    const { visitor, step } = await afterPassword(news, ADA);
    await times(50, () => visitor.act(step, "passkey", { credential: "x" }));
    const records = await failures("second_factor");
    expect(counts(records)).toEqual([40, ...Array<number>(OWN).fill(1)]);
    expect(new Set(records.map(({ subject }) => subject))).toEqual(new Set([running.ada.sub]));
  });
});

const authorize = (request_uri: unknown, from = "192.0.2.1"): Promise<TestAnswer> =>
  send(
    `${running.openid}/oauth2/authorize?${new URLSearchParams({ client_id: "app", request_uri: String(request_uri) })}`,
    { headers: { "x-forwarded-for": from } },
  );

describe("pushed requests of a client without credentials", () => {
  let app: TestClient;
  beforeEach(async () => {
    await running.service.clients.register(APP);
    app = clientAt(running, "openid", APP);
  });

  const push = (from = "192.0.2.1"): Promise<TestAnswer> => {
    const { redirect_uri } = app;
    const parameters = { response_type: "code", redirect_uri, ...newProof().request };
    return app.post("/oauth2/par", parameters, { "x-forwarded-for": from });
  };

  it("count with the sign-ins of their address, beyond which they are a 429 [D-STRANGER-5]", async () => {
    const answers = await times(700, () => push());
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(600);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(100);
    expect(refused[0]!.body["error"]).toBe("temporarily_unavailable");
    expect(Number(refused[0]!.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(counts(await failures("interaction"))).toEqual([100]);
    expect((await push("192.0.2.2")).status).toBe(201);
    const news = clientAt(running, "oauth2", NEWS);
    const headers = { "x-forwarded-for": "192.0.2.1", accept: "text/html" };
    const page = await send(news.authorizeUrl(), { headers });
    expect(page.status).toBe(429);
    // The words of a step for a limit of the network.
    expect(page.text).toContain(
      "Your network has made many requests. It may not have been you. Try again in ",
    );
  });

  it("and the sign-in that each is for are one point; a second sign-in with it is another [D-STRANGER-5]", async () => {
    const pushed = await times(300, () => push());
    const uris = pushed.map(({ body }) => body["request_uri"]);
    const first = await Promise.all(uris.map((uri) => authorize(uri)));
    expect(new Set(first.map(({ status }) => status))).toEqual(new Set([303]));
    const again = await Promise.all([...uris, ...uris].map((uri) => authorize(uri)));
    expect(again.filter(({ status }) => status === 303)).toHaveLength(300);
    expect(again.filter(({ status }) => status === 429)).toHaveLength(300);
  });

  it("are not those of a client with credentials, whose sign-ins take the points [D-STRANGER-5]", async () => {
    const { client_id } = NEWS;
    const body = new URLSearchParams({
      client_id,
      response_type: "code",
      redirect_uri: NEWS.redirect_uris[0]!,
    });
    const headers = { authorization: basic(NEWS), "x-forwarded-for": "192.0.2.1" };
    const pushes = await times(700, () =>
      send(`${running.openid}/oauth2/par`, { method: "POST", headers, body }),
    );
    expect(new Set(pushes.map(({ status }) => status))).toEqual(new Set([201]));
    const uris = pushes.map((answer) => String(answer.body["request_uri"]));
    const answers = await Promise.all(
      uris.map((request_uri) =>
        send(`${running.openid}/oauth2/authorize?${new URLSearchParams({ client_id, request_uri })}`, {
          headers: { "x-forwarded-for": "192.0.2.1" },
        }),
      ),
    );
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(600);
  });
});

describe("a used code", () => {
  it("is one record of the audit, however often it is sent at the same time [D-STRANGER-1]", async () => {
    await running.service.clients.register(APP);
    const app = clientAt(running, "openid", APP);
    const { code, proof } = await issue(app);
    expect((await app.exchange(code, proof)).status).toBe(200);
    await untilReplay();
    const replays = await times(50, () => app.exchange(code, proof));
    expect(new Set(replays.map(({ body }) => body["error"]))).toEqual(new Set(["invalid_grant"]));
    const records = await failures("code.replayed");
    expect(records).toMatchObject([{ subject: running.ada.sub, client: "app", outcome: "failure" }]);
  });
});
