/** Signing in with a provider: who comes back. */
import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, it } from "@jest/globals";
import { createTestProvider } from "../../testing/index.ts";
import { PROVIDER_TIMEOUT_MS } from "../../upstream/upstream.ts";
import { CALLBACK, createStage, type Stage } from "./stage.ts";

const stages: Stage[] = [];
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.close();
});

async function opened(...settings: Parameters<typeof createStage>): Promise<Stage> {
  const stage = await createStage(...settings);
  stages.push(stage);
  return stage;
}

describe("a provider that is honest", () => {
  it("says who it is, with PKCE, state and nonce [D-PROV-20]", async () => {
    const stage = await opened();
    const { provider, clock, upstream } = stage;
    const identity = await stage.travel();
    expect(identity).toEqual({
      provider: "test",
      issuer: provider.issuer,
      subject: "ada",
      email: "ada@example.org",
      vouched: false,
      auth_time: Math.floor(clock.now() / 1000),
      mfa: false,
    });
    const [, authorization, token] = provider.requests;
    expect(authorization?.parameters).toEqual({
      client_id: provider.client_id,
      response_type: "code",
      redirect_uri: CALLBACK,
      scope: "openid email profile",
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: "S256",
    });
    expect(token?.parameters).toMatchObject({ redirect_uri: CALLBACK, code_verifier: expect.anything() });
    const [one, two] = [
      await upstream.begin("test", { redirectUri: CALLBACK }),
      await upstream.begin("test", { redirectUri: CALLBACK }),
    ];
    expect(new Set([...Object.values(one.trip), ...Object.values(two.trip)]).size).toBe(8);
  });

  it("leads back to the first page if the person goes back there [D-PROV-31]", async () => {
    const stage = await opened();
    stage.provider.signIn(undefined);
    await expect(stage.travel()).rejects.toMatchObject({ reason: "cancelled" });
    // That is no fault.
    expect(stage.lines).toEqual([]);
  });

  it("believes no error of a stranger who does not know the state [D-PROV-31]", async () => {
    const { upstream } = await opened();
    const { trip } = await upstream.begin("test", { redirectUri: CALLBACK });
    const answer = new URLSearchParams({ error: "access_denied", state: "another" });
    await expect(upstream.finish(trip, answer)).rejects.toMatchObject({ reason: "lied" });
  });

  it("counts what began, ended and failed, by provider [D-PROV-32]", async () => {
    const stage = await opened();
    await stage.travel();
    stage.provider.lies.set("wrong key");
    await expect(stage.travel()).rejects.toThrow();
    const seconds = expect.any(Number);
    expect(stage.events).toEqual([
      ["started", { provider: "test" }],
      ["finished", { provider: "test", seconds }],
      ["started", { provider: "test" }],
      ["failed", { provider: "test", reason: "lied", seconds }],
    ]);
  });

  it("gets the secret in the form, or in the header if it takes nothing else", async () => {
    const stage = await opened();
    await stage.travel();
    expect(tokenRequest(stage)?.parameters["client_secret"]).toBe(stage.provider.client_secret);
    const other = await opened();
    other.provider.lies.set("secrets in the header only");
    await other.travel();
    expect(tokenRequest(other)?.parameters).not.toHaveProperty("client_secret");
    expect(tokenRequest(other)?.authorization).toMatch(/^Basic /);
  });
});

const tokenRequest = ({ provider }: Stage) =>
  provider.requests.findLast(({ endpoint }) => endpoint === "token");

const countOf = ({ provider }: Stage, wanted: string): number =>
  provider.requests.filter(({ endpoint }) => endpoint === wanted).length;

describe("the documents of a provider", () => {
  it("are kept: the discovery document for an hour, keys for ten minutes [D-PROV-33]", async () => {
    const stage = await opened();
    await Promise.all([stage.travel(), stage.travel(), stage.travel()]);
    expect([countOf(stage, "discovery"), countOf(stage, "keys")]).toEqual([1, 1]);
    stage.clock.advance(599);
    await stage.travel();
    expect([countOf(stage, "discovery"), countOf(stage, "keys")]).toEqual([1, 1]);
    stage.clock.advance(1);
    await stage.travel();
    expect([countOf(stage, "discovery"), countOf(stage, "keys")]).toEqual([1, 2]);
    stage.clock.advance(3000);
    const asked = stage.provider.next("discovery");
    await stage.travel();
    await asked;
    expect([countOf(stage, "discovery"), countOf(stage, "keys")]).toEqual([2, 3]);
  });

  it("are asked for again when a key is not known, once a minute at most [D-PROV-33]", async () => {
    const stage = await opened();
    await stage.travel();
    stage.clock.advance(60);
    stage.provider.rotateKey();
    await stage.travel();
    expect(countOf(stage, "keys")).toBe(2);
    stage.provider.lies.set("unknown key");
    for (let times = 0; times < 3; times += 1)
      await expect(stage.travel()).rejects.toMatchObject({ reason: "lied" });
    expect(countOf(stage, "keys")).toBe(2);
    stage.clock.advance(60);
    await expect(stage.travel()).rejects.toMatchObject({ reason: "lied" });
    expect(countOf(stage, "keys")).toBe(3);
  });

  it("serve for a day when the provider has lost its discovery document [D-PROV-33]", async () => {
    const stage = await opened();
    await stage.travel();
    stage.provider.lies.set("status 500", "discovery");
    stage.clock.advance(86_399);
    const asked = stage.provider.next("discovery");
    await stage.travel();
    await asked;
    stage.clock.advance(1);
    await expect(stage.travel()).rejects.toMatchObject({ reason: "refused" });
    stage.provider.lies.clear();
    await stage.travel();
  });
});

