import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import ipaddr from "ipaddr.js";
import { remoteAddress, requestedHost } from "../../compat/forwarded.ts";
import { EndpointError } from "../../compat/errors.ts";
import { Fields, parseFields } from "../../compat/form-fields.ts";
import { plainBasic } from "../../compat/client-credentials.ts";
import { callerNetwork } from "../../accounts/limits/networks.ts";
import { appendToQuery } from "../../provider/responses.ts";
import { createPersonFields } from "../../accounts/profile-fields.ts";
import { defaults } from "../../config/schema.ts";
import { ALL_FIELDS, createClaims } from "../../provider/claims.ts";
import { rounds } from "../rounds.ts";

/** Text that may be in a parameter: whole Unicode, no NUL. */
const text = fc.string({ unit: "binary" }).filter((value) => value.isWellFormed() && !value.includes("\0"));
const pairs = fc.array(fc.tuple(text, text), { maxLength: 20 });

const percent = (value: string): string => encodeURIComponent(value).replaceAll("'", "%27");

function refusal(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error instanceof EndpointError ? [error.status, error.error] : error;
  }
}

describe("parameters", () => {
  it("are decoded from any encoder, in order and with repeats", () => {
    fc.assert(
      fc.property(pairs, (entries) => {
        const named = entries.map(([name, value]) => [`n${name}`, value] as [string, string]);
        for (const sent of [
          new URLSearchParams(named).toString(),
          named.map(([name, value]) => `${percent(name)}=${percent(value)}`).join("&"),
          named.map(([name, value]) => `&${percent(name).toLowerCase()}=${percent(value)}&`).join("&"),
        ]) {
          expect(parseFields(sent).entries()).toEqual([...new URLSearchParams(sent)]);
        }
        const fields = parseFields(new URLSearchParams(named).toString());
        expect(fields.entries()).toEqual(named);
        expect(parseFields(fields.toString()).entries()).toEqual(named);
      }),
      { numRuns: 300 },
    );
  });

  it("are refused only for invalid escapes, invalid UTF-8 and NUL [D-AUTHZ-11]", () => {
    const piece = fc.constantFrom(
      ..."%|%4|%zz|%C3|%A9|%e2%82%ac|%F0%9F|%00|%EF%BF%BD|%ED%A0%80|%C0%80|%41|&|=|+|a|b=c|;|[]|__proto__".split(
        "|",
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (parts) => {
        const sent = parts.join("");
        const read = [...new URLSearchParams(sent)];
        // The platform replaces invalid UTF-8 by U+FFFD, except where U+FFFD itself was sent.
        const marked = [...new URLSearchParams(sent.replaceAll("%EF%BF%BD", "r"))].flat().join("");
        const broken = /%(?![0-9A-Fa-f]{2})/.test(sent) || /\0|\uFFFD/.test(marked);
        expect(refusal(() => parseFields(sent).entries())).toEqual(broken ? [400, "invalid_request"] : read);
      }),
      { numRuns: rounds(300, 3_000) },
    );
  });

  it("refuse raw invalid bytes of a decoded body, and more than a hundred fields", () => {
    expect(refusal(() => parseFields("a=\uFFFD"))).toEqual([400, "invalid_request"]);
    expect(refusal(() => parseFields("a=\0"))).toEqual([400, "invalid_request"]);
    expect(parseFields("a&".repeat(100)).all("a")).toHaveLength(100);
    expect(refusal(() => parseFields("a&".repeat(101)))).toEqual([400, "invalid_request"]);
  });

  it("keep a parameter called __proto__ or constructor as a parameter", () => {
    const fields = parseFields("__proto__=a&constructor=b&toString=c&__proto__=d");
    expect(fields.all("__proto__")).toEqual(["a", "d"]);
    expect(fields.one("constructor")).toBe("b");
    expect(fields.repeated()).toEqual(["__proto__"]);
    expect(fields.one("hasOwnProperty")).toBeUndefined();
    expect(parseFields("a=1").has("toString")).toBe(false);
    expect(Object.getPrototypeOf({})).toBe(Object.prototype);
  });

  it("are removed and set without changes to others", () => {
    fc.assert(
      fc.property(pairs, text, text, (entries, name, value) => {
        const fields = new Fields(entries);
        expect(fields.with(name, value).one(name)).toBe(value);
        expect(fields.without([name]).has(name)).toBe(false);
        const others = entries.filter(([other]) => other !== name);
        expect(fields.with(name, value).entries().slice(0, -1)).toEqual(others);
        expect(fields.entries()).toEqual(entries);
        const repeated = new Set(
          entries.map(([one]) => one).filter((one) => entries.filter(([other]) => other === one).length > 1),
        );
        expect(new Set(fields.repeated())).toEqual(repeated);
      }),
    );
  });
});

