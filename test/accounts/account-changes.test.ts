import { beforeEach, describe, expect, it } from "@jest/globals";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { Accounts } from "../../accounts/operations/accounts.ts";
import { generationAt, generationsOf } from "../../accounts/generations.ts";
import {
  CLIENTS,
  codeOf,
  remainingArtifacts,
  openDomain,
  seed,
  RECEIVER,
  withCommit,
  type Domain,
} from "./open-domain.ts";

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain();
  sub = await seed(domain);
});

/** The incremented generations, the remaining consents and the remaining artifacts. */
async function effect(change: (accounts: Accounts) => Promise<unknown>): Promise<unknown> {
  const before = await domain.accounts.record(sub);
  await change(domain.accounts);
  const after = await domain.accounts.record(sub);
  const raised = CLIENTS.map((client, index) => {
    const [had, has] = [before, after].map((each) => each && generationsOf(each, client, String(index + 1)));
    const names = ["sessions", "tokens", "service", "client"] as const;
    return names.filter((name) => has?.[name] !== had?.[name]).join(" ");
  });
  return [raised, Object.keys(after?.consents ?? {}), await remainingArtifacts(domain, sub, CLIENTS)];
}

describe("concurrent changes", () => {
  it("of fifty accounts with one name, in any spelling, create only one [D-ACCOUNT-2]", async () => {
    const spellings = ["grace", "GRACE", "Ｇrace", "ｇＲace", "gracE"];
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        domain.accounts
          .create({ email: `u${index}@example.com`, username: String(spellings[index % spellings.length]) })
          .then(() => "created", codeOfError),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === "created")).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === "name_taken")).toHaveLength(49);
  });

  it("of one account are all stored, and each is notified once, in order", async () => {
    const other = domain.reopen();
    await Promise.all([
      ...Array.from({ length: 25 }, (_, index) => domain.accounts.update(sub, { name: `n${index}` })),
      ...Array.from({ length: 25 }, (_, index) => other.accounts.assign(sub, "1", index)),
      other.accounts.update(sub, { surname: "S" }),
      domain.accounts.update(sub, { gender: "g" }),
    ]);
    const account = await domain.accounts.find(sub);
    expect(account).toMatchObject({ surname: "S", gender: "g", name: expect.stringMatching(/^n\d+$/) });
    const bodies = (await domain.bodies()).filter(({ receiver: name }) => name === "service:1");
    expect(bodies).toHaveLength(27);
  });

  it("never bring a deleted account back [D-ACCOUNT-6]", async () => {
    for (let round = 0; round < 10; round += 1) {
      const one = await domain.accounts.create({ email: "x@example.com", username: "x" });
      const calls = [
        ...Array.from({ length: 5 }, (_, index) => domain.accounts.update(one.sub, { name: `n${index}` })),
        ...Array.from({ length: 5 }, () => domain.accounts.assign(one.sub, "1")),
        domain.accounts.unassign(one.sub, ["1", "2"]),
        domain.accounts.endSessions(one.sub),
        domain.accounts.update(one.sub, { email: "y@example.com" }),
        domain.accounts.delete(one.sub),
      ];
      const outcomes = await Promise.all(
        calls.map((call: Promise<unknown>) => call.then(() => "ok", codeOfError)),
      );
      expect(outcomes.filter((outcome) => outcome !== "ok" && outcome !== "not_found")).toEqual([]);
      expect(await domain.accounts.find(one.sub)).toBeUndefined();
      for (const login of ["x", "x@example.com", "y@example.com"]) {
        expect(await domain.accounts.findByLogin(login)).toBeUndefined();
      }
    }
  });

  it("delete an account once", async () => {
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => domain.accounts.delete(sub)));
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    expect((await domain.bodies()).map(({ receiver: name }) => name)).toEqual(["service:1", "service:2"]);
  });

  it("are decided again after a concurrent write", async () => {
    let sneak = true;
    const slow = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async () => {
          if (!sneak) return;
          sneak = false;
          await domain.accounts.update(sub, { surname: "first" });
        }),
    });
    await slow.accounts.update(sub, { name: "second" });
    expect(await domain.accounts.find(sub)).toMatchObject({ name: "second", surname: "first" });
  });

  it("that conflict forever end with storage_unavailable", async () => {
    const busy = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async () => {
          await domain.accounts.endSessions(sub);
        }),
    });
    expect(await codeOf(busy.accounts.update(sub, { name: "x" }))).toBe("storage_unavailable");
    expect(await domain.bodies()).toEqual([]);
  });
});

