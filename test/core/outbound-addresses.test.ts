import { BlockList } from "node:net";
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { classifyAddress, createAddressRules } from "../../core/outbound-addresses.ts";
import { rounds } from "../rounds.ts";

/** The special-purpose registries of IANA and multicast. */
const NOT_PUBLIC_4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "255.255.255.255/32",
];
const NOT_PUBLIC_6 = [
  "::/128",
  "::1/128",
  "::/96",
  "::ffff:0:0/96",
  "::ffff:0:0:0/96",
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "100::/64",
  "2001::/32",
  "2001:2::/48",
  "2001::/23",
  "2001:10::/28",
  "2001:20::/28",
  "2001:db8::/32",
  "2002::/16",
  "2620:4f:8000::/48",
  "3fff::/20",
  "5f00::/16",
  "fc00::/7",
  "fd00:ec2::254/128",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
  // Unassigned addresses.
  "::/3",
  "4000::/2",
  "8000::/1",
];
const LIFTED_BY_NAME = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::1/128",
  "fc00::/7",
];
const METADATA = ["fd00:ec2::/32", "fd20:ce::/32"];

type Version = 4 | 6;

/** Node's own address lists, independent of the library. */
function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    list.addSubnet(address, Number(bits), address.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}

function isIn(list: BlockList, address: string): boolean {
  return list.check(address, address.includes(":") ? "ipv6" : "ipv4");
}

const BITS = { 4: 32n, 6: 128n } as const;

function toText(value: bigint, version: Version): string {
  const parts = version === 4 ? 4 : 8;
  const size = BITS[version] / BigInt(parts);
  const all = Array.from(
    { length: parts },
    (_, i) => (value >> (size * BigInt(parts - 1 - i))) & ((1n << size) - 1n),
  );
  return version === 4 ? all.join(".") : all.map((part) => part.toString(16)).join(":");
}

function toNumber(address: string): bigint {
  if (!address.includes(":")) return address.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  const [left = "", right = ""] = address.split("::");
  const [before, after] = [left, right].map((side) => side.split(":").filter((part) => part !== ""));
  const zeros = Array<string>(8 - before!.length - after!.length).fill("0");
  return [...before!, ...zeros, ...after!].reduce((sum, part) => sum * 65_536n + BigInt(`0x${part}`), 0n);
}

/** Addresses in a network, at its edges, and next to them. */
function around(network: string): fc.Arbitrary<string> {
  const [address = "", bits] = network.split("/");
  const version: Version = address.includes(":") ? 6 : 4;
  const size = 1n << (BITS[version] - BigInt(bits!));
  const first = toNumber(address);
  const most = (1n << BITS[version]) - 1n;
  const within = (value: bigint): bigint => (value < 0n ? 0n : value > most ? most : value);
  return fc
    .oneof(
      fc.constantFrom(first, first + size - 1n, first - 1n, first + size),
      fc.bigInt({ min: first, max: first + size - 1n }),
    )
    .map((value) => toText(within(value), version));
}

const anyAddress = fc.oneof(
  ...[...NOT_PUBLIC_4, ...NOT_PUBLIC_6].map(around),
  fc.bigInt({ min: 0n, max: (1n << 32n) - 1n }).map((value) => toText(value, 4)),
  fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }).map((value) => toText(value, 6)),
  fc.bigInt({ min: 1n << 125n, max: (1n << 126n) - 1n }).map((value) => toText(value, 6)),
);

const https = (host: string) => ({ protocol: "https:", host }) as const;
const http = (host: string) => ({ protocol: "http:", host }) as const;

