import { describe, expect, it } from "@jest/globals";
import { callerNetwork, callerNetworks, wideNetwork } from "../../../accounts/limits/networks.ts";

const shares = (address: string) => callerNetworks(address).map(({ share }) => share);

describe("the network of a caller", () => {
  it.each([
    ["192.0.2.1", "::ffff:192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:DB8:0001:0002::9"],
    ["2001:db8::1", "2001:db8:0:0:ffff::"],
    ["fe80::1%eth0", "fe80::2"],
  ])("is the same for %s and %s [D-TOKEN-21]", (one, other) => {
    expect(callerNetwork(one)).toBe(callerNetwork(other));
  });

  it("differs for each IPv4 address and each IPv6 /64 [D-TOKEN-21]", () => {
    const addresses = ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8::1", "::1"];
    expect(new Set(addresses.map((address) => callerNetwork(address))).size).toBe(addresses.length);
  });

  it("is also the /48 of an IPv6 address, and nothing wider than an IPv4 address [D-STRANGER-2]", () => {
    expect(shares("2001:db8:1:2::1")).toEqual([1, 10]);
    expect(shares("::ffff:192.0.2.1")).toEqual([1]);
    expect(shares("unknown")).toEqual([1]);
    expect(callerNetworks("2001:db8:1:2::1")[1]).toEqual(callerNetworks("2001:db8:1:ffff::1")[1]);
    expect(callerNetworks("2001:db8:1:2::1")[1]).not.toEqual(callerNetworks("2001:db8:2:2::1")[1]);
  });

  it("is in a wide one: an IPv4 /24 or an IPv6 /48 [D-STRANGER-2]", () => {
    for (const [one, other] of [
      ["192.0.2.1", "::ffff:192.0.2.255"],
      ["2001:db8:1:2::1", "2001:DB8:0001:ffff::9"],
    ] as const)
      expect(wideNetwork(one)).toBe(wideNetwork(other));
    const different = ["192.0.2.1", "192.0.3.1", "2001:db8:1::1", "2001:db8:2::1", "unknown"];
    expect(new Set(different.map((address) => wideNetwork(address))).size).toBe(different.length);
  });

  it("is at most 64 characters long, whatever a proxy writes", () => {
    expect(callerNetwork("unknown")).toBe("unknown");
    expect(callerNetwork("_hidden".repeat(2_000))).toHaveLength(64);
    expect(callerNetwork(`fe80::1%${"x".repeat(10_000)}`)).toHaveLength(64);
  });
});
