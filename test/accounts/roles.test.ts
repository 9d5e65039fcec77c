/** Roles of services: who can have them, and when they end. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { findRoles } from "../../accounts/roles.ts";
import type { ServiceSettings } from "../../accounts/operations/directory.ts";
import { codeOf, openDomain, seed, type Domain } from "./open-domain.ts";

const NEWS: ServiceSettings = { name: "News", roles: ["editor", "author", "constructor"] };

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain();
  sub = await seed(domain);
  await domain.directory.services.put("1", NEWS);
});

const current = async (service: string): Promise<readonly string[]> =>
  findRoles(domain.storage.directory, (await domain.accounts.record(sub))!, service);

describe("the roles of a service", () => {
  it("are 100 names at most, and are replaced as a whole [D-ROLE-1]", async () => {
    const { services } = domain.directory;
    expect((await services.find("1"))?.roles).toEqual(NEWS.roles);
    const many = Array.from({ length: 100 }, (_, index) => `role-${index}`);
    expect((await services.put("1", { ...NEWS, roles: many })).roles).toEqual(many);
    await expect(services.put("1", { ...NEWS, roles: [...many, "one-more"] })).rejects.toThrow(
      "service.roles: must have at most 100 roles",
    );
    expect((await services.put("1", { name: "News" })).roles).toEqual([]);
    expect((await services.find("1"))?.roles).toEqual([]);
  });

  it.each([
    "",
    "A",
    "Editor",
    "1st",
    "-a",
    "_a",
    "__proto__",
    "a b",
    "a,b",
    "é",
    "a\n",
    "a\0",
    "a".repeat(41),
    7,
    null,
  ])("are never %j, neither in the directory nor on an account", async (name) => {
    const roles = [name as string];
    await expect(domain.directory.services.put("1", { ...NEWS, roles })).rejects.toThrow(TypeError);
    await expect(domain.accounts.setRoles(sub, "1", roles)).rejects.toThrow(TypeError);
    await expect(
      domain.accounts.import({ email: "x@y.example", services: { 1: null }, roles: { 1: roles } }),
    ).rejects.toThrow(TypeError);
  });

  it("are a list without repetitions", async () => {
    for (const roles of ["editor", { editor: true }, ["editor", "editor"]]) {
      const wrong = roles as unknown as string[];
      await expect(domain.directory.services.put("1", { ...NEWS, roles: wrong })).rejects.toThrow(TypeError);
      await expect(domain.accounts.setRoles(sub, "1", wrong)).rejects.toThrow(TypeError);
    }
  });

  it("belong to services only", async () => {
    const wrong = { name: "G", roles: ["editor"] };
    await expect(domain.directory.groups.put("g", wrong)).rejects.toThrow("unknown key");
    await expect(domain.directory.portals.put("p", wrong)).rejects.toThrow("unknown key");
  });
});

describe("setRoles", () => {
  it("replaces the roles; the account shows them; nobody is notified [D-ROLE-1]", async () => {
    expect((await domain.accounts.setRoles(sub, "1", ["editor", "author"])).roles).toEqual({
      1: ["editor", "author"],
    });
    expect((await domain.accounts.find(sub))?.roles).toEqual({ 1: ["editor", "author"] });
    const { items: records } = await domain.storage.audit.list({ limit: 1 });
    expect(records).toMatchObject([
      { action: "account.roles_set", subject: sub, detail: { service: "1", roles: "editor author" } },
    ]);
    await domain.accounts.setRoles(sub, "1", ["constructor"]);
    expect(await current("1")).toEqual(["constructor"]);
    expect((await domain.accounts.setRoles(sub, "1", [])).roles).toEqual({});
    expect(await domain.storage.deliveries.list({ limit: 10 })).toEqual([]);
  });

  it("writes nothing if nothing changes", async () => {
    await domain.accounts.setRoles(sub, "1", ["editor"]);
    const count = async (): Promise<number> =>
      (await domain.storage.audit.list({ limit: 1000 })).items.length;
    const before = await count();
    await domain.accounts.setRoles(sub, "1", ["editor"]);
    expect(await count()).toBe(before);
  });

  it("refuses what does not exist", async () => {
    const { accounts } = domain;
    await domain.directory.services.put("9", { name: "Nine", roles: ["editor"] });
    await expect(accounts.setRoles(sub, "1", ["admin"])).rejects.toThrow(
      "role admin of the service 1 is not known",
    );
    expect(await codeOf(accounts.setRoles(sub, "1", ["editor", "toString"]))).not.toBe("unknown_reference");
    expect(await codeOf(accounts.setRoles(sub, "1", ["editor", "admin"]))).toBe("unknown_reference");
    expect(await codeOf(accounts.setRoles(sub, "nowhere", []))).toBe("unknown_reference");
    await expect(accounts.setRoles(sub, "9", ["editor"])).rejects.toThrow(
      "the assignment to the service 9 does not exist",
    );
    expect(await codeOf(accounts.setRoles("nobody", "1", ["editor"]))).toBe("not_found");
    for (const name of ["__proto__", "constructor", "toString"])
      await expect(accounts.setRoles(sub, name, [])).rejects.toThrow(TypeError);
    expect((await accounts.find(sub))?.roles).toEqual({});
  });

  it("of two at once, one comes last and none is lost in between", async () => {
    await domain.directory.services.put("9", { name: "Nine", roles: ["a"] });
    await domain.accounts.assign(sub, "9");
    await Promise.all([
      domain.accounts.setRoles(sub, "1", ["editor"]),
      domain.accounts.setRoles(sub, "9", ["a"]),
      domain.accounts.update(sub, { name: "Other" }),
    ]);
    expect((await domain.accounts.find(sub))?.roles).toEqual({ 1: ["editor"], 9: ["a"] });
  });

  it("beside an unassignment leaves no roles behind", async () => {
    await Promise.allSettled([
      domain.accounts.setRoles(sub, "1", ["editor"]),
      domain.accounts.unassign(sub, "1"),
    ]);
    await domain.accounts.assign(sub, "1");
    expect((await domain.accounts.find(sub))?.roles).toEqual({});
  });
});

describe("roles end", () => {
  it("with the assignment, and a new one does not bring them back [D-ROLE-1]", async () => {
    await domain.accounts.setRoles(sub, "1", ["editor"]);
    await domain.accounts.unassign(sub, "1");
    expect((await domain.accounts.find(sub))?.roles).toEqual({});
    await domain.accounts.assign(sub, "1");
    expect([(await domain.accounts.find(sub))?.roles, await current("1")]).toEqual([{}, []]);
  });

  it("when the service no longer has them", async () => {
    await domain.accounts.setRoles(sub, "1", ["editor", "author"]);
    await domain.directory.services.put("1", { ...NEWS, roles: ["author"] });
    expect(await current("1")).toEqual(["author"]);
    expect(await codeOf(domain.accounts.setRoles(sub, "1", ["editor"]))).toBe("unknown_reference");
    expect([await current("2"), await current("__proto__"), await current("constructor")]).toEqual([
      [],
      [],
      [],
    ]);
  });
});

describe("an imported account", () => {
  it("has its roles", async () => {
    const account = { email: "c@d.example", services: { 1: 7 }, roles: { 1: ["author"] } };
    expect((await domain.accounts.import(account)).roles).toEqual({ 1: ["author"] });
  });

  it("must be assigned, and the service must have them", async () => {
    const { accounts } = domain;
    await expect(accounts.import({ email: "c@d.example", roles: { 1: ["author"] } })).rejects.toThrow(
      "account.roles.1: must be a service in services",
    );
    const roles = { 1: ["admin"] };
    expect(await codeOf(accounts.import({ email: "c@d.example", services: { 1: 7 }, roles }))).toBe(
      "unknown_reference",
    );
    const hostile = JSON.parse('{"__proto__":["author"]}') as Record<string, string[]>;
    await expect(accounts.import({ email: "c@d.example", roles: hostile })).rejects.toThrow(TypeError);
    expect(await accounts.findByLogin("c@d.example")).toBeUndefined();
  });
});
