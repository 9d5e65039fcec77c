import { describe, expect, it } from "@jest/globals";
import { cookieSignatures } from "../../../provider/sessions/cookies.ts";

const [OLD, FRESH] = ["the old key of the cookies", "the fresh key of the cookies"];

describe("cookie signatures", () => {
  it("use the first key and verify with all, so that keys can be rotated", () => {
    const before = cookieSignatures([OLD]);
    const rotated = cookieSignatures([FRESH, OLD]);
    const signature = before.sign("session=id");
    expect(signature).toMatch(/^[\w-]{43}$/);
    expect(rotated.verify("session=id", signature)).toBe(true);
    // With 1, Koa would sign the cookie again and lose its path, domain and lifetime.
    expect(rotated.index("session=id", signature)).toBe(0);
    expect(rotated.index("session=id", rotated.sign("session=id"))).toBe(0);
    expect(before.index("session=id", rotated.sign("session=id"))).toBe(-1);
  });

  it("are invalid for another name, value or key, or if they are shortened or extended", () => {
    const signatures = cookieSignatures([OLD]);
    const signature = signatures.sign("session=id");
    const others = [
      "",
      signature.slice(1),
      `${signature}A`,
      `ä${signature.slice(1)}`,
      signature.toLowerCase(),
    ];
    for (const other of others) expect(signatures.index("session=id", other)).toBe(-1);
    for (const data of ["session=other", "other=id", ""])
      expect(signatures.verify(data, signature)).toBe(false);
  });

  it("need a key", () => {
    expect(() => cookieSignatures([])).toThrow(TypeError);
  });
});
