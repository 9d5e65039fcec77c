import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import type { DeviceAccount } from "../../accounts/limits/password-check.ts";
import { createDeviceCookies } from "../../interactions/device-cookie.ts";
import { createSigner } from "../../core/sealing.ts";

const NAME = "__Host-sis_device_0a1b2c3d";
const KEY = createSecretKey(randomBytes(32));
const ADA = { sub: "5e0c0d1a-0000-4000-8000-00000000ada0", ways: {} };
const BOB = { sub: "5e0c0d1a-0000-4000-8000-00000000b0b0", ways: {} };
/** The ways after the password has changed. */
const CHANGED = { ways: { password: { generation: 1 } } };

type Account = DeviceAccount;

function cookies(...keys: KeyObject[]) {
  return createDeviceCookies({
    signer: createSigner(keys),
    name: NAME,
    wayName: "way",
    rememberedName: "remembered",
  });
}
const devices = cookies(KEY);

/** A request of one browser, and the cookies that the answer sets. */
function request(cookie?: string) {
  const set: string[] = [];
  return {
    set,
    req: { headers: { cookie } },
    exchange: { deployment: { secure: true } },
    append: (_field: string, value: string) => void set.push(value),
  };
}

/** The cookie after the sign-ins of these users. */
function after(people: readonly Account[], start?: string, made = devices): string {
  return people.reduce<string | undefined>((cookie, person) => {
    const ctx = request(cookie);
    made.write(ctx, person);
    return ctx.set[0]?.split(";")[0];
  }, start) as string;
}

const valueOf = (cookie: string): string => cookie.slice(NAME.length + 1);
const person = (number: number): Account => ({ sub: `sub-${number}`, ways: {} });
const reads = (cookie: string | undefined, account: Account, made = devices): string | undefined =>
  made.read(request(cookie), account);

describe("the device cookie", () => {
  it("of a reset counts at the form only, until a sign-in is complete [D-GUESS-5]", () => {
    const ctx = request(after([BOB]));
    devices.writeReset(ctx, ADA);
    const cookie = ctx.set[0]?.split(";")[0];
    const [id] = valueOf(cookie ?? "").split(".");
    expect([reads(cookie, ADA), reads(cookie, BOB)]).toEqual([undefined, id]);
    expect(devices.readAtForm(request(cookie), ADA)).toBe(id);
    expect(devices.readAtForm(request(cookie), { ...ADA, ...CHANGED })).toBeUndefined();
    expect(devices.readAtForm(request(cookie), person(1))).toBeUndefined();
    const complete = after([ADA], cookie);
    expect([reads(complete, ADA), valueOf(complete).split(".").length]).toEqual([id, 3]);
  });

  it("contains a random id and signatures, and nothing about the accounts [D-COOKIES-2]", () => {
    const cookie = after([ADA, BOB]);
    expect(valueOf(cookie)).toMatch(/^[\w-]{22}(?:\.[\w-]{86}){2}$/);
    expect(cookie).not.toContain(ADA.sub);
    const [id] = valueOf(cookie).split(".");
    expect([reads(cookie, ADA), reads(cookie, BOB), reads(cookie, person(1))]).toEqual([id, id, undefined]);
    // Another browser of the same users has nothing in common with it.
    const other = new Set(valueOf(after([ADA, BOB])).split("."));
    expect(
      valueOf(cookie)
        .split(".")
        .filter((part) => other.has(part)),
    ).toEqual([]);
  });

  it("is one cookie for 90 days at /, with any number of accounts [D-COOKIES-1]", () => {
    const ctx = request();
    devices.write(ctx, ADA);
    expect(ctx.set).toEqual([
      expect.stringMatching(
        /^__Host-sis_device_0a1b2c3d=[\w.-]+; Path=\/; Max-Age=7776000; HttpOnly; SameSite=Lax; Secure$/,
      ),
    ]);
    const people = Array.from({ length: 30 }, (_, number) => person(number));
    const cookie = after(people);
    expect(cookie.length).toBeLessThan(500);
    expect(people.filter((each) => reads(cookie, each)).map(({ sub }) => sub)).toEqual(
      people.slice(-5).map(({ sub }) => sub),
    );
  });

  it("keeps its id, and one slot for an account with many sign-ins", () => {
    const people = [1, 2, 3, 4, 5].map(person);
    const first = after(people);
    const again = after([person(5), person(5), person(1), person(5)], first);
    expect(valueOf(again).split(".")[0]).toBe(valueOf(first).split(".")[0]);
    for (const each of people) expect(reads(again, each)).toBeDefined();
  });

  it("forgets only the account whose password changes; the new password replaces the old one [D-COOKIES-2]", () => {
    const people = [1, 2, 3, 4, 5].map(person);
    const cookie = after(people);
    const changed = { ...person(3), ...CHANGED };
    expect(reads(cookie, changed)).toBeUndefined();
    const renewed = after([changed], cookie);
    expect(reads(renewed, changed)).toBeDefined();
    expect(reads(renewed, person(3))).toBeUndefined();
    for (const number of [1, 2, 4, 5]) expect(reads(renewed, person(number))).toBeDefined();
  });

  it("is valid under any of the keys, and signed with the first [D-COOKIES-1]", () => {
    const fresh = createSecretKey(randomBytes(32));
    const rotated = cookies(fresh, KEY);
    const before = after([ADA, BOB]);
    expect(reads(before, ADA, rotated)).toBeDefined();
    const cookie = after([ADA], before, rotated);
    expect([reads(cookie, ADA, rotated), reads(cookie, BOB, rotated)]).not.toContain(undefined);
    // One slot for the account, even under another key.
    expect(valueOf(cookie).split(".")).toHaveLength(3);
    const later = cookies(fresh);
    expect([reads(cookie, ADA, later), reads(cookie, BOB, later)]).toEqual([expect.any(String), undefined]);
  });
});

