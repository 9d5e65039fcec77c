/** What is stored of the library's models, beside the library that does it by itself. */
import { describe, expect, it, jest } from "@jest/globals";
import { Provider } from "oidc-provider";
import { createSystemClock } from "../../../lib/clock.ts";
import { patchProvider } from "../../../lib/provider/patches.ts";

const ISSUER = "http://127.0.0.1:3000";
const KINDS = [
  "AccessToken",
  "AuthorizationCode",
  "RefreshToken",
  "Grant",
  "Session",
  "Interaction",
  "PushedAuthorizationRequest",
  "ReplayDetection",
] as const;

/** A member of each kind, some that no model keeps, and some without a value. */
const MEMBERS = {
  iat: 1_800_000_000,
  exp: 1_900_000_000,
  jti: "identifier",
  accountId: "ada",
  clientId: "news",
  grantId: "grant",
  scope: "openid email",
  claims: { id_token: { email: null } },
  redirectUri: "https://news.example/callback",
  nonce: undefined,
  rotations: 2,
  iiat: 1_700_000_000,
  uid: "uid",
  authorizations: { news: { sid: "s" } },
  params: { state: 'with " quotes' },
  request: "request",
  format: "opaque",
  unheardOf: "not kept",
};

type Stored = { readonly value: string; readonly payload: Readonly<Record<string, unknown>> };
type Storable = new (members: object) => { getValueAndPayload(): Promise<Stored> };

async function stored(provider: Provider, kind: (typeof KINDS)[number]): Promise<Stored> {
  const Model = Reflect.get(provider, kind) as unknown as Storable;
  const model = new Model({ ...MEMBERS });
  Object.assign(model, MEMBERS);
  return model.getValueAndPayload();
}

describe("what is stored of a model", () => {
  // It warns of its own keys, which nothing here is signed with.
  const warned = jest.spyOn(console, "warn").mockReturnValue();
  const own = new Provider(ISSUER, {});
  const patched = new Provider(ISSUER, {});
  warned.mockRestore();
  patchProvider(patched, {
    checkSecret: () => Promise.resolve(false),
    recordInHand: () => undefined,
    deliverLogout: () => Promise.resolve(),
    clock: createSystemClock(),
  });

  it.each(KINDS)("%s is what the library stores", async (kind) => {
    const expected = await stored(own, kind);
    const { value, payload } = await stored(patched, kind);
    expect(Object.keys(payload).length).toBeGreaterThan(3);
    expect(value).toBe(expected.value);
    // Members that the patches keep in addition, and a member of access tokens that has no value here.
    const { generations: _kept, ...same } = payload;
    const { extra: _none, ...theirs } = expected.payload;
    expect(_none).toBeUndefined();
    expect(same).toEqual(theirs);
  });
});
