/** What `doctor` says of a provider with a typing error in each of its settings. */
import { afterEach, describe, expect, it } from "@jest/globals";
import type { ProviderEndpoint, ProviderLie } from "../../testing/index.ts";
import { CALLBACK, createStage, type Stage } from "./stage.ts";

const stages: Stage[] = [];
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.close();
});

type Settings = NonNullable<Parameters<typeof createStage>[0]>;

async function examined(
  settings: Settings,
  prepare: (stage: Stage) => void = () => undefined,
): Promise<string[]> {
  const stage = await createStage({
    ...settings,
    options: { ...settings.options, redirect_uris: [CALLBACK] },
  });
  stages.push(stage);
  prepare(stage);
  const found = await stage.upstream.examine(settings.key ?? "test", [CALLBACK]);
  for (const { advice } of found) expect(advice).toMatch(/^[A-Z].*\.$/);
  return found.map(({ problem }) => problem);
}

describe("a provider is examined", () => {
  it("without asking anybody to sign in, and is fine [D-PROV-36]", async () => {
    expect(await examined({})).toEqual([]);
    const { provider, events, lines } = stages[0]!;
    expect(provider.requests.map(({ endpoint }) => endpoint)).toEqual([
      "discovery",
      "discovery",
      "token",
      "authorize",
    ]);
    expect([events, lines]).toEqual([[], []]);
  });

  it.each<[what: string, provider: NonNullable<Settings["provider"]>, problem: RegExp]>([
    ["client_id", { client_id: "sing-in" }, /does not accept client_id and client_secret/],
    [
      "client_secret",
      { client_secret: "a-secret-with-a-typing-error" },
      /does not accept client_id and client_secret/,
    ],
    [
      "issuer: its host",
      { issuer: "https://provider.invalid" },
      /host of https:\/\/provider\.invalid\/.* is not known/,
    ],
    [
      "issuer: its port",
      { issuer: "http://localhost:9" },
      /can't be reached at http:\/\/localhost:9\/.*ECONNREFUSED/,
    ],
    [
      "issuer: an inner address",
      { issuer: "https://169.254.169.254" },
      /an address that requests must not go to/,
    ],
  ])("with a typing error in %s [D-PROV-36]", async (_what, provider, problem) => {
    expect(await examined({ provider })).toEqual([expect.stringMatching(problem)]);
  });

  it("with a slash too much, and with a path that is not there [D-PROV-36]", async () => {
    for (const [end, problem] of [
      ["/", /that of the issuer http:\/\/localhost:\d+, not of http:\/\/localhost:\d+\/\./],
      ["/realms/crop", /There is no discovery document at .*\/realms\/crop\/\.well-known.*status 404/],
    ] as const) {
      const real = await createStage();
      stages.push(real);
      if (end !== "/") real.provider.lies.set("not found", "discovery");
      const provider = { ...real.provider.settings, issuer: `${real.provider.issuer}${end}` };
      expect(await examined({ provider })).toEqual([expect.stringMatching(problem)]);
    }
  });

  it("with a redirect address that it does not know [D-PROV-36]", async () => {
    const stage = await createStage({ options: { redirect_uris: [CALLBACK] } });
    stages.push(stage);
    const other = "https://sign-in.example/openid/providers/test/callback";
    expect(await stage.upstream.examine("test", [CALLBACK, other])).toEqual([
      {
        problem: `The provider test does not accept the redirect address ${other}.`,
        advice: expect.stringContaining("Add exactly this address"),
      },
    ]);
  });

  it.each<[lie: ProviderLie, at: ProviderEndpoint, problem: RegExp]>([
    ["silence", "discovery", /can't be reached at .* \(timeout\)/],
    ["a page", "discovery", /There is no discovery document at .* \(not json\)/],
    ["status 500", "discovery", /There is no discovery document at .* \(status 500\)/],
    ["other issuer in discovery", "discovery", /that of the issuer https:\/\/issuer\.example, not of/],
    ["no token endpoint", "discovery", /is not usable \(discovery token_endpoint\)/],
    ["weak algorithms", "discovery", /no algorithm that proves who signed/],
    ["no client secrets", "discovery", /takes no client secrets/],
    ["few scopes", "discovery", /does not list the scopes email, profile/],
    [
      "inner endpoint",
      "discovery",
      /token endpoint of the provider test can't be reached \(address_refused\)/,
    ],
    ["silence", "token", /token endpoint of the provider test can't be reached \(timeout\)/],
  ])("that does this: %s (%s) [D-PROV-36]", async (lie, at, problem) => {
    const settings = lie === "silence" ? { timeoutMs: 500 } : {};
    expect(await examined(settings, ({ provider }) => provider.lies.set(lie, at))).toEqual([
      expect.stringMatching(problem),
    ]);
  });
});

/** What Microsoft and Google answer, in their own ways. */
describe("providers with answers of their own", () => {
  it.each<[text: string, problem: RegExp]>([
    [
      "AADSTS50011: The redirect URI specified in the request does not match",
      /does not accept the redirect address/,
    ],
    ["AADSTS700016: Application with identifier was not found", /does not know the client_id/],
  ])("%s [D-PROV-36]", async (text, problem) => {
    const found = await examined(
      {},
      ({ provider }) => (provider.authorizationPage = { status: 200, body: text }),
    );
    expect(found).toEqual([expect.stringMatching(problem)]);
  });

  it("Google's errors are encoded [D-PROV-36]", async () => {
    const authError = Buffer.from("\n\u0015redirect_uri_mismatch\u0012\u00b0").toString("base64");
    const location = `https://accounts.google.com/signin/oauth/error?authError=${encodeURIComponent(authError)}`;
    const found = await examined({}, ({ provider }) => {
      provider.authorizationPage = { status: 302, headers: { location }, body: "" };
    });
    expect(found).toEqual([expect.stringMatching(/does not accept the redirect address/)]);
  });

  it("GitHub asks for a sign-in first, which says nothing [D-PROV-36]", async () => {
    const found = await examined({}, ({ provider }) => {
      provider.authorizationPage = {
        status: 302,
        headers: { location: "https://github.com/login" },
        body: "",
      };
    });
    expect(found).toEqual([]);
  });
});