describe("the class of an address", () => {
  // Node's list takes an IPv4 network for its mapped addresses too, so there is one for each version.
  const special = { 4: blockList(NOT_PUBLIC_4), 6: blockList(NOT_PUBLIC_6) };
  const lifted = blockList(LIFTED_BY_NAME);
  const metadata = blockList(METADATA);

  it("is public exactly outside the registries of special addresses [D-NOTIFY-18]", () => {
    fc.assert(
      fc.property(anyAddress, (address) => {
        const isSpecial = isIn(special[address.includes(":") ? 6 : 4], address);
        expect([address, classifyAddress(address).class !== "public"]).toEqual([address, isSpecial]);
      }),
      { numRuns: rounds(2_000, 20_000) },
    );
  });

  it("is local for loopback and private networks, and for nothing else [D-NOTIFY-18]", () => {
    fc.assert(
      fc.property(fc.oneof(anyAddress, ...LIFTED_BY_NAME.map(around)), (address) => {
        const isMapped = address.startsWith("0:0:0:0:0:ffff:");
        const isLocal = isIn(lifted, address) && !isIn(metadata, address) && !isMapped;
        expect([address, classifyAddress(address).class === "local"]).toEqual([address, isLocal]);
      }),
      { numRuns: rounds(1_000, 10_000) },
    );
  });

  it.each([
    ["8.8.8.8", "public"],
    ["2606:4700::1111", "public"],
    ["127.0.0.1", "local"],
    ["::1", "local"],
    ["fd12:3456::1", "local"],
    ["169.254.169.254", "special"],
    ["fd00:ec2::254", "special"],
    ["100.100.100.200", "special"],
    ["168.63.129.16", "special"],
    ["100.64.0.1", "special"],
    ["::ffff:8.8.8.8", "special"],
    ["::ffff:127.0.0.1", "special"],
    ["::127.0.0.1", "special"],
    ["64:ff9b::808:808", "special"],
    ["2002:808:808::1", "special"],
    ["2001:0:53aa:64c::1", "special"],
    ["fe80::1%eth0.1", "special"],
    ["0.0.0.0", "special"],
    ["::", "special"],
    ["255.255.255.255", "special"],
    ["127.1", "special"],
    ["0x7f000001", "special"],
    ["2130706433", "special"],
    ["receiver.example", "special"],
    ["", "special"],
  ])("of %s is %s [D-NOTIFY-18]", (address, expected) => {
    expect(classifyAddress(address).class).toBe(expected);
  });
});

describe("the rules", () => {
  it("let nothing but https to public addresses through when nothing is named [D-NOTIFY-18]", () => {
    const rules = createAddressRules([]);
    fc.assert(
      fc.property(anyAddress, (address) => {
        const isPublic = classifyAddress(address).class === "public";
        expect(rules.refusal(https("receiver.example"), address) === undefined).toBe(isPublic);
        expect(rules.refusal(http("receiver.example"), address)).toEqual(expect.any(String));
      }),
    );
  });

  it("let every address of a named range through, with http too, and its neighbours not [D-NOTIFY-18]", () => {
    for (const network of [
      "10.1.0.0/16",
      "169.254.169.254/32",
      "fd00:ec2::/32",
      "64:ff9b::/96",
      "fe80::/10",
    ]) {
      const rules = createAddressRules([network]);
      const list = blockList([network]);
      fc.assert(
        fc.property(around(network), (address) => {
          const isNamed = isIn(list, address);
          expect(rules.refusal(http("receiver.example"), address) === undefined).toBe(isNamed);
        }),
        { numRuns: 200 },
      );
    }
  });

  it("take a single address, also in the form in which IPv6 writes it [D-NOTIFY-18]", () => {
    for (const rules of [createAddressRules(["10.0.0.1"]), createAddressRules(["::ffff:10.0.0.1"])]) {
      expect(rules.refusal(http("a.example"), "10.0.0.1")).toBeUndefined();
      expect(rules.refusal(http("a.example"), "::ffff:10.0.0.1")).toBeUndefined();
      expect(rules.refusal(http("a.example"), "10.0.0.2")).toContain("10.0.0.2 is not public (private)");
      expect(rules.names("10.0.0.1")).toBe(true);
      expect(rules.names("10.0.0.2")).toBe(false);
    }
  });

  it("let a named host to loopback and private addresses, never to link-local and metadata [D-NOTIFY-18]", () => {
    const rules = createAddressRules(["hooks.internal"]);
    fc.assert(
      fc.property(anyAddress, (address) => {
        const { class: kind } = classifyAddress(address);
        expect(rules.refusal(http("hooks.internal"), address) === undefined).toBe(kind !== "special");
        expect(rules.refusal(https("hooks.internal"), address) === undefined).toBe(kind !== "special");
        // Another host is not that host.
        expect(rules.refusal(https("x.hooks.internal"), address) === undefined).toBe(kind === "public");
      }),
      { numRuns: rounds(200, 2_000) },
    );
    expect(rules.names("HOOKS.internal")).toBe(true);
  });
});
