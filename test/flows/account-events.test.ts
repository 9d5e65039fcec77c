/** What people do sends account events, in order: with one store, and with another one for sessions. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Webhook } from "standardwebhooks";
import { type EventBody, eventSchema } from "../../accounts/events/event-types.ts";
import { EVENT_TYPES } from "../../config/events.ts";
import { closing } from "../closing.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { clientAt } from "./clients.ts";
import { type Arrived, type Inbox, openInbox } from "./inbox.ts";
import { NEWS, type RunningService, startService } from "./running-service.ts";

const SECRET = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const PERSON = { email: "grace@example.com", username: "grace", password: "the password of grace" };

/** The event of a POST, as any receiver of Standard Webhooks verifies it, by the published schema. */
function opened({ body, headers }: Arrived): EventBody {
  const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
  const signed = Object.fromEntries(names.map((name) => [name, String(headers[name])]));
  const event = new Webhook(SECRET).verify(body, signed) as EventBody;
  return eventSchema(event.type).parse(event);
}

describe.each(["one store", "another store for sessions"])("with %s", (where) => {
  const hasOneStore = where === "one store";
  let inbox: Inbox;
  let running: RunningService;

  beforeAll(async () => {
    inbox = closing(await openInbox());
    const artifacts = hasOneStore ? "sqlite::memory:" : closing(await openOwnRedis()).url;
    running = await startService({
      config: {
        storage: "sqlite::memory:",
        artifacts,
        limits: { sessions: 1 },
        mailer: { send: async () => undefined },
        notifications: { allowedReceivers: ["127.0.0.1"], poll: 0.05 },
        events: {
          receivers: { crm: { url: inbox.url("/crm"), signing_secret: SECRET, types: EVENT_TYPES } },
        },
      },
    });
  });

  /** The next events: each with what it tells besides the account. */
  async function next(count: number): Promise<readonly (readonly [string, object])[]> {
    await inbox.until((all) => all.length >= count);
    return inbox.arrived.splice(0, count).map((post) => {
      const { type, data } = opened(post);
      const { sub: _sub, user_id: _number, ...told } = data;
      return [type, told];
    });
  }

  it("a sign-in, a password grant, and the end of a session are events [D-EVENT-9, D-EVENT-12]", async () => {
    const { service } = running;
    const { sub } = await service.accounts.create(PERSON);
    const openid = clientAt(running, "openid", NEWS);
    const browser = openid.browser();
    await openid.code({ ...PERSON, browser });
    const signedIn = ["account.signed_in", { client_id: NEWS.client_id }];
    expect(await next(3)).toEqual([
      ["account.created", { services: [] }],
      ["account.assigned", { service: "1", user_id_in_service: null }],
      signedIn,
    ]);
    await clientAt(running, "oauth2", NEWS).password(PERSON);
    expect(await next(1)).toEqual([signedIn]);
    await browser.get(`${running.openid}/oauth2/logout`);
    await browser.submit(browser.form("xsrf"), { logout: "yes" });
    expect(await next(1)).toEqual([["account.sessions_ended", { reason: "signed_out", all: false }]]);
    await service.accounts.endSessions(sub);
    expect(await next(1)).toEqual([["account.sessions_ended", { reason: "ended", all: true }]]);
    await openid.code({ ...PERSON, browser });
    await openid.code({ ...PERSON, browser: openid.browser() });
    const ended = ["account.sessions_ended", { reason: "limit", all: false }];
    const later = await next(3);
    expect(later).toHaveLength(3);
    expect(later).toEqual(expect.arrayContaining([signedIn, signedIn, ended]));

    const { items } = await service.notifications.list({ type: "account.sessions_ended", account: sub });
    const found = await Promise.all(items.map(({ id }) => running.storage.deliveries.find(id)));
    // What lies in the storage is in its commit, with the whole promise; what lies elsewhere is collected, for an hour.
    expect(found.map(({ until } = {} as never) => until !== undefined)).toEqual([
      !hasOneStore,
      false,
      !hasOneStore,
    ]);
  });

  it("an invitation is an event without an account, and has no personal data of its own [D-EVENT-13]", async () => {
    const { accounts, notifications } = running.service;
    const { id } = await accounts.invite({ email: "eve@example.com", name: "Eve" });
    await inbox.until((all) => all.length > 0);
    const [post] = inbox.arrived.splice(0);
    expect(opened(post!)).toMatchObject({ type: "account.invited", data: { invitation: id } });
    expect(post?.body).not.toMatch(/eve/iu);
    const { items } = await notifications.list({ type: "account.invited" });
    expect(items.map(({ sub }) => sub)).toEqual([`invitation:${id}`]);
  });

  it("an account that is deleted sends its last events in order [D-EVENT-14]", async () => {
    const { accounts, notifications } = running.service;
    const { sub, user_id } = await accounts.create({ email: "late@example.com" });
    await next(1);
    await notifications.pause("events:crm", {});
    await accounts.update(sub, { name: "Late" });
    await accounts.disable(sub);
    await accounts.delete(sub);
    await notifications.resume("events:crm");
    await inbox.until((all) => all.length >= 4);
    const events = inbox.arrived.splice(0).map(opened);
    expect(events.map(({ type }) => type)).toEqual([
      "account.updated",
      "account.disabled",
      "account.sessions_ended",
      "account.deleted",
    ]);
    for (const { data } of events) expect(data).toMatchObject({ sub, user_id });
  });
});
