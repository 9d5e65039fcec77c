import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { changeAccount } from "../../records/rules/stage.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import { consentOf } from "../../../accounts/clients/consents.ts";
import type { Consent } from "../../../records/directory/directory.ts";
import { StorageUnavailable } from "../../../core/errors.ts";
import { CLIENTS, codeOf, consent, type Domain, openDomain, seed, withCommit } from "../open-domain.ts";

const REDIRECT = { redirect_uris: ["https://c.example/cb"] };

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain();
  sub = await seed(domain);
});

async function remembered(): Promise<Readonly<Record<string, Consent>>> {
  return (await domain.accounts.record(sub))?.consents ?? {};
}

const many = (name: string): string[] => Array.from({ length: 5_000 }, (_, number) => `${name}-${number}`);

/** Writes a record as an earlier version without a limit did. */
async function store(consents: Readonly<Record<string, Consent>>): Promise<void> {
  await changeAccount(domain.storage, sub, (before) => ({ ...before!, consents }));
}

describe("the consents of a user", () => {
  it("contain known scopes and claims only, each once, whatever the client requested [D-CONSENT-1]", async () => {
    await domain.accounts.revokeTokens(sub);
    for (let round = 0; round < 10; round += 1) {
      await consent(
        domain,
        sub,
        "one",
        [...many(`scope${round}`), "email"],
        [...many(`claim${round}`), "name"],
      );
      await consent(domain, sub, "one", ["email", "openid", "email"], ["name", "name", "__proto__"]);
    }
    expect(await remembered()).toEqual({ one: { scopes: ["openid", "email"], claims: ["name"] } });
    const changes = domain.changed.length;
    await consent(domain, sub, "one", ["unknown", "email"], ["constructor"]);
    expect(domain.changed).toHaveLength(changes);
  });

  it("are exactly the known names that were ever allowed", async () => {
    const { grantable } = domain.claims;
    const known = fc.constantFrom(...grantable.scopes, ...grantable.claims);
    const names = fc.array(fc.oneof(known, fc.string()), { maxLength: 9 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(names, names), { maxLength: 4 }), async (consents) => {
        await domain.accounts.revokeTokens(sub);
        for (const [scopes, claims] of consents) await consent(domain, sub, "one", scopes, claims);
        const { scopes = [], claims = [] } = (await remembered())["one"] ?? {};
        const all = (which: 0 | 1): Set<string> => new Set(consents.flatMap((each) => each[which]));
        expect(scopes).toEqual(grantable.scopes.filter((name) => all(0).has(name)));
        expect(claims).toEqual(grantable.claims.filter((name) => all(1).has(name)));
      }),
      { numRuns: 40 },
    );
  });

  it("are refused after the end of their session or account", async () => {
    const { sessions_generation: sessionsGeneration } = (await domain.accounts.record(sub))!;
    const given = { scopes: ["email"], claims: [], sessionsGeneration };
    const refused = (): Promise<unknown> =>
      codeOf(domain.accounts.rememberConsent(sub, { client_id: "c", services: [] }, given, SYSTEM));
    await domain.accounts.endSessions(sub);
    expect(await refused()).toBe("condition_failed");
    expect(consentOf((await domain.accounts.record(sub))!, "c")).toEqual({ scopes: [], claims: [] });
    await domain.accounts.delete(sub);
    expect(await refused()).toBe("condition_failed");
  });

  it("end with their client, for all accounts, and do not return with a new client of the same id [D-CONSENT-1]", async () => {
    const other = await domain.accounts.create({ email: "other@example.com" });
    await consent(domain, other.sub, "one", ["email"]);
    await domain.clients.remove("one");
    expect(Object.keys(await remembered())).toEqual(["two"]);
    expect((await domain.accounts.record(other.sub))?.consents).toEqual({});
    await domain.clients.register({ ...REDIRECT, client_id: "one", name: "One", service: "1" });
    expect(Object.keys(await remembered())).toEqual(["two"]);
  });

  it("end with the next consent if the storage failed during the removal of their client", async () => {
    const broken = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async ({ put = [] }) => {
          // Not the removal of the client, which frees its identifier.
          if (put.some(({ kind }) => kind === ACCOUNT.name)) throw new StorageUnavailable("out of reach");
        }),
    });
    expect(await broken.clients.remove("one")).toBe(true);
    expect(broken.faults).toEqual([{ where: "forget consents", code: "storage_unavailable" }]);
    expect(await domain.clients.find("one")).toBeUndefined();
    expect(Object.keys(await remembered())).toEqual(CLIENTS);
    await consent(domain, sub, "two", ["openid"]);
    expect(Object.keys(await remembered())).toEqual(["two"]);
  });

  it.each([
    ["unassignment, which is how a person disconnects", () => domain.accounts.unassign(sub, "1"), ["two"]],
    ["revokeTokens of that client", () => domain.accounts.revokeTokens(sub, "one"), ["two"]],
    ["revokeTokens of all clients", () => domain.accounts.revokeTokens(sub), []],
    ["removal of the client", () => domain.clients.remove("one"), ["two"]],
  ])("end with %s [D-CONSENT-1]", async (_what, end, left) => {
    expect(Object.keys(await remembered())).toEqual(CLIENTS);
    expect(await end()).not.toBe(false);
    expect(Object.keys(await remembered())).toEqual(left);
  });

  it.each([
    ["the sessions end", () => domain.accounts.endSessions(sub)],
    ["the password changes", () => domain.accounts.setPassword(sub, "a password of somebody")],
    ["the profile changes", () => domain.accounts.update(sub, { name: "Augusta" })],
    ["the client is disabled", () => domain.clients.disable("one")],
  ])("stay when %s", async (_what, change) => {
    await change();
    expect(Object.keys(await remembered())).toEqual(CLIENTS);
  });
});

describe("a record from before there was a limit", () => {
  const grown: Consent = {
    scopes: [...many("scope"), "email"],
    claims: ["gender", ...many("claim"), "name"],
  };
  const shrunk: Consent = { scopes: ["email"], claims: ["name", "gender"] };

  it("shrinks with any next change of the account", async () => {
    await store({ one: grown, two: grown });
    await domain.accounts.update(sub, { name: "Augusta" });
    expect(await remembered()).toEqual({ one: shrunk, two: shrunk });
  });

  it("loses removed clients with the next consent", async () => {
    await store({
      one: grown,
      two: grown,
      ...Object.fromEntries(
        many("gone")
          .slice(0, 100)
          .map((id) => [id, grown]),
      ),
    });
    await consent(domain, sub, "one", ["email"]);
    expect(await remembered()).toEqual({ one: shrunk, two: shrunk });
  });
});
