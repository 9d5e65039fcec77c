import { createSecretKey, randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { assert, property, string } from "fast-check";
import { createSealer, decrypt, deriveKey, encrypt, hmac, hmacOfMany } from "../../core/sealing.ts";

const secret = (): string => randomBytes(32).toString("base64");

/** The same text with one changed bit. */
function tampered(sealed: string, byte: number): string {
  const raw = Buffer.from(sealed, "base64url");
  raw[byte] = (raw[byte] ?? 0) ^ 1;
  return raw.toString("base64url");
}

describe("sealing", () => {
  const key = deriveKey("secret", "purpose");

  it("opens with the same key and context, whatever the text is", () => {
    assert(
      property(string({ unit: "grapheme" }), string(), (text, context) => {
        expect(decrypt(key, context, encrypt(key, context, text))).toBe(text);
      }),
    );
  });

  it("reveals nothing of the text, and differs each time", () => {
    const [one, other] = [encrypt(key, "c", "receiver password"), encrypt(key, "c", "receiver password")];
    expect(one).not.toBe(other);
    expect(Buffer.from(one, "base64url").toString("latin1")).not.toContain("receiver");
  });

  it("opens nothing with another key or context, or after a change of one bit", () => {
    const sealed = encrypt(key, "here", "text");
    expect(decrypt(deriveKey("secret", "other purpose"), "here", sealed)).toBeUndefined();
    expect(decrypt(key, "there", sealed)).toBeUndefined();
    const bytes = Buffer.from(sealed, "base64url").length;
    for (let byte = 0; byte < bytes; byte += 1)
      expect(decrypt(key, "here", tampered(sealed, byte))).toBeUndefined();
  });

  it("opens nothing that is too short or not Base64", () => {
    for (const text of ["", "AAAA", "x".repeat(27), "***", "\0"])
      expect(decrypt(key, "c", text)).toBeUndefined();
    // A shortened tag is invalid.
    const sealed = Buffer.from(encrypt(key, "c", ""), "base64url");
    expect(decrypt(key, "c", sealed.subarray(0, -1).toString("base64url"))).toBeUndefined();
  });

  it("opens a text as it was sealed, and in no other spelling", () => {
    for (const text of ["", "1", "22"]) {
      const sealed = encrypt(key, "c", text);
      for (const other of [`${sealed}A`, `${sealed}=`, `${sealed}*`, ` ${sealed}`, `${sealed}\n`])
        expect(decrypt(key, "c", other)).toBeUndefined();
      expect(decrypt(key, "c", sealed)).toBe(text);
    }
  });

  it("derives different keys for different purposes and secrets", () => {
    const keys = [
      deriveKey("a", "x"),
      deriveKey("a", "y"),
      deriveKey("b", "x"),
      deriveKey(Buffer.from("b"), "x"),
    ];
    expect(keys.map((each) => each.symmetricKeySize)).toEqual([32, 32, 32, 32]);
    expect(new Set(keys.map((each) => each.export().toString("hex"))).size).toBe(3);
    expect(hmac(keys[0]!, "t")).toMatch(/^[\w-]{43}$/);
    expect(hmac(keys[0]!, "t")).not.toBe(hmac(keys[1]!, "t"));
  });

  it("digests many texts as it digests one, with keys of any length", () => {
    for (const length of [1, 32, 64, 65, 200]) {
      const secretKey = createSecretKey(randomBytes(length));
      const many = hmacOfMany(secretKey);
      assert(property(string({ unit: "binary" }), (text) => expect(many(text)).toBe(hmac(secretKey, text))));
    }
  });
});

describe("a sealer", () => {
  it("seals with the first key and opens with all, so that keys can be rotated", () => {
    const [old, fresh] = [secret(), secret()];
    const sealed = createSealer([old]).seal("signing-keys", "text");
    const rotated = createSealer([fresh, old]);
    expect(rotated.open("signing-keys", sealed)).toBe("text");
    const again = rotated.seal("signing-keys", "text");
    expect(createSealer([fresh]).open("signing-keys", again)).toBe("text");
    expect(() => createSealer([old]).open("signing-keys", again)).toThrow(
      expect.objectContaining({ code: "unusable_secrets" }),
    );
  });

  it("names the context in its error, not the content", () => {
    const sealed = createSealer([secret()]).seal("receiver news", "text");
    const { message } = attempt(() => createSealer([secret()]).open("receiver news", sealed));
    expect(message).toContain("receiver");
    expect(message).not.toMatch(/news|text/);
  });

  it("needs a key", () => {
    expect(attempt(() => createSealer([]))).toMatchObject({ code: "unusable_secrets" });
  });
});

function attempt(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}
