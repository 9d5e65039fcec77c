/** Who asked for a change, as each call is told and the audit keeps it. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { CallOptions } from "../../../lib/domain/arguments.ts";
import { CLIENTS, openWorld, prepared, type World } from "./world.ts";

let world: World;
let sub: string;
beforeEach(async () => {
  world = await openWorld();
  sub = await prepared(world);
});
afterEach(() => world.storage.close());

const [CLIENT = ""] = CLIENTS;
const REDIRECT = ["https://client.example/callback"];

/** Every call that changes something, with the action that it leaves; in this order each of them does. */
const CALLS: Readonly<Record<string, (options: CallOptions) => Promise<unknown>>> = {
  "account.created": (options) => world.accounts.create({ email: "a@b.example" }, options),
  "account.imported": (options) => world.accounts.import({ email: "c@d.example" }, options),
  "account.updated": (options) => world.accounts.update(sub, { name: "Other" }, options),
  "account.password_changed": (options) => world.accounts.setPassword(sub, "another password", options),
  "account.unassigned": (options) => world.accounts.unassign(sub, "1", options),
  "account.assigned": (options) => world.accounts.assign(sub, "1", undefined, options),
  "account.sessions_ended": (options) => world.accounts.endSessions(sub, options),
  "account.tokens_revoked": (options) => world.accounts.revokeTokens(sub, CLIENT, options),
  "account.disabled": (options) => world.accounts.disable(sub, options),
  "account.enabled": (options) => world.accounts.enable(sub, options),
  "account.deleted": (options) => world.accounts.delete(sub, options),
  "client.registered": (options) =>
    world.clients.register({ client_id: "new", name: "New", service: "1", redirect_uris: REDIRECT }, options),
  "client.updated": (options) => world.clients.update("new", { name: "Newer" }, options),
  "client.secret_rotated": (options) => world.clients.rotateSecret("new", { keepOldFor: 1, ...options }),
  "client.disabled": (options) => world.clients.disable("new", options),
  "client.enabled": (options) => world.clients.enable("new", options),
  "client.removed": (options) => world.clients.remove("new", options),
  "service.created": (options) => world.directory.services.put("9", { name: "Nine" }, options),
  "service.updated": (options) => world.directory.services.put("9", { name: "Ten" }, options),
  "service.removed": (options) => world.directory.services.remove("9", options),
  "group.created": (options) => world.directory.groups.put("g", { name: "G" }, options),
  "group.updated": (options) => world.directory.groups.put("g", { name: "H" }, options),
  "group.removed": (options) => world.directory.groups.remove("g", options),
  "portal.created": (options) => world.directory.portals.put("p", { name: "P" }, options),
  "portal.updated": (options) => world.directory.portals.put("p", { name: "Q" }, options),
  "portal.removed": (options) => world.directory.portals.remove("p", options),
};

async function newest(): Promise<readonly unknown[]> {
  const { records } = await world.storage.audit.list({ limit: 1 });
  return records.flatMap(({ action, actor }) => [action, actor]);
}

describe("every call that changes something", () => {
  it("names its actor in one audit record, stored with the change [D-ADMIN-1, D-AUDIT-3]", async () => {
    const actor = { kind: "operator", id: "nightly-job" } as const;
    const before = (await world.storage.audit.list({ limit: 1000 })).records.length;
    for (const [action, call] of Object.entries(CALLS)) {
      await call({ actor });
      expect(await newest()).toEqual([action, actor]);
    }
    const after = (await world.storage.audit.list({ limit: 1000 })).records.length;
    expect(after - before).toBe(Object.keys(CALLS).length);
  });

  it("is the system's own when it names nobody", async () => {
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
  ])("takes no %j for its actor, and does nothing then", async (wrong, problem) => {
    const before = await world.storage.audit.list({ limit: 1000 });
    for (const call of Object.values(CALLS)) {
      const failed = call({ actor: wrong } as unknown as CallOptions);
      await expect(failed).rejects.toThrow(TypeError);
      await expect(failed).rejects.toThrow(problem);
      await expect(failed).rejects.not.toThrow("example.com");
    }
    expect(await world.storage.audit.list({ limit: 1000 })).toEqual(before);
  });

  it("leaves no record when it changes nothing", async () => {
    const before = await world.storage.audit.list({ limit: 1000 });
    await world.accounts.update(sub, {});
    await world.accounts.enable(sub);
    await world.clients.enable(CLIENT);
    await world.directory.services.remove("none");
    expect(await world.accounts.disable("nobody")).toBe(false);
    expect(await world.accounts.enable("nobody")).toBe(false);
    const failed = world.directory.services.remove("1");
    await expect(failed).rejects.toMatchObject({ code: "still_referenced" });
    expect(await world.storage.audit.list({ limit: 1000 })).toEqual(before);
  });
});
