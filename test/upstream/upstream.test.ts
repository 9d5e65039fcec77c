/** Signing in with a provider: who comes back. */
import { afterEach, describe, expect, it } from "@jest/globals";
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
});
