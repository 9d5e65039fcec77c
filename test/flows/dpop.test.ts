/** Proofs of possession (RFC 9449) at the token endpoint: what a wrong one spends, which is nothing. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { APP, clientAt, issue, type Issued } from "./clients.ts";
import { connect, TELEVISION } from "./devices.ts";
import {
  type TestClient,
  basic,
  type RequestParameters,
  type TestAnswer,
} from "../../testing/test-client.ts";
import { ADA, NEWS, type RunningService, startService } from "./running-service.ts";
import { makeProof, newProofKey, type ProofKey } from "./proof-maker.ts";
import { untilReplay } from "./token-answers.ts";

let running: RunningService;
let app: TestClient;
/** Milliseconds that are added to the service's clock. Proofs are compared with the system's. */
let offset = 0;
let mine: ProofKey;
let other: ProofKey;

beforeEach(async () => {
  offset = 900_000 - (Date.now() % 900_000);
  running = await startService({
    config: {
      clock: { virtual: true, now: () => Date.now() + offset },
      features: { dpop: true },
      rateLimits: {},
    },
  });
  await running.service.clients.register(APP);
  app = clientAt(running, "openid", APP);
  [mine, other] = await Promise.all([newProofKey(), newProofKey()]);
});

function proof(key: ProofKey, claims: Record<string, unknown> = {}): Promise<string> {
  return makeProof(key, { htm: "POST", htu: `${running.openid}/oauth2/token`, ...claims });
}

type Send = (headers: Record<string, string>) => Promise<TestAnswer>;

/** A request whose proof is right but for one thing. @param used a proof that was used before. */
const WRONG: readonly [
  what: string,
  made: (used: string) => Promise<Record<string, string>>,
  error: string,
][] = [
  ["no proof", async () => ({}), "invalid_grant"],
  ["a proof with another key", async () => ({ dpop: await proof(other) }), "invalid_grant"],
  ["a proof that was used", async (used) => ({ dpop: used }), "invalid_grant"],
  [
    "a proof for another address",
    async () => ({ dpop: await proof(mine, { htu: "https://x.example/" }) }),
    "invalid_dpop_proof",
  ],
  ["what is no proof", async () => ({ dpop: "x.y.z" }), "invalid_dpop_proof"],
];

/** Sends each wrong request, and then the right one. */
async function afterWrongOnes(send: Send, used: string): Promise<TestAnswer> {
  for (const [what, made, error] of WRONG) {
    const { status, body } = await send(await made(used));
    expect([what, status, body["error"]]).toEqual([what, 400, error]);
  }
  return send({ dpop: await proof(mine) });
}

/** A proof that the service has seen. */
async function usedProof(): Promise<string> {
  const dpop = await proof(mine);
  const exchange = exchangeOf(await issue(app));
  expect(await exchange({ dpop })).toMatchObject({ status: 200, body: { token_type: "DPoP" } });
  return dpop;
}

const exchangeOf =
  ({ code, proof: pkce }: Issued): Send =>
  (headers) =>
    app.token({ grant_type: "authorization_code", code, ...pkce }, headers);

const refreshOf =
  (refresh_token: unknown, parameters: RequestParameters = {}): Send =>
  (headers) =>
    app.token({ grant_type: "refresh_token", refresh_token: String(refresh_token), ...parameters }, headers);

describe("a code that is bound to a key", () => {
  it("is spent by no request without a right proof, and by the first with one [D-DPOP-1]", async () => {
    const used = await usedProof();
    const { thumbprint: dpop_jkt } = mine;
    const exchange = exchangeOf(await issue(app, { dpop_jkt }));
    expect(await afterWrongOnes(exchange, used)).toMatchObject({
      status: 200,
      body: { token_type: "DPoP" },
    });
  });

  it("that was used ends nothing when it comes again without a right proof [D-DPOP-1]", async () => {
    const used = await usedProof();
    const { thumbprint: dpop_jkt } = mine;
    const exchange = exchangeOf(await issue(app, { dpop_jkt }));
    const { body } = await exchange({ dpop: await proof(mine) });
    await untilReplay();
    for (const [what, made] of WRONG)
      expect([what, (await exchange(await made(used))).status]).toEqual([what, 400]);
    const refreshed = await refreshOf(body["refresh_token"])({ dpop: await proof(mine) });
    expect(refreshed.status).toBe(200);
    // With a right one it is a replay.
    expect((await exchange({ dpop: await proof(mine) })).status).toBe(400);
    const ended = await refreshOf(refreshed.body["refresh_token"])({ dpop: await proof(mine) });
    expect(ended.body["error"]).toBe("invalid_grant");
  });
});

describe("a code that is bound to no key", () => {
  it("is spent by no repeated and no wrong proof [D-DPOP-1]", async () => {
    const used = await usedProof();
    const exchange = exchangeOf(await issue(app));
    for (const [what, made] of WRONG.slice(2))
      expect([what, (await exchange(await made(used))).status]).toEqual([what, 400]);
    expect(await exchange({})).toMatchObject({ status: 200, body: { token_type: "bearer" } });
  });

  it("of a device is spent by neither [D-DPOP-1]", async () => {
    await running.service.clients.register(TELEVISION);
    const device = clientAt(running, "openid", TELEVISION);
    const connected = async (): Promise<Send> => {
      const codes = await device.deviceCodes();
      await connect(codes);
      return (headers) => device.poll(codes, {}, headers);
    };
    const used = await proof(mine);
    expect(await (await connected())({ dpop: used })).toMatchObject({ status: 200 });
    const poll = await connected();
    for (const [what, made] of WRONG.slice(2)) {
      offset += 10_000;
      expect([what, (await poll(await made(used))).status]).toEqual([what, 400]);
    }
    offset += 10_000;
    expect(await poll({ dpop: await proof(mine) })).toMatchObject({
      status: 200,
      body: { token_type: "DPoP" },
    });
  });
});

