/** Deliveries and receivers in the console: the verdict on a receiver, the lists, what is sent again, and who may do it. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { OperatorRole } from "../../../config/operators.ts";
import type { ServiceEvent, ServiceEvents } from "../../../core/events.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import type { Form } from "../../../testing/browser/forms.ts";
import { tagsNamed } from "../../../testing/browser/html.ts";
import { closing } from "../../closing.ts";
import { type Inbox, openInbox } from "../../flows/inbox.ts";
import { openConsole, OPERATORS, type RunningConsole } from "./console-visitor.ts";

const RECEIVER = "service:9";
const HOSTILE = `<b>"broken"</b>`;

let inbox: Inbox;
let console: RunningConsole;
let sub: string;
const at: Record<string, Browser> = {};

beforeAll(async () => {
  inbox = closing(await openInbox());
  console = await openConsole({
    // One attempt, so that failures are parked at once.
    config: { notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] } },
  });
  const { accounts, directory } = console.running.service;
  await directory.services.put("9", {
    name: "News & <i>more</i>",
    receiver: {
      url: inbox.url("/notify"),
      client_id: "r",
      client_secret: "the secret of it",
      types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"],
    },
  });
  ({ sub } = await accounts.create({ email: "mary@example.com", name: "Mary", surname: "Somerville" }));
  await accounts.assign(sub, "9");
  for (const role of ["administrator", "support", "viewer", "deliveries"] as const)
    at[role] = await console.open(role);
});
beforeEach(() => {
  respond(200);
  inbox.arrived.length = 0;
});

function respond(status: number, body = ""): void {
  inbox.react = () => (response) => response.writeHead(status).end(body);
}

function next<E extends ServiceEvent>(name: E): Promise<ServiceEvents[E]> {
  return new Promise((resolve) => void console.running.service.events.once(name, resolve));
}

/** Changes the account, and waits for the event of its notification. */
async function change(name: string, outcome: "delivery.parked" | "delivery.succeeded"): Promise<string> {
  const done = next(outcome);
  await console.running.service.accounts.update(sub, { name });
  return (await done).id;
}

async function see(role: OperatorRole, path: string): Promise<Browser> {
  const browser = at[role] as Browser;
  await browser.get(console.url + path);
  if (browser.url.origin !== console.url) await console.enter(browser, OPERATORS[role]);
  return browser;
}

const withAction = (browser: Browser, action: string): Form | undefined =>
  browser.forms().find(({ fields }) => fields.some(([name, value]) => name === "action" && value === action));

/** Presses a button of the page. @returns what the next page says. */
async function press(browser: Browser, action: string, fields: Record<string, string> = {}): Promise<string> {
  const form = withAction(browser, action);
  if (form === undefined) throw new Error(`${browser.url.href} has no button ${action}`);
  await browser.submit(form, fields);
  return said(browser);
}

const said = ({ html }: Browser): string => /role="status"[^>]*>([^<]*)</.exec(html)?.[1] ?? "";

const buttons = (browser: Browser): string[] =>
  browser
    .forms()
    .flatMap(({ fields }) => fields.filter(([name]) => name === "action").map(([, value]) => value))
    .toSorted();

/** The deliveries of the table. */
const listed = (browser: Browser): string[] =>
  tagsNamed(browser.html, "a").flatMap(({ attributes }) => {
    const id = /^\/deliveries\/(msg_\w+)(?:\?|$)/.exec(attributes.get("href") ?? "")?.[1];
    return id === undefined ? [] : [id];
  });

const heading = ({ html }: Browser): string => /<h2 id="why"><bdi>([^<]*)</.exec(html)?.[1] ?? "";

