/** Account events for systems of one's own: what happens is what is sent, signed, by the published schema. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { join } from "node:path";
import { pino } from "pino";
import { Webhook } from "standardwebhooks";
import { EVENT_TYPES, type EventType } from "../../config/events.ts";
import { type EventBody, eventSchema } from "../../accounts/events/event-types.ts";
import { createSignInService } from "../../lib/service.ts";
import { closing, newFolder } from "../closing.ts";
import { start } from "../examples/processes.ts";
import { type Arrived, openInbox } from "../flows/inbox.ts";
import { type Notified, startNotified } from "./notified.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const SECRET = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
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
  // Both secrets, as during a rotation.
  rotating: {
    url: url("/rotating"),
    signing_secret: `${OTHER} ${SECRET}`,
    types: ["account.disabled", "account.enabled"] as const,
    include: ["name"],
  },
});

/** The event of a POST, as any receiver of Standard Webhooks verifies it, by the published schema. */
function opened({ body, headers }: Arrived, secret = SECRET): EventBody {
  const signed = Object.fromEntries(
    ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, String(headers[name])]),
  );
  const event = new Webhook(secret).verify(body, signed) as EventBody;
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
    const fresh = all.slice(read.get(path) ?? 0).map((post) => opened(post));
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

  it("are explained without being sent: who gets a type, and with which names [D-EVENT-21]", async () => {
    const { accounts, notifications } = notified.service;
    const { sub, user_id } = await accounts.import({ email: "x@example.com", name: HTML });
    const about = { sub, user_id };
    const profile = { email: "x@example.com", name: HTML, department: null };
    await notifications.pause("events:wide");
    const told = await notifications.explain({ account: sub, type: "account.updated" });
    const nothing = { services: [], body: null, reason: "type_not_taken", paused: false };
    const something = { services: [], reason: "notified" };
    const body = (data: object) => {
      const timestamp = expect.stringMatching(/^\d{4}-.*Z$/u);
      return { type: "account.updated", timestamp, data: { ...about, fields: ["surname"], ...data } };
    };
    expect(told).toEqual([
      { receiver: "events:crm", ...something, body: body({}), paused: false },
      { receiver: "events:wide", ...something, body: body({ profile }), paused: true },
      { receiver: "events:narrow", ...nothing },
      { receiver: "events:rotating", ...nothing },
    ]);
    for (const type of EVENT_TYPES.filter((each) => each !== "account.invited"))
      for (const each of await notifications.explain({ account: sub, type }))
        if (each.body !== null) eventSchema(type).parse(each.body);
    // Notifications know nothing of events.
    expect(await notifications.explain({ account: sub, type: "PROFILE_CHANGED" })).toEqual([]);
    for (const [action, code] of [
      [{ account: crypto.randomUUID(), type: "account.updated" }, "not_found"],
      [{ account: sub, type: "account.invited" }, "invalid_argument"],
      [{ account: sub, type: "account" }, "invalid_argument"],
    ] as const)
      await expect(notifications.explain(action as never)).rejects.toMatchObject({ code });
    await notifications.resume("events:wide");
    expect(await storedDeliveries(notifications, { account: sub })).toEqual([]);
  });

  it("are not sent for an import, and appear in lists as events:KEY [D-EVENT-3, D-EVENT-7]", async () => {
    const { accounts, notifications } = notified.service;
    const { sub } = await accounts.import({ email: "imported@example.com" });
    expect(await storedDeliveries(notifications, { account: sub })).toEqual([]);
    const asked = await accounts.import({ email: "asked@example.com", notify: true });
    expect(await storedDeliveries(notifications, { account: asked.sub })).toMatchObject([
      { type: "account.created" },
      { type: "account.created" },
    ]);
    expect(await accounts.find(asked.sub)).not.toHaveProperty("notify");
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
      ["events:rotating", 2],
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

  it("are signed with both secrets during a rotation [D-EVENT-19]", async () => {
    const { accounts } = notified.service;
    const { sub } = await accounts.create({ email: "rotated@example.com" });
    await accounts.disable(sub);
    await notified.nothingWaits();
    const post = notified.inbox.arrived.find(({ path }) => path === "/rotating")!;
    for (const secret of [SECRET, OTHER]) expect(opened(post, secret).type).toBe("account.disabled");
    expect(() => opened(post, `whsec_${Buffer.alloc(32, 3).toString("base64")}`)).toThrow("signature");
  });

  it("of a failing receiver delay no other, and are not sent again after a newer one, unless forced [D-EVENT-15, D-EVENT-18]", async () => {
    const { accounts, notifications } = notified.service;
    const { sub } = await accounts.create({ email: "parked@example.com" });
    await arrivedAt("/crm");
    notified.inbox.react = ({ path }) => (path === "/rotating" ? 500 : 200);
    await accounts.disable(sub);
    await accounts.delete(sub);
    const types = (await arrivedAt("/crm")).map(([type]) => type);
    expect(types).toEqual(["account.disabled", "account.sessions_ended", "account.deleted"]);
    const [parked] = await storedDeliveries(notifications, { receiver: "events:rotating", state: "parked" });
    notified.inbox.react = () => 200;
    expect(parked).toMatchObject({ sub, type: "account.disabled", reason: "attempts_used_up" });
    const later = await accounts.create({ email: "parked@example.com" });
    await accounts.disable(later.sub);
    await accounts.enable(later.sub);
    await notified.nothingWaits();
    const ofLater = { account: later.sub, receiver: "events:rotating" };
    const [older, newer] = await storedDeliveries(notifications, ofLater);
    expect([older?.state, newer?.state]).toEqual(["delivered", "delivered"]);
    await expect(notifications.redrive(older!.id, {})).rejects.toMatchObject({ code: "superseded" });
    await notifications.redrive(older!.id, { force: true });
    await notifications.redrive(newer!.id, {});
    await notifications.redrive(parked!.id, {});
    await notified.nothingWaits();
    expect((await notifications.find(parked!.id))?.state).toBe("delivered");
  });

  it("do not go round: a receiver that writes what it got changes nothing [D-EVENT-16]", async () => {
    const { accounts } = notified.service;
    const { sub } = await accounts.create({ email: "round@example.com" });
    await arrivedAt("/wide");
    const writes: Promise<unknown>[] = [];
    notified.inbox.react = (post) => {
      const { type, data } = JSON.parse(post.body) as EventBody;
      if (post.path === "/wide" && type === "account.updated") {
        const { name } = data["profile"] as { readonly name: string };
        writes.push(accounts.update(sub, { name }));
      }
      return 200;
    };
    await accounts.update(sub, { name: "Round" });
    await notified.nothingWaits();
    await Promise.all(writes);
    expect((await arrivedAt("/wide")).map(([type]) => type)).toEqual(["account.updated"]);
    expect(writes).toHaveLength(1);
    notified.inbox.react = () => 200;
  });

  it("are sent by another process when theirs is killed after the commit [D-EVENT-5]", async () => {
    const inbox = closing(await openInbox());
    const config = {
      deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
      storage: `sqlite:${join(newFolder(), "sign-in.db")}`,
      events: {
        receivers: { crm: { url: inbox.url("/crm"), signing_secret: SECRET, types: [...EVENT_TYPES] } },
      },
    };
    const notifications = { allowedReceivers: ["127.0.0.1"] };
    const killed = start("test/notifier/killed-process.ts", {
      args: [JSON.stringify({ ...config, notifications: { ...notifications, worker: false } })],
    });
    await killed.ended;
    expect(inbox.arrived).toEqual([]);
    closing(await createSignInService({ ...config, notifications, logger: pino({ level: "silent" }) }));
    await inbox.until((all) => all.length === 2);
    expect(inbox.arrived.map((post) => opened(post).type)).toEqual(["account.created", "account.deleted"]);
  });

  const NOBODY = { sub: "00000000-0000-0000-0000-000000000000", user_id: 0 };

  /** The same without waiting for what waits. */
  async function arrivedAtNow(path: string): ReturnType<typeof arrivedAt> {
    const all = notified.inbox.arrived.filter((post) => post.path === path);
    const fresh = all.slice(read.get(path) ?? 0).map((post) => opened(post));
    read.set(path, all.length);
    return fresh.map(({ type, data }) => [type, data]);
  }
});
