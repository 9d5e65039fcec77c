import { putAccount } from "../records/rules/stage.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KINDS } from "../../records/all-kinds.ts";
import { ACCOUNT, IDENTIFIER, USER_ID } from "../../records/directory/directory-kinds.ts";
import { codeOf, openDomain, START, type Domain, withCommit } from "./open-domain.ts";
import type { ImportedAccount } from "../../accounts/account-schema.ts";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  for (const key of ["1", "2"]) await domain.directory.services.put(key, { name: `Service ${key}` });
  await domain.directory.portals.put("main", { name: "Main" });
});

const full = {
  email: "Ada@example.com",
  username: "ada",
  name: "Ada",
  surname: "Lovelace",
  date_of_birth: "1990-12-10",
  gender: "female",
  locale: "pl",
  portal: "main",
};

describe("an account", () => {
  it("has exactly the documented members, in the documented order [D-ACCOUNT-3]", async () => {
    const account = await domain.accounts.create({
      ...full,
      password: "correct horse",
      email_verified: true,
    });
    expect(Object.keys(account).join(" ")).toBe(
      "sub user_id email email_verified username name surname date_of_birth gender locale portal services roles disabled created_at updated_at",
    );
    expect(account).toEqual({
      ...full,
      sub: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      user_id: 1,
      email_verified: true,
      services: {},
      roles: {},
      disabled: false,
      created_at: START,
      updated_at: START,
    });
    expect(JSON.stringify(account)).not.toContain("argon2");
    for (const found of [
      await domain.accounts.find(account.sub),
      await domain.accounts.findByLogin("ADA"),
      await domain.accounts.findByLogin("ada@example.COM"),
      ...(await domain.accounts.list()).items,
    ]) {
      expect(found).toEqual(account);
    }
  });

  it("has null for missing fields, and is undefined if it does not exist [D-ACCOUNT-3]", async () => {
    const account = await domain.accounts.create({ email: "a@b" });
    const { sub, email, email_verified, username, name, portal } = account;
    expect([email, email_verified, username, name, portal]).toEqual(["a@b", false, null, null, null]);
    expect(await domain.accounts.find("nobody")).toBeUndefined();
    expect(await domain.accounts.find(`${sub}\0`)).toBeUndefined();
    expect(await domain.accounts.findByLogin("nobody")).toBeUndefined();
    expect(await domain.accounts.verifyPassword("nobody", "correct horse")).toBe(false);
    expect(await domain.accounts.verifyPassword(sub, "correct horse")).toBe(false);
  });

  it("never reuses a sub or user_id [D-ACCOUNT-1]", async () => {
    const used = new Set<string | number>();
    for (let round = 0; round < 10; round += 1) {
      const { sub, user_id } = await domain.accounts.create({ email: "a@b" });
      expect(used.has(sub) || used.has(user_id)).toBe(false);
      used.add(sub).add(user_id);
      expect(await domain.accounts.delete(sub)).toBe(true);
    }
    expect(await codeOf(domain.accounts.create({ email: "x@y", portal: "nowhere" }))).toBe(
      "unknown_reference",
    );
    expect((await domain.accounts.create({ email: "a@b" })).user_id).toBeGreaterThan(10);
  });

  it("is listed by user_id, page by page", async () => {
    for (const name of ["a", "b", "c"]) await domain.accounts.create({ email: `${name}@example.com` });
    const first = await domain.accounts.list({ limit: 2 });
    expect(first.items.map(({ user_id }) => user_id)).toEqual([1, 2]);
    // The next page does not need the account that ended this one.
    await domain.accounts.delete(String(first.items[1]?.sub));
    const last = await domain.accounts.list({ after: String(first.next), limit: 2 });
    expect([last.items.map(({ user_id }) => user_id), last.next]).toEqual([[3], null]);
    for (const limit of [0, 1001, 1.5, Number.NaN]) {
      expect(await codeOf(domain.accounts.list({ limit }))).toContain(
        "TypeError filter.limit: must be an integer",
      );
    }
    for (const after of ["", "-1", "1e3", "9".repeat(16), "nobody", "__proto__"])
      expect(await codeOf(domain.accounts.list({ after }))).toMatch(
        /^TypeError filter.after: must be `next`/,
      );
  });
});