describe("a refresh token that is bound to a key", () => {
  it("is neither spent nor rotated without a right proof [D-DPOP-1]", async () => {
    const used = await usedProof();
    const { body } = await exchangeOf(await issue(app))({ dpop: await proof(mine) });
    expect(await afterWrongOnes(refreshOf(body["refresh_token"]), used)).toMatchObject({ status: 200 });
  });

  it("gets the same answer inside the reuse window with its key only [D-DPOP-2]", async () => {
    const used = await usedProof();
    const { body } = await exchangeOf(await issue(app))({ dpop: await proof(mine) });
    const refresh = refreshOf(body["refresh_token"]);
    const first = await refresh({ dpop: await proof(mine) });
    const again = await afterWrongOnes(refresh, used);
    expect(again.body).toMatchObject({
      access_token: first.body["access_token"],
      refresh_token: first.body["refresh_token"],
      token_type: "DPoP",
    });
    expect((await refreshOf(first.body["refresh_token"])({ dpop: await proof(mine) })).status).toBe(200);
  });

  it("ends nothing after the window without a right proof, and its family with one [D-DPOP-1]", async () => {
    const used = await usedProof();
    const { body } = await exchangeOf(await issue(app))({ dpop: await proof(mine) });
    const refresh = refreshOf(body["refresh_token"]);
    const first = await refresh({ dpop: await proof(mine) });
    offset += 60_000;
    for (const [what, made] of WRONG)
      expect([what, (await refresh(await made(used))).status]).toEqual([what, 400]);
    const next = await refreshOf(first.body["refresh_token"])({ dpop: await proof(mine) });
    expect(next.status).toBe(200);
    expect((await refresh({ dpop: await proof(mine) })).status).toBe(400);
    expect((await refreshOf(next.body["refresh_token"])({ dpop: await proof(mine) })).status).toBe(400);
  });
});

describe("the refresh token of a client with credentials", () => {
  it("gets the same answer inside the reuse window only with the key of the first [D-DPOP-2]", async () => {
    await running.service.clients.update("news", { refresh_tokens: { rotate: true } });
    const news = clientAt(running, "openid", NEWS);
    const { refresh_token } = await news.signIn(ADA);
    const refresh: Send = (headers) =>
      news.token({ grant_type: "refresh_token", refresh_token }, { authorization: basic(NEWS), ...headers });
    const first = await refresh({ dpop: await proof(mine) });
    expect(first.body["token_type"]).toBe("DPoP");
    for (const headers of [{}, { dpop: await proof(other) }])
      expect(await refresh(headers)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
    const again = await refresh({ dpop: await proof(mine) });
    expect(again.body).toMatchObject({ access_token: first.body["access_token"], token_type: "DPoP" });
    // The refresh token itself is bound to no key.
    const next = String(first.body["refresh_token"]);
    const bearer = await news.refresh(next);
    expect(bearer.body["token_type"]).toBe("bearer");
    const bound = await news.token(
      { grant_type: "refresh_token", refresh_token: next },
      { authorization: basic(NEWS), dpop: await proof(mine) },
    );
    expect(bound.body["error"]).toBe("invalid_grant");
  });
});

describe("wrong proofs", () => {
  it("take points of their address, and stop only further wrong ones [D-STRANGER-9]", async () => {
    const { body } = await exchangeOf(await issue(app))({ dpop: await proof(mine) });
    const refresh = refreshOf(body["refresh_token"]);
    const wrong = await Promise.all(Array.from({ length: 50 }, () => refresh({ dpop: "x.y.z" })));
    expect(new Set(wrong.map((answer) => answer.body["error"]))).toEqual(new Set(["invalid_dpop_proof"]));
    expect(wrong.filter(({ headers }) => headers.has("retry-after"))).toHaveLength(30);
    const { items: records } = await running.service.audit.list({
      action: "client.authentication",
      limit: 1_000,
    });
    expect(records.map((record) => record.count).toSorted((one, two) => two - one)).toEqual([
      40,
      ...Array<number>(10).fill(1),
    ]);
    expect(records.find((record) => record.count === 1)).toMatchObject({
      subject: "app",
      reason: "proof",
    });
    expect((await refresh({ dpop: await proof(mine) })).status).toBe(200);
  });

  it("that are missing or repeated take none [D-STRANGER-9]", async () => {
    const used = await usedProof();
    const { body } = await exchangeOf(await issue(app))({ dpop: await proof(mine) });
    const refresh = refreshOf(body["refresh_token"]);
    for (let sent = 0; sent < 25; sent += 1)
      for (const headers of [{}, { dpop: used }])
        expect((await refresh(headers as Record<string, string>)).headers.has("retry-after")).toBe(false);
    expect((await refresh({ dpop: "x.y.z" })).headers.has("retry-after")).toBe(false);
  });
});
