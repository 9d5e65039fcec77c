import { describe, expect, it } from "@jest/globals";
import { fixedSigningKeys } from "../../../accounts/keys/signing-keys.ts";

describe("configured keys", () => {
  it("are listed, and can be changed only in the configuration [D-KEYS-4]", async () => {
    const keys = fixedSigningKeys([
      { kty: "RSA", kid: "a", alg: "RS256" },
      { kty: "EC", crv: "P-256", kid: "b", alg: "ES256" },
    ]);
    const unknown = { published_at: null, signs_from: null, retires_at: null, published_until: null };
    await expect(keys.list()).resolves.toEqual([
      { kid: "a", alg: "RS256", state: "signing", ...unknown },
      { kid: "b", alg: "ES256", state: "signing", ...unknown },
    ]);
    const refusal = { code: "configured_elsewhere", message: expect.stringContaining("config.keys.signing") };
    await expect(keys.rotate()).rejects.toMatchObject(refusal);
    await expect(keys.retire("a")).rejects.toMatchObject(refusal);
  });
});
