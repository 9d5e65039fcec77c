import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Account } from "../../accounts/operations/accounts.ts";
import type { ServiceEvent, ServiceEvents } from "../../core/events.ts";
import { formOf, listed, resultOf } from "../interactions/console-visitor.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { type Inbox, openInbox } from "./inbox.ts";
import { send } from "../../testing/test-client.ts";
import { signedIn, signIn } from "./clients.ts";
import { ADA, OPERATOR, type RunningService, startService } from "./running-service.ts";
import { closing } from "../closing.ts";

const FORGED = { origin: "https://evil.example", "content-type": "application/x-www-form-urlencoded" };

let inbox: Inbox;
let running: RunningService;
let account: Account;
let browser: Browser;
let list: string;

beforeAll(async () => {
  inbox = closing(await openInbox());
  running = await startService({
    config: {
      // The old form, which has deliveries and receivers.
      operators: [OPERATOR.sub],
      // One attempt, so that failures are parked immediately.
      notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] },
      events: {
        receivers: {
          crm: {
            url: inbox.url("/events"),
            signing_secret: `whsec_${"A".repeat(32)}`,
            types: ["account.disabled"],
            include: ["name"],
          },
        },
      },
    },
  });
  const { accounts, directory } = running.service;
  await accounts.import(OPERATOR);
  await directory.services.put("9", {
    name: "Notified",
    receiver: {
      url: inbox.url("/notify"),
      client_id: "r",
      client_secret: "the secret of it",
      types: ["PROFILE_CHANGED"],
    },
  });
  account = await accounts.create({ email: "grace@example.com", name: "Grace", surname: "Hopper" });
  await accounts.assign(account.sub, "9");
  browser = await signedIn(running.openid, OPERATOR);
  list = `${running.openid}/account/deliveries`;
});
beforeEach(() => {
  respond(200);
  inbox.arrived.length = 0;
});

/** Sets the receiver's response. */
function respond(status: number, body = ""): void {
  inbox.react = () => (response) => response.writeHead(status).end(body);
}

/** The `webhook-id` of everything that arrived. */
const arrived = (): string[] => inbox.arrived.map(({ id }) => id);

/** The next event of this name. */
function next<E extends ServiceEvent>(name: E): Promise<ServiceEvents[E]> {
  return new Promise((resolve) => void running.service.events.once(name, resolve));
}

/** Changes the account, and waits for the event of its notification. */
async function change(name: string, outcome: "delivery.parked" | "delivery.succeeded"): Promise<string> {
  const done = next(outcome);
  await running.service.accounts.update(account.sub, { name });
  return (await done).id;
}

/** Presses a button of the page that is open. */
async function press(action: string, name?: string): Promise<void> {
  await browser.submit(formOf(browser, action, name));
  expect(browser.status).toBe(200);
}

