import { beforeEach, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { clientAddressProblem } from "../../../accounts/text-rules.ts";
import { codeOf, openDomain, type Domain } from "../open-domain.ts";
import { rounds } from "../../rounds.ts";
import type { NewClient } from "../../../accounts/clients/client-schema.ts";

const basic: NewClient = { name: "News", service: "1", redirect_uris: ["https://news.example/cb"] };
const SECRET = "0123456789abcdef+%&=: /?";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  await domain.directory.services.put("1", { name: "1" });
});

/** Whether each of these secrets is accepted now. */
async function accepted(clientId: string, secrets: readonly string[]): Promise<boolean[]> {
  const record = await domain.clients.record(clientId);
  return secrets.map((secret) => domain.clients.secretMatches(record, secret) !== undefined);
}

describe("an address of a client [D-ACCOUNT-14]", () => {
  it("is https, or http on loopback, without userinfo, fragments, wildcards and ambiguous characters", () => {
    for (const address of [
      "https://a.example/cb",
      "https://a.example",
      "https://a.example:8443/cb?x=1&y=%20",
      "http://localhost:3000/",
      "http://127.8.9.1/cb",
      "http://[::1]:80/cb",
      "https://xn--bcher-kva.example/",
      `https://a/${"x".repeat(2038)}`,
    ]) {
      expect([address, clientAddressProblem(address)]).toEqual([address, undefined]);
    }
    for (const address of [
      "",
      "/cb",
      "//a.example/cb",
      "a.example/cb",
      "https:a.example/cb",
      "https:/a.example/cb",
      "https:///a.example/cb",
      "HTTPS://a.example/cb",
      "http://a.example/cb",
      "http://localhost.example/cb",
      "http://127.0.0.1.example/",
      "http://128.0.0.1/",
      "http://127.1/",
      "http://0x7f000001/",
      "https://a%2eexample/",
      "https://443/",
      "https://user@a.example/",
      "https://@a.example/",
      "https://u:p@a.example/",
      "https://a.example/#",
      "https://a.example/#x",
      "https://a.example/*",
      "https://*.a.example/",
      "https://a.example\\@b.example/",
      "https://a.example/ x",
      " https://a.example/",
      "https://a.example/\n",
      "https://a.example/\t",
      "https://bücher.example/",
      "https://a.example/ä",
      "https://a.example:99999/",
      "https://[::1/",
      "custom:/cb",
      "javascript:alert(1)",
      "ftp://a.example/",
      `https://a/${"x".repeat(2039)}`,
    ]) {
      expect([address, clientAddressProblem(address)]).toEqual([address, expect.any(String)]);
    }
  });

  it("never has a different host for a URL parser than in its text", () => {
    let taken = 0;
    const piece = fc.constantFrom(
      "https://",
      "http://",
      "a.example",
      "localhost",
      "127.0.0.1",
      "@",
      ":",
      "/",
      "\\",
      "#",
      "?",
      "*",
      "%2f",
      " ",
      "\t",
      "[",
      "]",
      ".",
      "user",
      "443",
      "ß",
    );
    fc.assert(
      fc.property(
        fc
          .tuple(fc.constantFrom("https://", "http://", ""), fc.array(piece, { maxLength: 7 }))
          .map(([scheme, pieces]) => scheme + pieces.join("")),
        (address) => {
          if (clientAddressProblem(address) !== undefined) return;
          taken += 1;
          const url = new URL(address);
          const text = /^https?:\/\/([^/?:]+)/.exec(address)?.[1] ?? "";
          expect(url.username + url.password + url.hash).toBe("");
          expect(
            url.protocol === "https:" ||
              ["localhost", "127.0.0.1"].some((host) => url.hostname.endsWith(host)),
          ).toBe(true);
          expect(url.hostname).toBe(text.toLowerCase());
        },
      ),
      { numRuns: rounds(2_000, 20_000) },
    );
    expect(taken).toBeGreaterThan(50);
  });
});