describe("Basic credentials", () => {
  const id = fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/);
  const secret = fc.string({ minLength: 1, maxLength: 80, unit: "grapheme-ascii" });

  it("are split at the first colon, with any printable ASCII secret [D-TOKEN-6]", () => {
    fc.assert(
      fc.property(id, secret, fc.constantFrom("Basic", "basic", "BASIC"), (name, word, scheme) => {
        const encoded = Buffer.from(`${name}:${word}`).toString("base64");
        const read = { id: name, secret: word };
        expect(plainBasic(`${scheme} ${encoded}`)).toEqual(read);
        expect(plainBasic(`${scheme}  ${encoded.replaceAll("=", "")} `)).toEqual(read);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    "",
    "Basic",
    "Basic ",
    "Basic =",
    "Basic !!!!",
    "Basic YWJj", // no colon
    "Basic YTpi YTpi",
    "Basic YTpi, Basic YTpi",
    "Basic YTpi\u00e9",
    "Bearer YTpi",
    `Basic ${Buffer.from("a:\0b").toString("base64")}`,
    `Basic ${Buffer.from([97, 58, 0xff]).toString("base64")}`,
  ])("are not read from %j", (header) => {
    expect(plainBasic(header)).toBeUndefined();
  });
});

describe("the response in the query", () => {
  const registered = fc
    .record({
      path: fc.webPath(),
      query: fc.option(
        fc.array(fc.tuple(fc.stringMatching(/^[a-z]{1,3}$/), fc.stringMatching(/^[\w.~+-]*$/))),
      ),
    })
    .map(({ path, query }) => {
      const search = query === null ? "" : `?${query.map(([name, value]) => `x${name}=${value}`).join("&")}`;
      return `https://App.Example:8443${path}${search}`;
    });

  it("echoes the state exactly, for every kind of decoder [AUTHZ-5, D-AUTHZ-10]", () => {
    fc.assert(
      fc.property(registered, text, (address, state) => {
        const answer = appendToQuery(address, { code: "c-1", state });
        expect(new URL(answer).searchParams.getAll("state")).toEqual([state]);
        expect(new URL(answer).searchParams.getAll("code")).toEqual(["c-1"]);
        const raw = answer.slice(answer.lastIndexOf("&state=") + "&state=".length);
        expect(decodeURIComponent(raw)).toBe(state);
        expect(raw).not.toMatch(/[+\s#&]/);
      }),
      { numRuns: 500 },
    );
  });

  it("keeps the registered address character by character [D-AUTHZ-2]", () => {
    fc.assert(
      fc.property(registered, (address) => {
        const answer = appendToQuery(address, { code: "c" });
        expect(answer.startsWith(address)).toBe(true);
        expect(answer.slice(address.length)).toMatch(/^[?&]?code=c$/);
      }),
    );
  });

  it("replaces members of the same name in the registered query", () => {
    expect(
      appendToQuery("https://a/cb?state=old&code=1&iss=x&error=y&tab=2", { code: "n", state: "s" }),
    ).toBe("https://a/cb?tab=2&code=n&state=s");
  });
});

describe("the internal scope", () => {
  const fields = createPersonFields(defaults);
  const claims = createClaims(fields);
  const scope = fc.constantFrom(
    "openid",
    "email",
    "profile",
    "roles",
    "account",
    "admin",
    "offline_access",
    "OPENID",
  );

  it("is never empty and has only known names; openid and roles only where there are ID tokens [D-AUTHZ-7, D-AUTHZ-12]", () => {
    fc.assert(
      fc.property(fc.array(scope), fc.constantFrom("openid", "oauth2"), (scopes, kind) => {
        const inside = claims.effectiveScope(scopes.join(" "), kind).split(" ");
        const wanted = [...claims.ofScope.keys()].filter(
          (one) =>
            scopes.some((each) => each === one) && (kind === "openid" || !["openid", "roles"].includes(one)),
        );
        expect(inside.toSorted()).toEqual(wanted.length === 0 ? [ALL_FIELDS] : wanted.toSorted());
      }),
    );
    expect(claims.effectiveScope(undefined, "openid")).toBe(ALL_FIELDS);
    expect(claims.effectiveScope('open"id', "openid")).toBe('open"id');
  });
});

const ranges = ["10.0.0.0/16", "2001:db8::/32"];

function request(headers: Record<string, string>, address: string): IncomingMessage {
  const rawHeaders = Object.entries(headers).flat();
  return { headers, rawHeaders, socket: { remoteAddress: address } } as unknown as IncomingMessage;
}

const via = (chain: string): string =>
  remoteAddress(request({ "x-forwarded-for": chain }, "10.0.0.1"), ranges);

/** The first four groups, or the IPv4 address, as the platform's URL reads them. */
function network(address: string): string {
  const { hostname } = new URL(`http://${address.includes(":") ? `[${address}]` : address}/`);
  const mapped = /^\[::ffff:(\w+):(\w+)\]$/.exec(hostname);
  if (mapped) {
    const hex = mapped.slice(1).map((group) => group.padStart(4, "0"));
    return Buffer.from(hex.join(""), "hex").join(".");
  }
  if (!hostname.startsWith("[")) return hostname;
  const [left = "", right] = hostname.slice(1, -1).split("::");
  const [head = [], tail = []] = [left, right ?? ""].map((half) => half.split(":").filter(Boolean));
  const zeros = right === undefined ? 0 : 8 - head.length - tail.length;
  return [...head, ...Array<string>(zeros).fill("0"), ...tail].slice(0, 4).join(":");
}

/** Without the deprecated `::1.2.3.4`, which is no address of a caller. */
const ipV6 = fc.ipV6().filter((address) => !/^::\d+\./.test(address));

describe("the caller", () => {
  const stranger = fc.oneof(fc.ipV4(), fc.ipV6()).filter((address) => {
    const parsed = ipaddr.process(address);
    return parsed.range() !== "private" && !parsed.toString().startsWith("2001:db8:");
  });
  const trusted = fc.oneof(
    fc.tuple(fc.nat(255), fc.nat(255)).map(([a, b]) => `10.0.${a}.${b}`),
    fc.tuple(fc.nat(255), fc.nat(255)).map(([a, b]) => `::ffff:10.0.${a}.${b}`),
    fc.nat(0xffff).map((group) => `2001:db8::${group.toString(16)}`),
  );
  const junk = fc.oneof(
    fc.ipV4(),
    fc.constantFrom("unknown", "1.2.3", "_hidden", "10.0.0.1", "::1", "x".repeat(99)),
  );

  it("is the rightmost untrusted address, whatever is on its left [D-TOKEN-22]", () => {
    fc.assert(
      fc.property(fc.array(junk), stranger, fc.array(trusted), trusted, (forged, real, hops, socket) => {
        const chain = [...forged, real, ...hops].join(", ");
        expect(remoteAddress(request({ "x-forwarded-for": chain }, socket), ranges)).toBe(real);
        expect(remoteAddress(request({ "x-forwarded-for": chain }, real), ranges)).toBe(real);
        expect(remoteAddress(request({ "x-forwarded-for": chain }, socket), false)).toBe(socket);
        expect(remoteAddress(request({ "x-forwarded-for": chain }, socket), hops.length + 1)).toBe(real);
      }),
    );
  });

  it("is the leftmost known address if all are trusted or there are more hops than addresses", () => {
    expect(remoteAddress(request({ "x-forwarded-for": "10.0.0.9, 10.0.0.8" }, "10.0.0.1"), ranges)).toBe(
      "10.0.0.9",
    );
    expect(remoteAddress(request({}, "10.0.0.1"), ranges)).toBe("10.0.0.1");
    expect(remoteAddress(request({}, "192.0.2.1"), 1)).toBe("192.0.2.1");
    expect(remoteAddress(request({ "x-forwarded-for": "192.0.2.5" }, "10.0.0.1"), 3)).toBe("192.0.2.5");
  });

  it("is an address without the port that some proxies append", () => {
    expect(via("203.0.113.7:50123")).toBe("203.0.113.7");
    expect(via("203.0.113.7:50123, 10.0.0.9:443")).toBe("203.0.113.7");
    expect(via("[2001:db9::7]:50123, [2001:db8::1]")).toBe("2001:db9::7");
  });

  it("has the host of X-Forwarded-Host only behind a trusted proxy", () => {
    const forwarded = request(
      { host: "inner:1", "x-forwarded-host": "forged.example, login.example" },
      "10.0.0.1",
    );
    expect(requestedHost(forwarded, false)).toBe("inner:1");
    expect(requestedHost(forwarded, ["192.0.2.0/24"])).toBe("inner:1");
    expect(requestedHost(forwarded, ranges)).toBe("login.example");
    expect(requestedHost(forwarded, 1)).toBe("login.example");
    expect(requestedHost(request({ host: "inner:1" }, "10.0.0.1"), 1)).toBe("inner:1");
  });

  it("has one network for all addresses of an IPv6 /64, in any spelling", () => {
    const any = fc.oneof(
      fc.ipV4(),
      ipV6,
      ipV6.map((address) => address.toUpperCase()),
      ipV6.map((address) => ipaddr.parse(address).toString()),
      fc.ipV4().map((address) => `::ffff:${address}`),
      fc.nat(99).map((last) => `fe80::1:2%eth${last}`),
      fc.tuple(fc.nat(3), fc.nat(0xffff)).map(([net, host]) => `2001:db8:0:${net}::${host.toString(16)}`),
    );
    fc.assert(
      fc.property(any, any, (one, other) => {
        expect(callerNetwork(one) === callerNetwork(other)).toBe(
          network(one.split("%")[0] ?? "") === network(other.split("%")[0] ?? ""),
        );
      }),
      { numRuns: rounds(200, 2_000) },
    );
  });
});