describe("an operator", () => {
  it("finds the console from the account page", async () => {
    await browser.get(`${running.openid}/account`);
    await browser.click("Operator console");
    expect([browser.status, browser.url.href, browser.title]).toEqual([200, list, "Deliveries"]);
  });

  it("sees failed deliveries with their attempts, and redrives them", async () => {
    respond(500, "<b>broken</b>");
    const id = await change("Grace B.", "delivery.parked");
    await browser.get(`${list}?state=parked&receiver=service:9&sub=${account.sub}`);
    expect(listed(browser)).toEqual([id]);
    await browser.get(`${list}/${id}`);
    expect(browser.html).toContain("&lt;b&gt;broken&lt;/b&gt;");
    expect(browser.html).toContain(">500 Internal Server Error</strong>");
    expect(browser.html).toMatch(/>\d+ ms</);
    // The page does not show the notification's payload.
    expect(browser.html).not.toMatch(/grace|hopper|user_email/i);
    respond(200, "ok");
    const done = next("delivery.succeeded");
    await press("redrive");
    expect(resultOf(browser)).toBe("It is being sent again.");
    expect((await done).id).toBe(id);
    expect(arrived()).toEqual([id, id]);
    await browser.get(`${list}/${id}`);
    expect(browser.html).toContain("Delivered");
    expect(browser.html).toContain("Response to attempt 2");
  });

  it("sees account events and their receivers like notifications, without what they tell [D-EVENT-7]", async () => {
    respond(500);
    const { accounts } = running.service;
    const { sub } = await accounts.create({ email: "eve@example.com", name: "<b>Eve</b>" });
    const done = next("delivery.parked");
    await accounts.disable(sub);
    const { id } = await done;
    await browser.get(`${list}?state=parked&receiver=events:crm&type=account.disabled`);
    expect(listed(browser)).toEqual([id]);
    expect(browser.html).toContain("account.signed_in");
    await browser.get(`${list}/${id}`);
    expect([browser.status, browser.html.includes("Eve")]).toEqual([200, false]);
    respond(200);
    const sent = next("delivery.succeeded");
    await press("redrive");
    expect((await sent).id).toBe(id);
    await browser.get(`${list}/receivers`);
    expect(browser.html).toContain("events:crm");
    await press("test", "events:crm");
    expect(resultOf(browser)).toContain("events:crm");
    await press("pause", "events:crm");
    await press("resume", "events:crm");
    expect(inbox.arrived.map(({ path }) => path)).toEqual(["/events", "/events", "/events"]);
  });

  it("is warned about superseded deliveries, and can redrive them anyway", async () => {
    respond(500);
    const old = await change("Grace C.", "delivery.parked");
    respond(200);
    const newer = await change("Grace D.", "delivery.succeeded");
    await browser.get(`${list}/${old}`);
    await press("redrive");
    expect(resultOf(browser)).toContain("The receiver has newer data");
    expect(browser.forms().map(({ fields }) => new Map(fields).get("action"))).toEqual(["force", "discard"]);
    const done = next("delivery.succeeded");
    await press("force");
    await done;
    expect(arrived()).toEqual([old, newer, old]);
  });

  it("pauses a receiver, discards a delivery, and resumes", async () => {
    const names = `${list}/receivers`;
    await browser.get(names);
    await press("pause", "service:9");
    expect(resultOf(browser)).toBe("service:9 is paused.");
    await running.service.accounts.update(account.sub, { name: "Grace E." });
    await running.service.accounts.update(account.sub, { name: "Grace F." });
    await browser.get(`${list}?state=waiting`);
    const [kept = "", given = ""] = listed(browser);
    await browser.get(`${list}/${given}`);
    await press("discard");
    expect(resultOf(browser)).toBe("It was discarded.");
    expect(arrived()).toEqual([]);
    const done = next("delivery.succeeded");
    await browser.get(names);
    await press("resume", "service:9");
    expect((await done).id).toBe(kept);
    expect(arrived()).toEqual([kept]);
    await browser.get(`${list}?state=discarded`);
    expect(listed(browser)).toEqual([given]);
  });

  it("sends a test, and redrives all parked deliveries", async () => {
    await browser.get(`${list}/receivers`);
    await press("test", "service:9");
    expect(resultOf(browser)).toMatch(/^service:9 accepted the test: 200, after \d+ ms\.$/);
    expect(arrived()).toEqual([expect.stringMatching(/^test_/)]);
    respond(503);
    const id = await change("Grace G.", "delivery.parked");
    await browser.get(`${list}/receivers`);
    await press("test", "service:9");
    expect(resultOf(browser)).toContain("did not accept the test: 503");
    inbox.react = () => (response) => response.destroy();
    await press("test", "service:9");
    expect(resultOf(browser)).toMatch(/test: ECONNRESET, after \d+ ms/u);
    respond(200);
    const done = next("delivery.succeeded");
    await press("redriveAll", "service:9");
    expect(resultOf(browser)).toContain("Sent again: 1.");
    expect((await done).id).toBe(id);
  });

  it("returns to the page after a new sign-in; the form is lost", async () => {
    respond(500);
    const id = await change("Grace H.", "delivery.parked");
    const tab = await signedIn(running.openid, OPERATOR);
    await tab.get(`${list}/${id}`);
    await running.service.accounts.endSessions(OPERATOR.sub);
    await tab.submit(formOf(tab, "redrive"));
    expect([tab.visits[0]?.status, tab.title]).toEqual([303, "Sign in"]);
    await signIn(tab, OPERATOR);
    expect([tab.status, tab.url.href, tab.title]).toEqual([200, `${list}/${id}`, "Delivery"]);
    expect(tab.html).toContain("Parked");
    browser = tab;
  });
});

describe("the audit", () => {
  it("records the operator's actions, with identifiers only", async () => {
    const { audit } = running.service;
    const since = Math.floor(Date.now() / 1000);
    respond(500);
    const first = await change("Grace I.", "delivery.parked");
    const second = await change("Grace J.", "delivery.parked");
    await browser.get(`${list}/${first}`);
    await press("redrive");
    await browser.get(`${list}/${second}`);
    await press("discard");
    for (const action of ["pause", "resume", "test", "redriveAll"]) {
      await browser.get(`${list}/receivers`);
      await press(action, "service:9");
    }
    const { items: records } = await audit.list({ since, limit: 1000 });
    const own = records.filter(({ action }) => /^(?:delivery|receiver)\./.test(action)).toReversed();
    const recorded = own.slice(-6).map(({ action, subject, detail }) => [action, subject, detail]);
    expect(recorded).toEqual([
      ["delivery.redrive_requested", first, { force: false }],
      ["delivery.discard_requested", second, {}],
      ["receiver.pause_requested", "service:9", {}],
      ["receiver.resume_requested", "service:9", {}],
      ["receiver.test_requested", "service:9", {}],
      ["delivery.redrive_all_requested", "service:9", { force: false }],
    ]);
    const operator = { kind: "operator", id: OPERATOR.sub };
    expect(own.slice(-6).map(({ actor }) => actor)).toEqual(own.slice(-6).map(() => operator));
    expect(JSON.stringify(records)).not.toMatch(/example\.com|Grace/);
  });

  it("has no records of refused forms", async () => {
    const before = await running.service.audit.list();
    await browser.get(`${list}/receivers`);
    await browser.submit(formOf(browser, "pause", "service:9"), { csrf: "wrong" });
    expect(browser.status).toBe(403);
    expect(await running.service.audit.list()).toEqual(before);
  });
});

