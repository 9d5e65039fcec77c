import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { browserFamily, originOf, shortenedAddress } from "../../../records/audit/origin.ts";

describe("an address", () => {
  it.each([
    ["192.0.2.77", "192.0.2.0/24"],
    ["255.255.255.255", "255.255.255.0/24"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"],
    ["2001:db8::1", "2001:db8::/48"],
    ["::ffff:192.0.2.77", "192.0.2.0/24"],
    ["::1", "::/48"],
    ["fe80::1%eth0", "fe80::/48"],
  ])("%s is kept as %s [D-AUDIT-1]", (address, network) => {
    expect(shortenedAddress(address)).toBe(network);
  });

  it.each([
    "",
    "unknown",
    "ada@example.com",
    "192.0.2.7:80",
    "1.2.3.4, 5.6.7.8",
    "x".repeat(10_000),
    "\0",
    "::%",
  ])("that is invalid is not kept: %j", (text) => {
    const kept = shortenedAddress(text);
    expect(kept === undefined || /^[\da-f.:]+\/(?:24|48)$/.test(kept)).toBe(true);
    expect(kept ?? "").not.toContain("ada");
  });

  it("is never kept in more detail than its network", () => {
    const byte = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(byte, byte, byte, byte, (a, b, c, d) => {
        expect(shortenedAddress(`${a}.${b}.${c}.${d}`)).toBe(`${a}.${b}.${c}.0/24`);
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(shortenedAddress(text) ?? "::/48").toMatch(/^[\da-f.:]+\/(?:24|48)$/);
      }),
    );
  });
});

const UA = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)";

describe("a browser", () => {
  it.each([
    [`${UA} Chrome/131.0.0.0 Safari/537.36`, "Chrome"],
    [`${UA} HeadlessChrome/131.0.0.0 Safari/537.36`, "Chrome"],
    [`${UA} Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0`, "Edge"],
    [`${UA} Chrome/131.0.0.0 Safari/537.36 OPR/116.0.0.0`, "Opera"],
    [`${UA} SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36`, "Samsung Internet"],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Firefox"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) FxiOS/133.0 Mobile Safari/605.1.15", "Firefox"],
    [
      "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
      "Safari",
    ],
    ["curl/8.5.0", "other"],
    ["ada@example.com", "other"],
    [`${"x".repeat(600)} Firefox/1`, "other"],
    ["", undefined],
    [undefined, undefined],
  ])("%s is %s", (userAgent, family) => {
    expect(browserFamily(userAgent)).toBe(family);
  });

  it("is always one of the known names, whatever the header says", () => {
    const words = ["Edge", "Opera", "Samsung Internet", "Firefox", "Chrome", "Safari", "other", undefined];
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => expect(words).toContain(browserFamily(text))),
    );
  });
});

it("unknown parts of the origin are left out", () => {
  expect(originOf("192.0.2.1", "curl/8")).toEqual({ address: "192.0.2.0/24", browser: "other" });
  expect(originOf("unknown", undefined)).toEqual({});
});