describe("an invalid device cookie", () => {
  const own = valueOf(after([ADA, BOB]));
  const [id = "", bobs = "", adas = ""] = own.split(".");
  const strangers = valueOf(after([person(1), ADA]));
  const [, hers = ""] = strangers.split(".");

  it.each([
    ["empty", ""],
    ["without an account", id],
    ["with an empty account", `${id}.`],
    ["cut", own.slice(0, -1)],
    ["made longer", `${own}A`],
    ["with another id", `${"A".repeat(22)}.${adas}`],
    ["with a short id", `${id.slice(1)}.${adas}`],
    ["with the signatures of another browser", `${id}.${hers}`],
    ["with another person's signatures", `${id}.${bobs}`],
    ["with the signatures in the other order", `${id}.${adas.slice(43)}${adas.slice(0, 43)}`],
    ["with the password's signature of somebody else", `${id}.${adas.slice(0, 43)}${bobs.slice(43)}`],
    ["with more than five accounts", [id, ...Array<string>(6).fill(adas)].join(".")],
    ["in quotes", `"${own}"`],
    ["with a space", ` ${own}`],
    ["encoded", encodeURIComponent(`${own} `)],
    ["in other characters", `${id}.${adas.slice(0, -1)}\u00ff`],
    ["of 8 kB", "A".repeat(8192)],
    ["of 8 kB in its form", `${id}${`.${adas}`.repeat(94)}`],
  ])("is ignored and replaced by the next sign-in: %s", (_what, value) => {
    expect(reads(`${NAME}=${value}`, ADA)).toBeUndefined();
    const next = after([BOB], `${NAME}=${value}`);
    expect(reads(next, BOB)).toBeDefined();
    expect(next.length).toBeLessThan(500);
  });

  it("is ignored if there are two, in either order", () => {
    for (const other of [own, strangers, "", "x"]) {
      expect(reads(`${NAME}=${own}; ${NAME}=${other}`, ADA)).toBeUndefined();
      expect(reads(`${NAME}=${other}; a=b; ${NAME}=${own}`, ADA)).toBeUndefined();
    }
    expect(reads(`a=b; ${NAME}=${own};x`, ADA)).toBe(id);
  });

  it("is ignored under another key or name", () => {
    expect(reads(`${NAME}=${own}`, ADA, cookies(createSecretKey(randomBytes(32))))).toBeUndefined();
    for (const name of ["x", "sis_device_0a1b2c3d", `${NAME}_`, NAME.toLowerCase()]) {
      expect(reads(`${name}=${own}`, ADA)).toBeUndefined();
    }
  });

  it("never identifies an account, and never prevents a sign-in", () => {
    const value = fc.oneof(
      fc.string(),
      fc.string({ unit: "binary" }),
      fc.array(fc.constantFrom(id, adas, bobs, hers, "", "."), { maxLength: 9 }).map((all) => all.join(".")),
    );
    fc.assert(
      fc.property(value, (text) => {
        const cookie = `${NAME}=${text}`;
        expect(reads(cookie, person(2))).toBeUndefined();
        expect(reads(after([BOB], cookie), BOB)).toBeDefined();
      }),
    );
  });
});

const lastOf = (...values: readonly string[]) =>
  devices.lastWay(request(values.map((value) => `way=${value}`).join("; ")));

describe("the cookie of the way that was used last", () => {
  it("holds the key of the provider alone, until another provider or a passkey is used [D-PROV-141]", () => {
    const ctx = request();
    devices.keepLastWay(ctx, { provider: "corp-id" });
    devices.keepLastWay(ctx, "passkey");
    const attributes = "; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax; Secure";
    expect(ctx.set).toEqual([`way=corp-id${attributes}`, `way=1${attributes}`]);
    expect(lastOf("corp-id")).toEqual({ lastProvider: "corp-id" });
    expect(lastOf("1")).toEqual({ prefers: "passkey" });
  });

  it.each(["", "1a", "Google", "-a", "a".repeat(33), "a b", "a<b", "2", "passkey=1"])(
    "counts for nothing unless it is a key: %j [D-PROV-141]",
    (value) => {
      expect(lastOf(value)).toEqual({});
    },
  );

  it("counts for nothing if there are two", () => {
    expect(lastOf("google", "corp")).toEqual({});
    expect(devices.lastWay(request())).toEqual({});
  });
});