describe("a receiver", () => {
  it("that works says so, and lists nothing that waits [D-ADM-240]", async () => {
    await change("Mary A.", "delivery.succeeded");
    const browser = await see("administrator", `/receivers/${RECEIVER}`);
    expect([browser.status, heading(browser)]).toEqual([200, "News &amp; &lt;i&gt;more&lt;/i&gt; works"]);
    expect(listed(browser)).toEqual([]);
    expect(buttons(browser)).toEqual(["test"]);
  });

  it("that fails has a verdict: since when, what is lost, its last answer as text, and what helps [D-ADM-240]", async () => {
    respond(503, HOSTILE);
    const id = await change("Mary B.", "delivery.parked");
    const browser = await see("administrator", `/receivers/${RECEIVER}`);
    expect(heading(browser)).toMatch(/has refused every delivery since \d+:\d+/);
    expect(browser.html).toContain("1 failed attempt.");
    expect(browser.html).toContain("No deletion is waiting for it.");
    expect(browser.html).toContain("Other receivers are not affected.");
    expect(browser.html).toMatch(/Its last answer: 503 Service Unavailable, [^<]* ms/);
    expect(browser.html).toContain("&lt;b&gt;&quot;broken&quot;&lt;/b&gt;".replaceAll("&quot;", "&#34;"));
    expect(browser.html).not.toContain(HOSTILE);
    expect(listed(browser)).toEqual([id]);
    expect(browser.html).toContain("never: All attempts failed");
    // For as long as its content is kept, it can be sent again.
    expect(browser.html).toMatch(/contents kept until \w+ \d+, \d{4}/);
    expect((await see("administrator", `/deliveries/${id}`)).html).toContain("Content kept until");
    await browser.get(`${console.url}/receivers/${RECEIVER}`);
    expect(buttons(browser)).toEqual(["again", "resume", "test"]);
    const todo = (entry: string): string =>
      new RegExp(`href="/${entry}"[^]*?class="todo">(\\d+<span class="unseen"> \\w+)<`).exec(
        browser.html,
      )?.[1] ?? "";
    expect(todo("deliveries")).toBe('1<span class="unseen"> parked');
    expect(todo("receivers")).toBe('1<span class="unseen"> failing');
    // What was sent is nobody's to read.
    expect(browser.html).not.toMatch(/Mary B|mary@example/);
  });

  it("is tested, resumed and paused, and the next page says what came of it [D-ADM-241]", async () => {
    respond(503);
    const browser = await see("deliveries", `/receivers/${RECEIVER}`);
    expect(await press(browser, "test")).toMatch(/^service:9 did not accept the test: 503, after \d+ ms\.$/);
    respond(200);
    expect(await press(browser, "test")).toMatch(/^service:9 accepted the test: 200/);
    expect(await press(browser, "resume")).toContain("is resumed");
    await browser.get(`${console.url}/receivers/${RECEIVER}?do=pause`);
    expect(browser.html).toContain("until it is resumed");
    await browser.submit(browser.form("reason"), { reason: HOSTILE });
    expect([browser.url.pathname, said(browser)]).toEqual([`/receivers/${RECEIVER}`, "service:9 is paused."]);
    expect(heading(browser)).toContain("is paused: nothing is sent");
    expect(browser.html).not.toContain(HOSTILE);
    expect(await press(browser, "resume")).toContain("is resumed");
  });

  it("is not paused, resumed or tested by support, who read who does [D-ADM-242]", async () => {
    const browser = await see("support", `/receivers/${RECEIVER}`);
    expect(browser.html).toContain("Administrators and the role deliveries pause, resume and test.");
    expect(buttons(browser).filter((each) => each !== "again")).toEqual([]);
    expect(browser.html).not.toContain("do=pause");
    expect((await see("support", `/receivers/${RECEIVER}?do=pause`)).status).toBe(403);
    const viewer = await see("viewer", `/receivers/${RECEIVER}`);
    expect(viewer.html).toContain("Support sends deliveries again.");
    expect(buttons(viewer)).toEqual([]);
  });

  it("takes no button of another page, action, operator or site [D-ADM-242]", async () => {
    const browser = await see("administrator", `/receivers/${RECEIVER}`);
    const form = withAction(browser, "test") as Form;
    inbox.arrived.length = 0;
    for (const fields of [
      { csrf: "wrong" },
      { action: "resume" },
      { action: "constructor" },
      { action: "" },
    ]) {
      await browser.submit(form, fields);
      expect([fields, browser.status]).toEqual([fields, 403]);
    }
    expect(inbox.arrived).toEqual([]);
  });
});