describe("what each change ends [D-ACCOUNT-9]", () => {
  it("setPassword: sessions, codes and tokens; consents stay [D-ACCOUNT-7]", async () => {
    expect(await effect((accounts) => accounts.setPassword(sub, "correct horse"))).toEqual([
      ["sessions tokens", "sessions tokens"],
      CLIENTS,
      [],
    ]);
    expect(domain.ended).toEqual([{ sub, reason: "password" }]);
  });

  it("setOwnPassword: the session record stays, and the new generations are returned [D-ACCOUNT-7]", async () => {
    const own = { keepSession: "uid", generation: (await domain.accounts.record(sub))!.sessions_generation };
    const result = await domain.accounts.setOwnPassword(sub, "correct horse", own, SYSTEM);
    const { sessions_generation, tokens_generation } = (await domain.accounts.record(sub)) ?? {};
    expect(result).toEqual({ sessions_generation, tokens_generation });
    expect(await remainingArtifacts(domain, sub, CLIENTS)).toEqual(["session"]);
    expect([domain.ended, domain.signedOut]).toEqual([[{ sub, reason: "password" }], []]);
  });

  it("a session that has ended changes no password and ends no other session, not even at the same moment", async () => {
    const { accounts } = domain;
    const own = async () => ({
      keepSession: "uid",
      generation: (await accounts.record(sub))?.sessions_generation ?? 0,
    });
    const thief = await own();
    await accounts.endSessions(sub);
    expect(await codeOf(accounts.setOwnPassword(sub, "the thief's password", thief, SYSTEM))).toBe(
      "condition_failed",
    );
    await expect(accounts.endOtherSessions(sub, thief, SYSTEM)).resolves.toBeUndefined();
    const racing = await own();
    await Promise.allSettled([
      accounts.setOwnPassword(sub, "the thief's password", racing, SYSTEM),
      accounts.setPassword(sub, "the owner's password"),
    ]);
    await expect(accounts.verifyPassword(sub, "the owner's password")).resolves.toBe(true);
    await expect(accounts.endOtherSessions(sub, await own(), SYSTEM)).resolves.toBeDefined();
  });

  it("endSessions: sessions only [D-ACCOUNT-8]", async () => {
    expect(await effect((accounts) => accounts.endSessions(sub))).toEqual([
      ["sessions", "sessions"],
      CLIENTS,
      CLIENTS,
    ]);
    expect(domain.ended).toEqual([{ sub, reason: "ended" }]);
  });

  it("revokeTokens: codes, tokens and consents, of all clients or of one [D-ACCOUNT-8]", async () => {
    expect(await effect((accounts) => accounts.revokeTokens(sub, "one"))).toEqual([
      ["client", ""],
      ["two"],
      ["session", "two"],
    ]);
    expect(await effect((accounts) => accounts.revokeTokens(sub))).toEqual([
      ["tokens", "tokens"],
      [],
      ["session"],
    ]);
    expect(domain.ended).toEqual([]);
  });

  it("unassign: codes, tokens and consents of the service's clients, not the session [D-ACCOUNT-5]", async () => {
    expect(await effect((accounts) => accounts.unassign(sub, "2"))).toEqual([
      ["", "service"],
      ["one"],
      ["session", "one"],
    ]);
    const record = await domain.accounts.record(sub);
    expect(record?.services).toEqual({ "1": 11 });
    expect(generationAt(record?.service_generations ?? {}, "2")).toBe(1);
    await domain.accounts.assign(sub, "2");
    expect(await domain.accounts.unassign(sub, ["2", "2", "1"])).toBe(true);
    expect((await domain.accounts.record(sub))?.service_generations).toEqual({ "1": 1, "2": 2 });
  });

  it("delete: everything [D-ACCOUNT-6]", async () => {
    await domain.accounts.delete(sub);
    expect(await remainingArtifacts(domain, sub, CLIENTS)).toEqual([]);
    expect(domain.ended).toEqual([{ sub, reason: "deleted" }]);
  });

  it("update and assign: nothing", async () => {
    expect(await effect(updateAndAssign)).toEqual([["", ""], CLIENTS, ["session", ...CLIENTS]]);
  });
});

