/** The actor of a change, as passed to each call and stored in the audit log. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { CallOptions } from "../../accounts/arguments.ts";
import { CLIENTS, openDomain, seed, type Domain } from "./open-domain.ts";

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain();
  sub = await seed(domain);
  await domain.directory.services.put("1", { name: "One", roles: ["editor"] });
});

const [CLIENT = ""] = CLIENTS;
const REDIRECT = ["https://client.example/callback"];

/** Every call that makes a change, by its audit action. In this order, each one changes something. */
const CALLS: Readonly<Record<string, (options: CallOptions) => Promise<unknown>>> = {
  "account.created": (options) => domain.accounts.create({ email: "a@b.example" }, options),
  "account.imported": (options) => domain.accounts.import({ email: "c@d.example" }, options),
  "account.updated": (options) => domain.accounts.update(sub, { name: "Other" }, options),
  "account.password_changed": (options) => domain.accounts.setPassword(sub, "another password", options),
  "account.unassigned": (options) => domain.accounts.unassign(sub, "1", options),
  "account.assigned": (options) => domain.accounts.assign(sub, "1", undefined, options),
  "account.roles_set": (options) => domain.accounts.setRoles(sub, "1", ["editor"], options),
  "account.sessions_ended": (options) => domain.accounts.endSessions(sub, options),
  "account.tokens_revoked": (options) => domain.accounts.revokeTokens(sub, CLIENT, options),
  "account.disabled": (options) => domain.accounts.disable(sub, options),
  "account.enabled": (options) => domain.accounts.enable(sub, options),
  "account.deleted": (options) => domain.accounts.delete(sub, options),
  "client.registered": (options) =>
    domain.clients.register(
      { client_id: "new", name: "New", service: "1", redirect_uris: REDIRECT },
      options,
    ),
  "client.updated": (options) => domain.clients.update("new", { name: "Newer" }, options),
  "client.secret_rotated": (options) => domain.clients.rotateSecret("new", { keepOldFor: 1 }, options),
  "client.disabled": (options) => domain.clients.disable("new", options),
  "client.enabled": (options) => domain.clients.enable("new", options),
  "client.removed": (options) => domain.clients.remove("new", options),
  "service.created": (options) => domain.directory.services.put("9", { name: "Nine" }, options),
  "service.updated": (options) => domain.directory.services.put("9", { name: "Ten" }, options),
  "service.removed": (options) => domain.directory.services.remove("9", options),
  "group.created": (options) => domain.directory.groups.put("g", { name: "G" }, options),
  "group.updated": (options) => domain.directory.groups.put("g", { name: "H" }, options),
  "group.removed": (options) => domain.directory.groups.remove("g", options),
  "portal.created": (options) => domain.directory.portals.put("p", { name: "P" }, options),
  "portal.updated": (options) => domain.directory.portals.put("p", { name: "Q" }, options),
  "portal.removed": (options) => domain.directory.portals.remove("p", options),
};

async function newest(): Promise<readonly unknown[]> {
  const { items: records } = await domain.storage.audit.list({ limit: 1 });
  return records.flatMap(({ action, actor }) => [action, actor]);
}

describe("every call that makes a change", () => {
  it("records its actor in one audit record, stored with the change [D-ADMIN-1, D-AUDIT-3]", async () => {
    const actor = { kind: "operator", id: "nightly-job" } as const;
    const before = (await domain.storage.audit.list({ limit: 1000 })).items.length;
    for (const [action, call] of Object.entries(CALLS)) {
      await call({ actor });
      expect(await newest()).toEqual([action, actor]);
    }
    const after = (await domain.storage.audit.list({ limit: 1000 })).items.length;
    expect(after - before).toBe(Object.keys(CALLS).length);
  });

  it("records the system if it names no actor", async () => {
    for (const [action, call] of Object.entries(CALLS)) {
      await call({});
      expect(await newest()).toEqual([action, { kind: "system" }]);
    }
  });

  it.each([
    [{ kind: "nobody" }, "options.actor.kind: "],
    [{ kind: "anonymous" }, "options.actor.kind: "],
    [{ kind: "operator", id: "ada@example.com" }, "options.actor.id: "],
    [{ kind: "operator", id: "" }, "options.actor.id: "],
    [{ kind: "operator", id: "x".repeat(129) }, "options.actor.id: "],
    [{ kind: "operator", id: "a\nb" }, "options.actor.id: "],
    [{ kind: "account" }, "options.actor.id: "],
    [{ kind: "client" }, "options.actor.id: "],
    [{ id: "ada" }, "options.actor.kind: "],
    [{ kind: "system", name: "Ada" }, "options.actor: "],
    ["ada", "options.actor: "],
    [null, "options.actor: "],
  ])("refuses the actor %j, and changes nothing", async (wrong, problem) => {
    const before = await domain.storage.audit.list({ limit: 1000 });
    for (const call of Object.values(CALLS)) {
      const failed = call({ actor: wrong } as unknown as CallOptions);
      await expect(failed).rejects.toThrow(TypeError);
      await expect(failed).rejects.toThrow(problem);
      await expect(failed).rejects.not.toThrow("example.com");
    }
    expect(await domain.storage.audit.list({ limit: 1000 })).toEqual(before);
  });

  it("leaves no record without a change", async () => {
    const before = await domain.storage.audit.list({ limit: 1000 });
    await domain.accounts.update(sub, {});
    await domain.accounts.enable(sub);
    await domain.clients.enable(CLIENT);
    await domain.directory.services.remove("none");
    for (const call of ["disable", "enable"] as const)
      await expect(domain.accounts[call]("nobody")).rejects.toMatchObject({ code: "not_found" });
    const failed = domain.directory.services.remove("1");
    await expect(failed).rejects.toMatchObject({ code: "still_referenced" });
    expect(await domain.storage.audit.list({ limit: 1000 })).toEqual(before);
  });
});