describe("deliveries", () => {
  it("are listed by state, the oldest that have not arrived first, and stay with their filters [D-ADM-243]", async () => {
    respond(500);
    const first = await change("Mary C.", "delivery.parked");
    console.clock.advance(60);
    const second = await change("Mary D.", "delivery.parked");
    const browser = await see("deliveries", "/deliveries");
    const shown = listed(browser);
    expect(shown.slice(-2)).toEqual([first, second]);
    await browser.get(`${console.url}/deliveries?receiver=${RECEIVER}&state=parked&sort=-changed`);
    expect(listed(browser).slice(0, 2)).toEqual([second, first]);
    await browser.get(`${console.url}/deliveries?state=waiting`);
    expect([listed(browser), browser.html.includes("Nothing matches.")]).toEqual([[], true]);
    await browser.get(`${console.url}/deliveries?account=${sub}`);
    expect(listed(browser)).toEqual(expect.arrayContaining([first, second]));
    // The role has no people.
    expect(browser.html).not.toContain(`/people/${sub}`);
    expect((await see("support", `/deliveries?account=${sub}`)).html).toContain(`/people/${sub}`);
  });

  it("refuse a filter that is none of theirs [D-ADM-243]", async () => {
    const browser = await see("viewer", "/deliveries?account=mary%40example.com");
    expect([browser.status, browser.html.includes("36 characters")]).toEqual([422, true]);
    for (const query of [
      "receiver=<b>",
      "type=nothing",
      "state=parked&after=msg_1",
      "state=waiting&after=%00",
    ]) {
      await browser.get(`${console.url}/deliveries?${query}`);
      expect([query, browser.status]).toEqual([query, 422]);
    }
    await browser.get(`${console.url}/deliveries?state=__proto__&sort=constructor`);
    expect(browser.status).toBe(200);
  });

  it("are sent again one by one: those that were chosen, in their order [D-ADM-244]", async () => {
    const browser = await see("support", `/deliveries?receiver=${RECEIVER}&state=parked`);
    const [first = "", second = "", third = ""] = listed(browser);
    expect(await press(browser, "again")).toBe("Nothing was sent: no delivery was chosen.");
    const sent = inbox.until((arrived) => arrived.length >= 2);
    expect(await press(browser, "again", { [first]: "yes", [second]: "yes", nobody: "yes" })).toContain(
      "Sent again: 2.",
    );
    await sent;
    expect(inbox.arrived.map(({ id }) => id)).toEqual([first, second]);
    expect(listed(browser)).toEqual([third]);
  });

  it("with newer data since are sent only after a warning [D-ADM-244]", async () => {
    respond(500);
    const old = await change("Mary E.", "delivery.parked");
    respond(200);
    await change("Mary F.", "delivery.succeeded");
    const browser = await see("support", `/deliveries/${old}`);
    expect(browser.html).toContain("500 Internal Server Error");
    expect(buttons(browser)).toEqual(["redrive"]);
    expect(await press(browser, "redrive")).toContain("The receiver has newer data");
    expect(buttons(browser)).toEqual(["force"]);
    await browser.get(`${console.url}/deliveries?do=redriveAll&receiver=${RECEIVER}`);
    expect(browser.html).toMatch(/parked deliver(?:y matches|ies match)\./);
    expect(browser.html).toMatch(/of them stays? parked, because the receiver has newer data/);
    await browser.submit(browser.form("receiver"));
    expect(said(browser)).toMatch(/^Sent again: \d+\. Not sent because newer data was delivered: [1-9]/);
    const done = next("delivery.succeeded");
    await browser.get(`${console.url}/deliveries/${old}`);
    await press(browser, "redrive");
    expect(await press(browser, "force")).toBe("It is being sent again.");
    expect((await done).id).toBe(old);
  });

  it("are discarded on a page that says that it is final, and not by support [D-ADM-244]", async () => {
    respond(500);
    const id = await change("Mary G.", "delivery.parked");
    expect((await see("support", `/deliveries/${id}`)).html).not.toContain("do=discard");
    const browser = await see("deliveries", `/deliveries/${id}?do=discard`);
    expect(browser.html).toContain("This can’t be undone.");
    await browser.submit(browser.forms().find(({ action }) => action.search.includes("do=")));
    expect([browser.url.pathname, browser.status]).toEqual([`/deliveries/${id}`, 200]);
    expect(browser.html).toContain("Discarded by an operator");
  });
});
