/** Account events for systems of one's own: what happens is what is sent, signed, by the published schema. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Webhook } from "standardwebhooks";
import { EVENT_TYPES, type EventType } from "../../config/events.ts";
import { type EventBody, eventSchema } from "../../accounts/events/event-types.ts";
import { closing } from "../closing.ts";
import type { Arrived } from "../flows/inbox.ts";
import { type Notified, startNotified } from "./notified.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const SECRET = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const HTML = '<img src=x onerror="alert(1)">';

const receivers = (url: (path: string) => string) => ({
  crm: { url: url("/crm"), signing_secret: SECRET, types: EVENT_TYPES },
  wide: {
    url: url("/wide"),
    signing_secret: SECRET,
    types: ["account.created", "account.updated", "account.address_changed", "account.deleted"] as const,
    include: ["email", "name", "department"],
  },
  narrow: { url: url("/narrow"), signing_secret: SECRET, types: ["account.deleted"] as const },
});

/** The event of a POST, as any receiver of Standard Webhooks verifies it, by the published schema. */
function opened({ body, headers }: Arrived): EventBody {
  const signed = Object.fromEntries(
    ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, String(headers[name])]),
  );
  const event = new Webhook(SECRET).verify(body, signed) as EventBody;
  expect(headers.authorization).toBeUndefined();
  return eventSchema(event.type).parse(event);
}

describe("account events", () => {
  let notified: Notified;
  beforeAll(async () => {
    notified = closing(
      await startNotified({}, (url) => ({
        accounts: {
          attributes: { department: { type: "text", label: "Department", scope: "org" } },
        },
        events: { receivers: receivers(url) },
        mail: { send: async () => undefined },
      })),
    );
    await notified.service.directory.services.put("1", { name: "News", roles: ["editor"] });
  });

  /** What a receiver got since the last call: type and data. */
  const read = new Map<string, number>();
  async function arrivedAt(path: string): Promise<readonly (readonly [EventType, EventBody["data"]])[]> {
    await notified.nothingWaits();
    const all = notified.inbox.arrived.filter((post) => post.path === path);
    const fresh = all.slice(read.get(path) ?? 0).map(opened);
    read.set(path, all.length);
    return fresh.map(({ type, data }) => [type, data]);
  }

  it("are sent for each change of an account, with identifiers only [D-EVENT-1, D-EVENT-2, D-EVENT-6]", async () => {
    const { accounts } = notified.service;
    const { sub, user_id } = await accounts.create({ email: "ada@example.com", name: HTML });
    const about = { sub, user_id };
    await accounts.update(sub, { surname: "Lovelace", attributes: { department: "Engines" } });
    await accounts.update(sub, { surname: "Lovelace" });
    await accounts.update(sub, { email: "ada@lovelace.example" });
    await accounts.update(sub, { email_verified: true });
    await accounts.assign(sub, "1");
    await accounts.assign(sub, "1", 7);
    await accounts.setRoles(sub, "1", ["editor"]);
    await accounts.setPassword(sub, "a long enough password");
    await accounts.endSessions(sub);
    await accounts.unassign(sub, ["1"]);
    await accounts.disable(sub);
    await accounts.enable(sub);
    await accounts.delete(sub);
    expect(await arrivedAt("/crm")).toEqual([
      ["account.created", { ...about, services: [] }],
      ["account.updated", { ...about, fields: ["surname", "department"] }],
      ["account.address_changed", about],
      ["account.updated", { ...about, fields: ["email_verified"] }],
      ["account.assigned", { ...about, service: "1", user_id_in_service: null }],
      ["account.assigned", { ...about, service: "1", user_id_in_service: 7 }],
      ["account.roles_changed", { ...about, service: "1", roles: ["editor"] }],
      ["account.password_changed", { ...about, has_password: true }],
      ["account.sessions_ended", { ...about, reason: "password", all: true }],
      ["account.sessions_ended", { ...about, reason: "ended", all: true }],
      ["account.unassigned", { ...about, service: "1" }],
      ["account.disabled", about],
      ["account.sessions_ended", { ...about, reason: "disabled", all: true }],
      ["account.enabled", about],
      ["account.deleted", about],
    ]);
    const [first, ...later] = await arrivedAt("/wide");
    expect(first?.[1]["profile"]).toEqual({ email: "ada@example.com", name: HTML, department: null });
    expect(later.at(-1)).toEqual([
      "account.deleted",
      { ...about, profile: { email: "ada@lovelace.example", name: HTML, department: "Engines" } },
    ]);
    expect(await arrivedAt("/narrow")).toEqual([["account.deleted", about]]);
  });

  it("are sent for an invitation, and then for the account that it becomes [D-EVENT-13]", async () => {
    const { accounts, invitations } = notified.service;
    const { id } = await accounts.invite({ email: "grace@example.com", name: HTML });
    await invitations.send(id);
    expect(await arrivedAt("/crm")).toEqual([["account.invited", { invitation: id }]]);
  });

  it("are not sent for an import, and appear in lists as events:KEY [D-EVENT-3, D-EVENT-7]", async () => {
    const { accounts, notifications } = notified.service;
    const { sub } = await accounts.import({ email: "imported@example.com" });
    expect(await storedDeliveries(notifications, { account: sub })).toEqual([]);
    await accounts.delete(sub);
    await notified.nothingWaits();
    const found = await storedDeliveries(notifications, { account: sub, type: "account.deleted" });
    expect(found.map(({ receiver }) => receiver).toSorted()).toEqual([
      "events:crm",
      "events:narrow",
      "events:wide",
    ]);
    const { items } = await notifications.receivers();
    expect(items.map(({ receiver, types }) => [receiver, types.length])).toEqual([
      ["events:crm", EVENT_TYPES.length],
      ["events:narrow", 1],
      ["events:wide", 4],
    ]);
  });

  it("are paused, tested and resumed like notifications [D-EVENT-7]", async () => {
    const { accounts, notifications } = notified.service;
    await arrivedAt("/narrow");
    await notifications.pause("events:narrow", {});
    const { sub, user_id } = await accounts.create({ email: "late@example.com" });
    await accounts.delete(sub);
    expect(await notifications.test("events:narrow")).toMatchObject({ ok: true, type: "account.deleted" });
    expect(await arrivedAtNow("/narrow")).toEqual([["account.deleted", { ...NOBODY }]]);
    await notifications.resume("events:narrow");
    expect(await arrivedAt("/narrow")).toEqual([["account.deleted", { sub, user_id }]]);
  });

  const NOBODY = { sub: "00000000-0000-0000-0000-000000000000", user_id: 0 };

  /** The same without waiting for what waits. */
  async function arrivedAtNow(path: string): ReturnType<typeof arrivedAt> {
    const all = notified.inbox.arrived.filter((post) => post.path === path);
    const fresh = all.slice(read.get(path) ?? 0).map(opened);
    read.set(path, all.length);
    return fresh.map(({ type, data }) => [type, data]);
  }
});
