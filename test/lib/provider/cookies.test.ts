import { describe, expect, it } from "@jest/globals";
import { cookieSignatures } from "../../../lib/provider/cookies.ts";

const [OLD, FRESH] = ["the old key of the cookies", "the fresh key of the cookies"];

describe("signatures of cookies", () => {
  it("are made with the first key and verified with all, so that keys can be rotated", () => {
    const before = cookieSignatures([OLD]);
    const rotated = cookieSignatures([FRESH, OLD]);
    const signature = before.sign("session=id");
    expect(signature).toMatch(/^[\w-]{43}$/);
    expect(rotated.verify("session=id", signature)).toBe(true);
    // Not 1: Koa's cookies would sign again, and forget path, domain and lifetime.
    expect(rotated.index("session=id", signature)).toBe(0);
    expect(rotated.index("session=id", rotated.sign("session=id"))).toBe(0);
    expect(before.index("session=id", rotated.sign("session=id"))).toBe(-1);
  });

  it("fit no other name, value or key, and nothing that was cut or made longer", () => {
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

  it("can't be made without a key", () => {
    expect(() => cookieSignatures([])).toThrow(TypeError);
  });
});
