import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { InvalidNotification, rememberInMemory, verifyNotification } from "../../notifier/index.ts";
import { isSigned, signatureHeader, signingKey } from "../../receiver/signature.ts";
import { namedBlock } from "../examples/documents.ts";
import { BODY, OLD_SECRET, SECRET } from "./attempts.ts";

const now = (): number => 1_763_000_000_000;
const signed = (body: string | Buffer, secret = SECRET): Record<string, string> => ({
  "webhook-id": "msg_1",
  "webhook-timestamp": "1763000000",
  "webhook-signature": new Webhook(secret).sign("msg_1", new Date(now()), body),
});

describe("verifyNotification", () => {
  it("takes what the library of Standard Webhooks has signed, as text, bytes, and with either secret [D-NOTIFY-11]", () => {
    const expected = { id: "msg_1", ...(JSON.parse(BODY) as object) };
    for (const body of [BODY, Buffer.from(BODY)]) {
      expect(verifyNotification(signed(BODY), body, [SECRET], { now })).toEqual(expected);
      expect(verifyNotification(signed(BODY, OLD_SECRET), body, [SECRET, OLD_SECRET], { now })).toEqual(
        expected,
      );
      expect(verifyNotification(new Headers(signed(BODY)), body, [SECRET], { now })).toEqual(expected);
    }
  });

  it("takes the request that the documentation shows", () => {
    const shown = namedBlock("a-received-request").code;
    const [head = "", body = ""] = shown.trimEnd().split("\n\n");
    const headers = Object.fromEntries(
      head
        .split("\n")
        .slice(1)
        .map((line) => line.split(": ", 2))
        .map(([name = "", value]) => [name.toLowerCase(), value]),
    );
    const secret = /"(whsec_[^"]*)"/.exec(namedBlock("receive-with-koa").code)![1]!;
    expect(verifyNotification(headers, body, [secret], { now })).toMatchObject({ data: { user_id: 42 } });
    expect(headers["authorization"]).toBe(`Basic ${btoa("shop:the secret prepared for the shop")}`);
  });

  it.each([
    ["another body", { body: `${BODY} ` }, "signature"],
    ["another id", { headers: { "webhook-id": "msg_2" } }, "signature"],
    ["another time", { headers: { "webhook-timestamp": "1763000001" } }, "signature"],
    ["another secret", { secrets: [OLD_SECRET] }, "signature"],
    ["no signature", { headers: { "webhook-signature": undefined } }, "signature"],
    ["a signature of another version", { headers: { "webhook-signature": "v1a,abc v2,abc" } }, "signature"],
    ["an empty signature", { headers: { "webhook-signature": "v1," } }, "signature"],
    ["a time 301 s ago", { now: () => now() + 301_000 }, "timestamp"],
    ["a time 301 s ahead", { now: () => now() - 301_000 }, "timestamp"],
    ["a time that is none", { headers: { "webhook-timestamp": "1e9" } }, "malformed"],
    ["no time", { headers: { "webhook-timestamp": undefined } }, "malformed"],
    ["no id", { headers: { "webhook-id": undefined } }, "malformed"],
    ["an id with a dot", { headers: { "webhook-id": "msg.1" } }, "malformed"],
    ["a header that came twice", { headers: { "webhook-id": ["msg_1", "msg_1"] } }, "malformed"],
  ] as const)("refuses %s", (_what, given, reason) => {
    const {
      headers,
      body,
      secrets,
      now: then,
    }: {
      headers?: Record<string, string | readonly string[] | undefined>;
      body?: string;
      secrets?: readonly string[];
      now?: () => number;
    } = given;
    expect(() =>
      verifyNotification({ ...signed(BODY), ...headers }, body ?? BODY, secrets ?? [SECRET], {
        now: then ?? now,
      }),
    ).toThrow(expect.objectContaining({ code: "invalid_notification", reason }));
  });

  it("takes a time up to 300 s off, both ways", () => {
    for (const off of [300, -300]) {
      const then = { now: () => now() + off * 1000 };
      expect(verifyNotification(signed(BODY), BODY, [SECRET], then).id).toBe("msg_1");
    }
  });

  it("needs a secret, and says so to the one who calls, without repeating it", () => {
    expect(() => verifyNotification(signed(BODY), BODY, [], { now })).toThrow(TypeError);
    for (const secret of [
      "c2VjcmV0",
      "whsec_",
      "whsec_%%%",
      "whsec_QQ",
      `whsec_${Buffer.alloc(23, 1).toString("base64")}`,
      "",
    ]) {
      expect(() => verifyNotification(signed(BODY), BODY, [secret], { now })).toThrow(
        "secrets: each must be whsec_ and the Base64 of at least 24 bytes",
      );
    }
  });

  it("refuses what is signed and is no notification; the message repeats nothing of it", () => {
    const right = JSON.parse(BODY) as { data: object };
    const withData = (changes: object): object =>
      Object.assign({}, right, { data: Object.assign({}, right.data, changes) });
    const wrong: unknown[] = [
      "",
      "{",
      "null",
      "[]",
      '"DELETE_ACCOUNT"',
      { ...right, notification_type: "UNASSIGNED_FROM_SERVICE" },
      { ...right, data: undefined },
      { ...right, data: [right.data] },
      ...Object.entries({
        user_id: ["1", 1.5, null, 2 ** 53],
        user_uuid: ["1", null, 1],
        user_email: [null, 1],
        timestamp: ["1763000000", 1.5, null],
        services: [[], null, { 1: "1" }, { 1: 1.5 }, { 1: {} }, 1],
      }).flatMap(([member, values]) => [...values, undefined].map((value) => withData({ [member]: value }))),
    ];
    for (const each of wrong) {
      const body = typeof each === "string" ? each : JSON.stringify(each);
      let thrown: unknown;
      try {
        verifyNotification(signed(body), body, [SECRET], { now });
      } catch (error) {
        thrown = error;
      }
      expect([body, thrown instanceof InvalidNotification]).toEqual([body, true]);
      expect((thrown as InvalidNotification).reason).toBe("malformed");
      expect(String(thrown)).not.toContain("example.com");
    }
    const bytes = Buffer.concat([Buffer.from(BODY).subarray(0, -2), Buffer.from([0xff, 0x7d, 0x7d])]);
    const { "webhook-signature": _other, ...headers } = signed(BODY);
    const signature = signatureHeader([signingKey(SECRET)], {
      id: "msg_1",
      timestamp: 1_763_000_000,
      body: bytes,
    });
    expect(() =>
      verifyNotification({ ...headers, "webhook-signature": signature }, bytes, [SECRET], { now }),
    ).toThrow("the body is not JSON");
  });

  it("keeps every service key that there may be [RES-NOTIFY-7]", () => {
    const body = BODY.replace('{"2":null', '{"__proto__":7,"constructor":8,"2":null');
    const { services } = verifyNotification(signed(body), body, [SECRET], { now }).data;
    expect(Object.entries(services)).toContainEqual(["__proto__", 7]);
    expect(JSON.stringify(services)).toBe(
      JSON.stringify((JSON.parse(body) as { data: { services: object } }).data.services),
    );
  });
});