describe("update", () => {
  it("changes the named fields, clears with null, and writes nothing without a change", async () => {
    const account = await domain.accounts.create(full);
    domain.clock.seconds += 10;
    const updated = await domain.accounts.update(account.sub, { name: "Augusta", gender: null });
    expect(updated).toEqual({ ...account, name: "Augusta", gender: null, updated_at: START + 10 });
    domain.clock.seconds += 10;
    expect(await domain.accounts.update(account.sub, { name: "Augusta", surname: undefined })).toEqual(
      updated,
    );
    expect(await domain.accounts.update(account.sub, {})).toEqual(updated);
    expect(domain.changed.filter(({ action }) => action === "account.updated")).toHaveLength(1);
  });

  it("sets and removes the language, also of a record that was stored without one [D-LOCALE-1]", async () => {
    const { sub, locale } = await domain.accounts.create({ email: "a@b" });
    expect(locale).toBeNull();
    const { locale: _missing, ...old } = (await domain.accounts.record(sub))!;
    await putAccount(domain.storage, old);
    expect((await domain.accounts.find(sub))?.locale).toBeNull();
    expect((await domain.accounts.update(sub, { locale: null })).locale).toBeNull();
    expect(domain.changed.filter(({ action }) => action === "account.updated")).toEqual([]);
    expect((await domain.accounts.update(sub, { locale: "pl" })).locale).toBe("pl");
    expect((await domain.accounts.find(sub))?.locale).toBe("pl");
    expect((await domain.accounts.update(sub, { locale: null })).locale).toBeNull();
  });

  it("marks a new address as unverified unless the call says otherwise", async () => {
    const { sub } = await domain.accounts.create({ email: "a@b", email_verified: true });
    expect((await domain.accounts.update(sub, { name: "A" })).email_verified).toBe(true);
    expect((await domain.accounts.update(sub, { email: "c@d" })).email_verified).toBe(false);
    expect((await domain.accounts.update(sub, { email: "e@f", email_verified: true })).email_verified).toBe(
      true,
    );
  });

  it("of an unknown account is not_found; a removal returns false [D-RESULT-1]", async () => {
    expect(await codeOf(domain.accounts.update("nobody", { name: "A" }))).toBe("not_found");
    expect(await codeOf(domain.accounts.setPassword("nobody", "correct horse"))).toBe("not_found");
    expect(await codeOf(domain.accounts.assign("nobody", "1"))).toBe("not_found");
    expect(await domain.accounts.delete("nobody")).toBe(false);
    expect(await domain.accounts.unassign("nobody", "1")).toBe(false);
    for (const call of ["endSessions", "revokeTokens", "disable", "enable"] as const)
      expect([call, await codeOf(domain.accounts[call]("nobody"))]).toEqual([call, "not_found"]);
    expect(domain.counts.hash).toBe(0);
  });
});