/** The generations that a sign-in would start from. */
async function generations(
  service: string,
): Promise<{ serviceGeneration: number; tokensGeneration: number }> {
  const record = await domain.accounts.record(sub);
  const serviceGeneration = generationAt(record?.service_generations ?? {}, service);
  return { serviceGeneration, tokensGeneration: record?.tokens_generation ?? 0 };
}

describe("the first sign-in to a service [D-ACCOUNT-4]", () => {
  beforeEach(() => domain.directory.services.put("3", { name: "three", receiver: RECEIVER }));

  it("assigns the account without a number, once; later ones write nothing", async () => {
    const sign = await generations("3");
    const records = await Promise.all(
      Array.from({ length: 20 }, () => domain.accounts.assignAtSignIn(sub, "3", sign, SYSTEM)),
    );
    expect(records.map(({ services }) => services["3"])).toEqual(records.map(() => null));
    await domain.accounts.assign(sub, "3", 33);
    expect((await domain.accounts.assignAtSignIn(sub, "3", sign, SYSTEM)).services["3"]).toBe(33);
    expect(domain.changed.filter(({ action }) => action === "account.assigned")).toHaveLength(2);
    expect(await domain.bodies()).toEqual([]);
  });

  it("assigns nothing if the assignment, the tokens or the account ended meanwhile", async () => {
    const ends: readonly ((accounts: Accounts) => Promise<unknown>)[] = [
      (accounts) => accounts.unassign(sub, "1"),
      (accounts) => accounts.revokeTokens(sub),
      (accounts) => accounts.setPassword(sub, "correct horse"),
      (accounts) => accounts.delete(sub),
    ];
    for (const end of ends) {
      const sign = await generations("1");
      await end(domain.accounts);
      expect(await codeOf(domain.accounts.assignAtSignIn(sub, "1", sign, SYSTEM))).toBe("condition_failed");
      const again = domain.accounts.assignAtSignIn(sub, "1", await generations("1"), SYSTEM);
      await again.catch(() => expect(end).toBe(ends[3]));
    }
    expect(await domain.accounts.find(sub)).toBeUndefined();
  });

  it("never undoes a concurrent unassignment", async () => {
    for (let round = 0; round < 20; round += 1) {
      const sign = await generations("1");
      const outcomes = await Promise.all([
        domain.accounts.unassign(sub, "1"),
        domain.accounts.assignAtSignIn(sub, "1", sign, SYSTEM).then(() => "assigned", codeOfError),
      ]);
      expect(outcomes[0]).toBe(true);
      expect(["assigned", "condition_failed"]).toContain(outcomes[1]);
      expect((await domain.accounts.find(sub))?.services).not.toHaveProperty("1");
      await domain.accounts.assign(sub, "1");
    }
  });
});

async function updateAndAssign(accounts: Accounts): Promise<void> {
  await accounts.update(sub, { name: "A", email: "b@c" });
  await accounts.assign(sub, "1", 99);
}

function codeOfError(error: unknown): string {
  return String((error as { readonly code?: unknown }).code);
}