describe("a provider that does not answer", () => {
  it("delays no other, and ends when the service closes [D-PROV-34]", async () => {
    const other = await createTestProvider();
    const stage = await opened({ providers: { other: other.settings } });
    try {
      stage.provider.lies.set("silence", "discovery");
      const asked = stage.provider.next("discovery");
      const waiting = Array.from({ length: 20 }, () => stage.travel().catch((error: unknown) => error));
      await asked;
      const { url, trip } = await stage.upstream.begin("other", { redirectUri: CALLBACK });
      other.clock = stage.clock;
      other.signIn({ sub: "bob" });
      const { searchParams } = new URL((await other.visit(url)).url);
      await expect(stage.upstream.finish(trip, searchParams)).resolves.toMatchObject({ subject: "bob" });
      expect(countOf(stage, "discovery")).toBe(1);
      await stage.upstream.close();
      for (const fault of await Promise.all(waiting)) expect(fault).toMatchObject({ reason: "slow" });
    } finally {
      await other.close();
    }
  });

  it("is given up before ten seconds are over", () => {
    expect(PROVIDER_TIMEOUT_MS).toBeLessThan(10_000);
  });
});

describe("requests to a provider", () => {
  const production = {
    deployments: { openid: { url: "https://sign-in.example" } },
    keys: { secrets: [randomBytes(32).toString("base64")] },
    storage: "sqlite:/nowhere/storage.db",
    proxy: false,
    interactions: { theme: { name: "Corp" } },
  } as const;

  it("go to loopback in production only with `allowPrivate` [D-PROV-35]", async () => {
    const allowed = await opened({ config: production, provider: { allowPrivate: true } });
    await expect(allowed.travel()).resolves.toMatchObject({ subject: "ada" });
  });

  it.each([
    "https://169.254.169.254",
    "https://10.0.0.1",
    "https://[::ffff:127.0.0.1]",
    "https://100.100.100.200",
  ])("don't go to %s in production [D-PROV-35]", async (issuer) => {
    const stage = await opened({ config: production, provider: { issuer } });
    const { upstream } = stage;
    await expect(upstream.begin("test", { redirectUri: CALLBACK })).rejects.toMatchObject({
      reason: "lied",
      detail: "address_refused",
    });
  });

  it.each(["https://169.254.169.254", "https://100.100.100.200"])(
    "never go to %s, where clouds keep their secrets [D-PROV-35]",
    async (issuer) => {
      const { upstream } = await opened({ provider: { issuer, allowPrivate: true } });
      await expect(upstream.begin("test", { redirectUri: CALLBACK })).rejects.toMatchObject({
        detail: "address_refused",
      });
    },
  );

  it("are those of the application's `fetch`, with the same limits [D-PROV-35]", async () => {
    const sent: (readonly [string, unknown])[] = [];
    const stage = await opened({
      config: {
        fetch: async (target, init) => {
          sent.push([new Request(target).url, init?.redirect]);
          return fetch(target, init);
        },
      },
    });
    await stage.travel();
    const { issuer } = stage.provider;
    expect(sent).toEqual([
      [`${issuer}/.well-known/openid-configuration`, "manual"],
      [`${issuer}/token`, "manual"],
      [`${issuer}/jwks`, "manual"],
      [`${issuer}/userinfo`, "manual"],
    ]);
    for (const [lie, detail] of [
      ["100 MB", "BODY_TOO_LARGE"],
      ["inner redirect", "status_302"],
    ] as const) {
      stage.provider.lies.clear();
      stage.provider.lies.set(lie);
      await expect(stage.travel()).rejects.toMatchObject({ reason: "lied", detail });
    }
    const open = await opened({
      provider: { issuer: "https://issuer.example" },
      config: {
        fetch: async () =>
          Response.json({
            issuer: "https://issuer.example",
            authorization_endpoint: "https://issuer.example/authorize",
            token_endpoint: "http://issuer.example/token",
            jwks_uri: "https://issuer.example/jwks",
          }),
      },
    });
    const { trip } = await open.upstream.begin("test", { redirectUri: CALLBACK });
    const answer = new URLSearchParams({ state: trip.state, code: "a-code" });
    await expect(open.upstream.finish(trip, answer)).rejects.toMatchObject({ detail: "address_refused" });
  });
});