describe("secrets of a client", () => {
  it("must be printable and have 32 characters, or 16 on loopback [D-ACCOUNT-13]", async () => {
    const strict = domain.reopen({ production: true });
    expect(await codeOf(strict.clients.register({ ...basic, client_secret: "a".repeat(31) }))).toContain(
      "at least 32",
    );
    const { client_id } = await strict.clients.register({ ...basic, client_secret: "a".repeat(32) });
    expect(await accepted(client_id, ["a".repeat(32), "a".repeat(31), "", "b"])).toEqual([
      true,
      false,
      false,
      false,
    ]);
    const record = await domain.clients.record(client_id);
    expect(record?.secrets).toEqual([{ hash: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) }]);
  });

  it("never match without a client, without a secret, or for another client", async () => {
    await domain.clients.putInternal({
      client_id: "~account",
      name: "Account",
      redirect_uris: ["https://a/cb"],
    });
    const internal = await domain.clients.record("~account");
    for (const presented of ["", "x", SECRET, "\0", "\ud800", "a".repeat(100_000)]) {
      expect(domain.clients.secretMatches(undefined, presented)).toBeUndefined();
      expect(domain.clients.secretMatches(internal, presented)).toBeUndefined();
    }
  });

  it("rotate: the old one is accepted for exactly its grace period", async () => {
    const { client_id, client_secret: first } = await domain.clients.register(basic);
    const { client_secret: second } = await domain.clients.rotateSecret(client_id, { keepOldFor: 60 });
    expect(await accepted(client_id, [first, second])).toEqual([true, true]);
    domain.clock.seconds += 59.999;
    expect(await accepted(client_id, [first, second])).toEqual([true, true]);
    domain.clock.seconds += 0.001;
    expect(await accepted(client_id, [first, second])).toEqual([false, true]);
    const { client_secret: third } = await domain.clients.rotateSecret(client_id);
    expect(await accepted(client_id, [first, second, third])).toEqual([false, false, true]);
    expect((await domain.clients.record(client_id))?.secrets).toHaveLength(1);
    for (const keepOldFor of [-1, 1.5, Number.NaN, 10 ** 9]) {
      expect(await codeOf(domain.clients.rotateSecret(client_id, { keepOldFor }))).toContain(
        "TypeError client.keepOldFor",
      );
    }
    expect(await codeOf(domain.clients.rotateSecret("unknown"))).toBe("not_found");
  });

  it("rotate again: the grace period of an old secret is not extended", async () => {
    const { client_id, client_secret } = await domain.clients.register(basic);
    await domain.clients.rotateSecret(client_id, { keepOldFor: 60 });
    await domain.clients.rotateSecret(client_id, { keepOldFor: 3600 });
    domain.clock.seconds += 60;
    expect(await accepted(client_id, [client_secret])).toEqual([false]);
  });

  it("rotate concurrently: the newest four are accepted", async () => {
    const { client_id, client_secret } = await domain.clients.register(basic);
    const made = await Promise.all(
      Array.from({ length: 10 }, () => domain.clients.rotateSecret(client_id, { keepOldFor: 60 })),
    );
    const works = await accepted(
      client_id,
      made.map((each) => each.client_secret),
    );
    expect(works.filter(Boolean)).toHaveLength(4);
    expect(await accepted(client_id, [client_secret])).toEqual([false]);
  });

  it("are replaced by update, unless the secret is already valid", async () => {
    const { client_id } = await domain.clients.register({ ...basic, client_secret: SECRET });
    const record = await domain.clients.record(client_id);
    domain.clock.seconds += 1;
    await domain.clients.update(client_id, { client_secret: SECRET });
    expect(await domain.clients.record(client_id)).toEqual(record);
    await domain.clients.update(client_id, { client_secret: `${SECRET}2` });
    expect(await accepted(client_id, [SECRET, `${SECRET}2`])).toEqual([false, true]);
  });
});