describe("import", () => {
  const sub = "6f1c1b9e-0d3c-4a55-9a1e-0f5a0c7d8e90";

  it("keeps sub, user_id and assignments, advances the counter and notifies no receiver [D-ACCOUNT-11]", async () => {
    const receiver = {
      url: "https://r.example",
      client_id: "c",
      client_secret: "s",
      types: ["PROFILE_CHANGED"],
    } as const;
    await domain.directory.services.put("1", { name: "One", receiver });
    const account = await domain.accounts.import({
      ...full,
      sub,
      user_id: 500,
      services: { "1": 7, "2": null },
    });
    expect(account).toMatchObject({ sub, user_id: 500, services: { "1": 7, "2": null } });
    expect((await domain.accounts.create({ email: "a@b" })).user_id).toBe(501);
    expect((await domain.accounts.import({ email: "c@d", user_id: 20 })).user_id).toBe(20);
    // Numbers may have gaps, but are never reused.
    expect((await domain.accounts.create({ email: "e@f" })).user_id).toBeGreaterThan(501);
    expect(await domain.bodies()).toEqual([]);
  });

  it("refuses values of another account and unknown references", async () => {
    await domain.accounts.import({ email: "a@b", sub, user_id: 5 });
    const cases: readonly (readonly [ImportedAccount, string])[] = [
      [{ email: "x@y", sub }, "already_exists"],
      [{ email: "x@y", user_id: 5 }, "already_exists"],
      [{ email: "A@B" }, "name_taken"],
      [{ email: "x@y", services: { "9": 1 } }, "unknown_reference"],
      [{ email: "x@y", password: "short" }, "invalid_password"],
      [{ email: "x@y", sub: sub.toUpperCase() }, "TypeError account.sub: must be a UUID in lower case"],
      [{ email: "x@y", user_id: 0 }, "TypeError account.user_id: must be an integer from 1"],
      [
        { email: "x@y", services: { "a b": 1 } },
        "TypeError account.services[a name of 3 characters]: must be 1 to 64",
      ],
      [
        { email: "x@y", services: { "1": 1.5 } },
        "TypeError account.services.1: must be a safe integer or null",
      ],
      [{ email: "x@y", services: { "1": 2 ** 53 } }, "TypeError account.services.1: must be a safe integer"],
      [{ email: "x@y", password_hash: "plain" }, "TypeError account.password_hash: must be an Argon2"],
    ];
    for (const [input, code] of cases) expect(await codeOf(domain.accounts.import(input))).toContain(code);
    expect((await domain.accounts.list()).items).toHaveLength(1);
  });

  it("never gives the sub or user_id of a deleted account to another one [D-IDENTIFIER-3]", async () => {
    await domain.accounts.import({ email: "a@b", sub, user_id: 500 });
    await domain.accounts.delete(sub);
    for (const again of [{ sub }, { user_id: 500 }, { sub, user_id: 500 }, { sub, user_id: 501 }])
      expect(await codeOf(domain.accounts.import({ email: "a@b", ...again }))).toBe("already_exists");
    expect(await domain.accounts.find(sub)).toBeUndefined();
    expect(await domain.accounts.findByUserId(500)).toBeUndefined();
    expect((await domain.accounts.list()).items).toEqual([]);
    expect(await domain.accounts.delete(sub)).toBe(false);
    expect(await domain.accounts.import({ email: "a@b", user_id: 502 })).toMatchObject({ user_id: 502 });
  });

  it("of a deleted account leaves nothing but its identifiers, and the audit [D-IDENTIFIER-3]", async () => {
    const app = { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" };
    const ada = { email: "ada@example.com", username: "ada", name: "Ada", password: "a password", app };
    await domain.accounts.import({ ...ada, sub, user_id: 500 });
    await domain.accounts.resetRecoveryCodes(sub);
    const { store } = domain.storage.records;
    const kindsWith = async (): Promise<string[]> => {
      const pages = await Promise.all(KINDS.all.map(({ name }) => store.scan(name, undefined, 100)));
      const found = pages
        .flatMap(({ records }) => records)
        .filter((each) => JSON.stringify(each).includes(sub));
      return [...new Set(found.map(({ kind }) => kind))].toSorted();
    };
    const names = ["search-words", "sign-in-name", "user-id"];
    const own = ["account", "authenticator-app", "identifier", "recovery-codes", ...names];
    expect(await kindsWith()).toEqual(["audit", ...own].toSorted());
    await domain.accounts.delete(sub);
    expect(await kindsWith()).toEqual(["audit", "identifier", "removal", "user-id"]);
    domain.clock.seconds += 86_400;
    await domain.cleanup.removeDue();
    expect(await kindsWith()).toEqual(["audit", "identifier", "user-id"]);
    expect(await store.get([IDENTIFIER.ref(sub), USER_ID.ref("500")])).toEqual([
      expect.objectContaining({ value: { sub } }),
      expect.objectContaining({ value: { sub } }),
    ]);
  });

  it("makes another sub when a client has the one that it made [D-IDENTIFIER-2]", async () => {
    const taken: string[] = [];
    const { accounts } = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async ({ put = [] }) => {
          const created = put.find(({ kind }) => kind === ACCOUNT.name);
          if (taken.length > 0 || created === undefined) return;
          taken.push(created.key);
          await domain.clients.register({
            client_id: created.key,
            name: "News",
            service: "1",
            redirect_uris: ["https://news.example/callback"],
          });
        }),
    });
    const { sub: own } = await accounts.create({ email: "a@b" });
    expect(taken).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/u)]);
    expect(taken).not.toContain(own);
    expect((await domain.accounts.find(own))?.email).toBe("a@b");
    expect(await domain.accounts.find(taken[0] ?? "")).toBeUndefined();
  });

  it("never shares a number with a concurrent create", async () => {
    const numbers = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const email = `u${index}@example.com`;
        const made =
          index % 4 === 0
            ? domain.accounts.import({ email, user_id: index + 1 })
            : domain.accounts.create({ email });
        return made
          .then(({ user_id }) => user_id)
          .catch((error: unknown) => (error as { code: string }).code);
      }),
    );
    const given = numbers.filter((number) => typeof number === "number");
    expect(new Set(given).size).toBe(given.length);
    expect(numbers.filter((number) => typeof number !== "number" && number !== "already_exists")).toEqual([]);
    expect(given.length).toBeGreaterThanOrEqual(30);
  });
});