describe("a signature", () => {
  const secretOf = fc
    .uint8Array({ minLength: 24, maxLength: 64 })
    .map((bytes) => `whsec_${Buffer.from(bytes).toString("base64")}`);

  it("is the one of the library of Standard Webhooks, whatever is signed [D-NOTIFY-11]", () => {
    fc.assert(
      fc.property(
        secretOf,
        fc.stringMatching(/^[\w-]{1,40}$/),
        fc.integer({ min: 0, max: 4_000_000_000 }),
        fc.string({ unit: "grapheme" }),
        (secret, id, timestamp, body) => {
          const ours = signatureHeader([signingKey(secret)], { id, timestamp, body });
          expect(ours).toBe(new Webhook(secret).sign(id, new Date(timestamp * 1000), body));
        },
      ),
    );
  });

  it("fits with one of the secrets, among others, and with no other", () => {
    fc.assert(
      fc.property(fc.uniqueArray(secretOf, { minLength: 3, maxLength: 5 }), fc.string(), (secrets, body) => {
        const [a, b, ...rest] = secrets.map(signingKey);
        const what = { id: "msg_1", timestamp: 1, body };
        const header = signatureHeader([a!, b!], what);
        expect(isSigned(`v1a,x ${header} v1,`, [...rest, b!], what)).toBe(true);
        expect(isSigned(header, rest, what)).toBe(false);
        expect(isSigned(header, [a!, b!], { ...what, body: `${body}.` })).toBe(false);
        expect(isSigned(header.replaceAll("v1,", "v2,"), [a!, b!], what)).toBe(false);
      }),
    );
  });
});

describe("the memory of what was handled", () => {
  it("keeps the newest, and no more than it may", async () => {
    const seen = rememberInMemory(3);
    for (const id of ["a", "b", "c", "a", "d"]) await seen.add(id);
    const known = ["a", "b", "c", "d"].map((id) => seen.has(id));
    expect(known).toEqual([false, true, true, true]);
  });
});