describe("other users", () => {
  it("have no access, by sub and not by e-mail address [D-RUN-3]", async () => {
    const ada = await signedIn(running.openid, ADA);
    expect(ada.html).not.toContain("/account/deliveries");
    const people = list.replace("/deliveries", "/people");
    for (const path of [list, `${list}/receivers`, `${list}/msg_1`, `${list}?state=parked`, people]) {
      await ada.get(path);
      expect([path, ada.status, ada.title]).toEqual([path, 403, "You don’t have access"]);
      expect(ada.html).not.toContain("service:9");
    }
    const cookie = ada.jar.header(new URL(list));
    const post = { method: "POST", body: "action=redriveAll", headers: { ...FORGED, cookie } };
    await expect(send(list, post)).resolves.toMatchObject({ status: 403 });
    const { status: unknown } = await send(list);
    expect(unknown).toBe(303);
  });

  it("can't submit an operator's forms from another site", async () => {
    await browser.get(`${list}/receivers`);
    const { fields } = formOf(browser, "pause", "service:9");
    const body = new URLSearchParams(fields as [string, string][]).toString();
    const cookie = browser.jar.header(new URL(list));
    const { status: refused } = await send(`${list}/receivers`, {
      method: "POST",
      body,
      headers: { ...FORGED, cookie },
    });
    expect(refused).toBe(403);
    const found = await running.service.notifications.receivers();
    expect(found.items.find((each) => each.receiver === "service:9")).toMatchObject({ paused: false });
  });
});

const times = (): string[] =>
  tagsNamed(browser.html, "time").flatMap(({ attributes }) => attributes.get("title") ?? []);
const expectZone = (zone: string): void => {
  expect(times().length).toBeGreaterThan(0);
  expect(times().filter((text) => !text.endsWith(zone))).toEqual([]);
};
const keptZone = (): string | undefined =>
  browser.jar.all().find(({ name }) => name === "sign_in_time_zone")?.value;

describe("the time zone of exact times", () => {
  beforeEach(async () => {
    browser = await signedIn(running.openid, OPERATOR);
  });

  it("is UTC until the person chooses another one, which a cookie keeps for every page", async () => {
    await browser.get(list);
    expectZone("UTC");
    await browser.click("Choose another time zone");
    await browser.submit(browser.form("zone"), { zone: "Asia/Tokyo" });
    expect(listed(browser)).not.toEqual([]);
    expectZone("GMT+9");
    expect(keptZone()).toBe("Asia/Tokyo");
    await browser.get(`${list}/${listed(browser)[0]}`);
    expectZone("GMT+9");
    await browser.click("Choose another time zone");
    await browser.submit(browser.form("zone"), { zone: "UTC" });
    expectZone("UTC");
  });

  it("is chosen without losing the filter of the list", async () => {
    await browser.get(`${list}?state=parked&type=&sub=%22%3E%3Cb%3E`);
    await browser.click("Choose another time zone");
    await browser.submit(browser.form("zone"), { zone: "Asia/Tokyo" });
    expect([...browser.url.searchParams]).toEqual([
      ["state", "parked"],
      ["type", ""],
      ["sub", '"><b>'],
      ["zone", "Asia/Tokyo"],
    ]);
    expect(browser.html).not.toContain("<b>");
  });

  it.each([
    "",
    "Mars/Olympus",
    "UTC; Path=/; Domain=evil.example",
    "UTC\r\nSet-Cookie: a=b",
    "<script>alert(1)</script>",
    "__proto__",
    "Europe/Warsaw".repeat(1_000),
  ])("is not %j: nothing is kept", async (zone) => {
    await browser.get(`${list}?${new URLSearchParams({ zone })}`);
    expect([browser.status, keptZone()]).toEqual([200, undefined]);
    expectZone("UTC");
    const url = new URL(list);
    const cookie = `${browser.jar.header(url)}; sign_in_time_zone=${encodeURIComponent(zone)}`;
    const { text } = await send(list, { headers: { cookie } });
    expect(text).toContain("UTC");
    expect(text).not.toContain("GMT");
  });
});

it("says at the start that operators of a list have no pages about people [D-ADM-80]", () => {
  expect(running.log.join("")).toContain('need { \\"<sub>\\": \\"support\\" }');
});

it("unknown paths below the console are left to the host application", async () => {
  for (const path of ["/", "/a/b", "/a.b", "/%2e%2e", "/a%00", "/receivers/", `/${"x".repeat(256)}`]) {
    await expect(send(list + path)).resolves.toMatchObject({ status: 404 });
  }
});
