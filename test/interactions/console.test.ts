/** The console of a service with deliveries in every state: its lists, filters and forms, and what they refuse. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Account } from "../../accounts/operations/accounts.ts";
import type { ServiceEvent, ServiceEvents } from "../../core/events.ts";
import { pino } from "pino";
import { Browser, type Send } from "../../testing/browser/browser.ts";
import { send } from "../../testing/test-client.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { closing, newFolder } from "../closing.ts";
import { signedIn, signIn, viaProxy } from "../flows/clients.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import {
  ADA,
  OPERATOR,
  type RunningOptions,
  type RunningService,
  startService,
  storageIn,
} from "../flows/running-service.ts";
import { formOf, listed, resultOf } from "./console-visitor.ts";
import { localeFile } from "./every-page.ts";

const TEXTS = localeFile("en");
const COLLEAGUE = {
  sub: "9c1d7e3a-8f5b-4c39-9d4e-2a6b1c0d7e8f",
  email: "colleague@example.com",
  username: "colleague",
  password: "the password of the colleague",
};
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const HOSTILE = `<script>alert(1)</script>\0\u202E\u001B[31m\n${"x".repeat(5_000)}`;

let config: NonNullable<Parameters<typeof startService>[0]>["config"];
/** Makes each change another one. */
let changes = 0;
let inbox: Inbox;
let running: RunningService;
let browser: Browser;
let list: string;
/** The accounts that have one delivery each, and those deliveries. */
let grace: Account;
const ids = { parked: "", waiting: "", delivered: "", discarded: "" };

const receiverOf = (key: string) => ({
  url: inbox.url(`/${key}`),
  client_id: "r",
  client_secret: "the secret of it",
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"] as const,
});

function next<E extends ServiceEvent>(name: E): Promise<ServiceEvents[E]> {
  return new Promise((resolve) => void running.service.events.once(name, resolve));
}

/** An account that uses one service. */
async function accountOf(service: string, name: string): Promise<Account> {
  const account = await running.service.accounts.create({ email: `${name.toLowerCase()}@example.com`, name });
  await running.service.accounts.assign(account.sub, service);
  return account;
}

/** Changes the account, whose receiver answers with this. @returns the delivery, which is over. */
async function sent({ sub }: Account, status: number, body = ""): Promise<string> {
  inbox.react = () => (response) => response.writeHead(status).end(body);
  const over = next(status === 200 ? "delivery.succeeded" : "delivery.parked");
  await running.service.accounts.update(sub, { name: `Name ${(changes += 1)}` });
  return (await over).id;
}

/** Changes the account, whose receiver is paused. @returns the delivery, which waits. */
async function waiting({ sub }: Account): Promise<string> {
  await running.service.accounts.update(sub, { name: `Name ${(changes += 1)}` });
  const { items } = await running.service.notifications.list({ account: sub, limit: 1 });
  return items[0]?.id ?? "";
}

beforeAll(async () => {
  inbox = closing(await openInbox());
  config = {
    ...(await storageIn(newFolder())),
    operators: { [OPERATOR.sub]: "administrator", [COLLEAGUE.sub]: "administrator" },
    // One attempt, so that failures are parked immediately.
    notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] },
  };
  running = await startService({ config });
  list = `${running.openid}/account/deliveries`;
  const { accounts, directory, notifications } = running.service;
  await accounts.import(OPERATOR);
  await accounts.import(COLLEAGUE);
  for (const key of ["open", "paused", "removed", "failing"])
    await directory.services.put(key, { name: key, receiver: receiverOf(key) });
  await notifications.pause("service:paused", { reason: "too slow" });
  grace = await accountOf("open", "Grace");
  ids.parked = await sent(grace, 500, HOSTILE);
  ids.delivered = await sent(await accountOf("open", "Eve"), 200);
  ids.waiting = await waiting(await accountOf("paused", "Alan"));
  const { sub } = await accountOf("paused", "Kurt");
  await accounts.delete(sub);
  const { items } = await notifications.list({ account: sub, type: "DELETE_ACCOUNT" });
  ids.discarded = items[0]?.id ?? "";
  await notifications.discard(ids.discarded);
});
beforeEach(async () => {
  browser = await signedIn(running.openid, OPERATOR);
});

const open = (address: string): Promise<Browser> => browser.get(address);

/** Submits a form of a page. */
async function press(address: string, action: string, receiver?: string): Promise<string | undefined> {
  await open(address);
  await browser.submit(formOf(browser, action, receiver));
  expect(browser.visits.map(({ status }) => status)).toEqual([303, 200]);
  return resultOf(browser);
}

/** The actions that the page offers. */
const offered = (): string[] => browser.forms().flatMap(({ fields }) => new Map(fields).get("action") ?? []);

/** Sends a form as a program would. */
async function post(
  address: string,
  body: Readonly<Record<string, string>> | string,
  { headers = {}, by = browser }: { headers?: Record<string, string>; by?: Browser } = {},
): Promise<number> {
  const { status } = await send(address, {
    method: "POST",
    body: typeof body === "string" ? body : new URLSearchParams(body).toString(),
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      cookie: by.jar.header(new URL(address)),
      ...headers,
    },
  });
  return status;
}

/** What was requested of deliveries and receivers. */
const requested = async (): Promise<readonly unknown[]> =>
  (await running.service.audit.list({ limit: 1_000 })).items.filter(({ action }) =>
    /^(?:delivery|receiver)\./u.test(action),
  );

/** Another process, which answers for the same deployments. */
const beside = (options: RunningOptions): Promise<RunningService> =>
  startService({
    ...options,
    config: { ...config, proxy: true, ...options.config },
    deployments: () => ({ oauth2: { url: running.oauth2 }, openid: { url: running.openid } }),
  });

describe("the list", () => {
  it("shows all deliveries, with the page's security headers", async () => {
    await open(list);
    expect(listed(browser).toSorted()).toEqual(Object.values(ids).toSorted());
    expect(browser.headers.get("content-security-policy")).toContain("script-src http");
    expect(browser.headers.get("cache-control")).toBe("no-store");
    expect(browser.headers.get("referrer-policy")).toBe("same-origin");
  });

  it("filters by state, receiver, type and account, and keeps the filter in the form", async () => {
    await open(list);
    const filter = browser.form("state");
    expect(filter.method).toBe("GET");
    await browser.submit(filter, { state: "parked" });
    expect(listed(browser)).toEqual([ids.parked]);
    await browser.submit(browser.form("type"), { state: "", type: "DELETE_ACCOUNT" });
    expect(listed(browser)).toEqual([ids.discarded]);
    await browser.submit(browser.form("type"), { type: "", receiver: "service:open" });
    expect(listed(browser).toSorted()).toEqual([ids.delivered, ids.parked].toSorted());
    await browser.submit(browser.form("type"), { receiver: "", sub: ` ${grace.sub.toUpperCase()} ` });
    expect(listed(browser)).toEqual([ids.parked]);
    expect(Object.fromEntries(browser.form("type").fields)).toEqual({
      state: "",
      receiver: "",
      type: "",
      sub: grace.sub,
    });
  });

  it("pages with the filter, and returns to the first page", async () => {
    const many = await accountOf("paused", "Many");
    for (let index = 0; index < 52; index += 1)
      await running.service.accounts.update(many.sub, { name: `Name ${index}` });
    await open(`${list}?state=waiting&sub=${many.sub}`);
    const first = listed(browser);
    expect(first).toHaveLength(50);
    await browser.click(TEXTS["list.next"] ?? "");
    const second = listed(browser);
    expect(new Set([...first, ...second]).size).toBe(52);
    expect(browser.html).not.toContain(TEXTS["list.next"]);
    await browser.click(TEXTS["list.first"] ?? "");
    expect(listed(browser)).toEqual(first);
    await open(`${list}?sub=${many.sub}&after=${second.at(-1)}`);
    expect(browser.html).toContain(TEXTS["console.none"]);
    await running.service.accounts.unassign(many.sub, "paused");
  });

  it("reports an invalid account id", async () => {
    for (const sub of ["ada@example.com", "x", "' OR 1=1 --", "<script>", "\r\nSet-Cookie: a=b"]) {
      await open(`${list}?${new URLSearchParams({ sub, state: "parked" })}`);
      expect([browser.status, listed(browser)]).toEqual([400, []]);
      expect(browser.html).toContain(TEXTS["console.problem.sub"]);
      expect(new Map(browser.form("type").fields).get("sub")).toBe(sub);
    }
  });

  it.each([
    "state=lost",
    "state=__proto__",
    "type=delete_account",
    "type=constructor",
    "receiver=media",
    "receiver=service:..%2F1",
    "receiver=service:1%0D%0Ax:y",
    `receiver=service:${"x".repeat(65)}`,
    "after=..%2F..",
    "after=%3Cscript%3E",
    `after=${"x".repeat(256)}`,
  ])("refuses unknown filters: %s", async (query) => {
    await open(`${list}?${query}`);
    expect([browser.status, browser.title]).toEqual([400, TEXTS["error.title"]]);
  });

  it("redrives all matching parked deliveries, and no others", async () => {
    await open(list);
    expect(offered()).toEqual([]);
    await open(`${list}?state=parked&receiver=service:paused`);
    expect(offered()).toEqual([]);
    const other = await accountOf("open", "Barbara");
    const id = await sent(other, 500);
    // The token is valid only for its filter.
    await open(`${list}?state=parked&sub=${other.sub}`);
    const form = formOf(browser, "redriveAll");
    await browser.submit(form, { sub: "" });
    expect(browser.status).toBe(403);
    await browser.submit(form, { state: "delivered" });
    expect(browser.status).toBe(400);
    inbox.react = () => 200;
    const done = next("delivery.succeeded");
    expect(await press(`${list}?state=parked&sub=${other.sub}`, "redriveAll")).toMatch(/Sent again: 1\./);
    expect(browser.url.search).toMatch(`?sub=${other.sub}&state=parked&`);
    expect((await done).id).toBe(id);
    expect(await running.service.notifications.find(ids.parked)).toMatchObject({ state: "parked" });
  });
});

describe("one delivery", () => {
  it("is shown with the time, status, duration and response text of every attempt", async () => {
    await open(`${list}/${ids.parked}`);
    expect(tagsNamed(browser.html, "script").map(({ text }) => text)).toEqual([""]);
    const shown = tagsNamed(browser.html, "pre").map(({ text }) => text.trim());
    expect(shown).toEqual([
      expect.stringMatching(/^<script>alert\(1\)<\/script>\uFFFD\uFFFD\uFFFD\[31m\nx{900,4063}$/u),
    ]);
    expect(tagsNamed(browser.html, "time").length).toBeGreaterThan(0);
    expect(browser.html).toContain("500");
    expect(browser.html).toMatch(/>\d+ ms</u);
  });

  it.each([
    ["parked", ["redrive", "discard"]],
    ["waiting", ["sendNow", "discard"]],
    ["delivered", ["redrive"]],
    ["discarded", ["redrive"]],
  ] as const)("offers what is possible while it is %s", async (state, actions) => {
    await open(`${list}/${ids[state]}`);
    expect(offered()).toEqual(actions);
  });

  it("is sent and discarded, and says why not", async () => {
    const { notifications } = running.service;
    const account = await accountOf("paused", "Emmy");
    const first = await waiting(account);
    const second = await waiting(account);
    expect(await press(`${list}/${first}`, "sendNow")).toBe(TEXTS["console.result.receiver_stopped"]);
    expect(await press(`${list}/${second}`, "sendNow")).toBe(TEXTS["console.result.behind"]);
    await open(`${list}/${first}`);
    const late = ["sendNow", "discard"].map((action) => formOf(browser, action));
    expect(await press(`${list}/${first}`, "discard")).toBe(TEXTS["console.result.discarded"]);
    for (const form of late) {
      await browser.submit(form);
      expect(resultOf(browser)).toBe(TEXTS["console.result.not_waiting"]);
    }
    await open(`${list}/${first}`);
    const again = formOf(browser, "redrive");
    await browser.submit(again);
    expect(resultOf(browser)).toBe(TEXTS["console.result.redriven"]);
    await browser.submit(again);
    expect(resultOf(browser)).toBe(TEXTS["console.result.not_applicable"]);
    await notifications.discard(first);
    await notifications.discard(second);
  });

  it("that is unknown is 404", async () => {
    for (const id of ["msg_0", "__proto__", "x".repeat(255)]) {
      await open(`${list}/${id}`);
      expect([browser.status, browser.html]).toEqual([
        404,
        expect.stringContaining("This delivery does not exist"),
      ]);
    }
  });
});

describe("the receivers", () => {
  it("are shown with their state and possible actions", async () => {
    const rosalind = await accountOf("removed", "Rosalind");
    await sent(rosalind, 500);
    await running.service.accounts.unassign(rosalind.sub, "removed");
    await running.service.directory.services.remove("removed");
    const failing = await accountOf("failing", "Lise");
    const opened = next("receiver.circuit_opened");
    for (let failures = 0; failures < 5; failures += 1) await sent(failing, 500);
    await opened;
    await open(`${list}/receivers`);
    const forms = browser.forms().flatMap(({ fields }) => {
      const { receiver, action } = Object.fromEntries(fields);
      return receiver === undefined ? [] : [`${receiver} ${action}`];
    });
    expect(forms.toSorted()).toEqual([
      "service:failing pause",
      "service:failing redriveAll",
      "service:failing resume",
      "service:failing test",
      "service:open pause",
      "service:open redriveAll",
      "service:open test",
      "service:paused resume",
      "service:paused test",
      "service:removed pause",
      "service:removed redriveAll",
    ]);
    for (const words of [inbox.url("/open"), "too slow", "Paused.", "Failed attempts in a row: 5"])
      expect(browser.html).toContain(words);
  });

  it("that are gone take nothing", async () => {
    const { services } = running.service.directory;
    await services.put("brief", { name: "Brief", receiver: receiverOf("brief") });
    await open(`${list}/receivers`);
    const pause = formOf(browser, "pause", "service:brief");
    await browser.submit(pause);
    expect(resultOf(browser)).toBe("service:brief is paused.");
    const resume = formOf(browser, "resume", "service:brief");
    await browser.submit(resume);
    await services.remove("brief");
    for (const form of [pause, resume]) {
      await browser.submit(form);
      expect(resultOf(browser)).toBe(
        TEXTS["console.result.not_found"]?.replaceAll("{receiver}", "service:brief"),
      );
    }
  });
});

describe("a form", () => {
  /** The fields of the form that redrives the parked delivery, and where it goes. */
  let good: Record<string, string>;
  let address: string;
  let requests: readonly unknown[];

  beforeEach(async () => {
    address = `${list}/${ids.parked}`;
    good = Object.fromEntries(formOf(await open(address), "redrive").fields);
    requests = await requested();
  });

  it("of another site is refused [D-SELF-2]", async () => {
    const others: Record<string, string>[] = [
      { origin: "https://evil.example" },
      { origin: `${running.origin}0` },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { origin: "null" },
    ];
    for (const headers of others)
      expect([headers, await post(address, good, { headers })]).toEqual([headers, 403]);
    expect(await requested()).toEqual(requests);
    inbox.react = () => 500;
    const parked = next("delivery.parked");
    const headers = { origin: "null", "sec-fetch-site": "same-origin" };
    expect(await post(address, good, { headers })).toBe(303);
    await parked;
  });

  it("is valid for one action on one object in one session", async () => {
    const { csrf = "" } = good;
    const bad: [string, Record<string, string>][] = [
      [address, { action: "redrive" }],
      [address, { action: "redrive", csrf: "" }],
      [address, { action: "redrive", csrf: `${csrf}A` }],
      [address, { action: "redrive", csrf: csrf.slice(0, -1) }],
      [address, { action: "force", csrf }],
      [address, { action: "discard", csrf }],
      [`${list}/${ids.delivered}`, { action: "redrive", csrf }],
      [`${list}/receivers`, { action: "pause", receiver: "service:open", csrf }],
      [list, { action: "redriveAll", csrf }],
    ];
    for (const [at, body] of bad) expect([at, body, await post(at, body)]).toEqual([at, body, 403]);
    for (const person of [OPERATOR, COLLEAGUE, ADA])
      expect(await post(address, good, { by: await signedIn(running.openid, person) })).toBe(403);
    expect(await post(address, good, { by: new Browser() })).toBe(303);
    expect(await requested()).toEqual(requests);
  });

  it("that no page contains is refused", async () => {
    const { csrf = "" } = good;
    for (const [at, body] of [
      [address, { csrf }],
      [address, { csrf, action: "toString" }],
      [address, "action=redrive&action=discard"],
      [address, "action=%zz"],
      [address, `action=redrive&x=${"x".repeat(70_000)}`],
      [`${list}/receivers`, { csrf, action: "constructor", receiver: "service:1" }],
      [`${list}/receivers`, { csrf, action: "pause", receiver: "../1" }],
      [`${list}/receivers`, { csrf, action: "pause", receiver: "service:1\r\nx: y" }],
      [`${list}/receivers`, { csrf, action: "pause" }],
      [list, { csrf, action: "redriveAll", sub: "x" }],
      [list, { csrf, action: "discard" }],
    ] as const)
      expect([at, body, await post(at, body)]).toEqual([at, body, 400]);
    expect(await post(list, "{}", { headers: { "content-type": "application/json" } })).toBe(400);
    expect(await requested()).toEqual(requests);
  });

  it("has a result that is signed for its page and session, so that a link can't forge it", async () => {
    const id = await waiting(await accountOf("paused", "Hedy"));
    expect(await press(`${list}/${id}`, "discard")).toBe(TEXTS["console.result.discarded"]);
    const result = browser.url.searchParams.get("result") ?? "";
    const at = (path: string, value: string, by = browser) =>
      by.get(`${list}${path}?${new URLSearchParams({ result: value })}`);
    expect(resultOf(await at(`/${id}`, result))).toBe(TEXTS["console.result.discarded"]);
    for (const [path, value] of [
      [`/${ids.parked}`, result],
      ["", result],
      [`/${id}`, `${result}A`],
      [`/${id}`, result.replace(/^./u, "X")],
      [`/${id}`, "discarded"],
      [`/${id}`, "."],
      [`/${id}`, ""],
    ] as const) {
      const page = await at(path, value);
      expect([path, value, page.status, resultOf(page)]).toEqual([path, value, 200, undefined]);
    }
    expect(resultOf(await at(`/${id}`, result, await signedIn(running.openid, OPERATOR)))).toBeUndefined();
  });
});

describe("another process of the service", () => {
  it("removes no factor of somebody who is an operator there", async () => {
    await running.service.accounts.addApp(grace.sub, { secret: SECRET });
    const other = await beside({
      config: { operators: { [OPERATOR.sub]: "administrator", [grace.sub]: "administrator" } },
    });
    let to: Send = fetch;
    browser = new Browser({ send: (url, init) => to(url, init) });
    await signIn(await open(`${running.openid}/account/people/${grace.sub}?remove=app`), OPERATOR);
    const form = formOf(browser, "remove");
    to = viaProxy(other);
    await browser.submit(form);
    expect(resultOf(browser)).toBe(TEXTS["console.result.operatorKept"]);
    to = fetch;
    await browser.submit(form);
    expect(resultOf(browser)).toBe(TEXTS["console.result.factorRemoved"]);
  });

  it("goes on in the background with what takes long, and a later failure is in its log", async () => {
    const fault = Promise.withResolvers<void>();
    const logged = Promise.withResolvers<void>();
    let held: Promise<void> | undefined;
    const other = await beside({
      logsErrors: true,
      config: {
        logger: pino({}, { write: (line: string) => line.includes("unexpected error") && logged.resolve() }),
      },
      through: (store) => {
        const commit = store.commit.bind(store);
        return Object.assign(store, {
          async commit(change: Parameters<typeof commit>[0]) {
            if (change.put?.some(({ kind }) => kind === "audit") === true) await held;
            await commit(change);
          },
        });
      },
    });
    browser = new Browser({ send: viaProxy(other) });
    await signIn(await open(`${running.openid}/account`), OPERATOR);
    const answered = Promise.withResolvers<void>();
    inbox.react = () => (response) => void answered.promise.then(() => response.writeHead(200).end());
    expect(await press(`${list}/receivers`, "test", "service:open")).toContain("has not answered yet");
    answered.resolve();
    held = fault.promise;
    expect(await press(`${list}?state=parked`, "redriveAll")).toBe(TEXTS["console.result.redriveUnderWay"]);
    fault.reject(new Error("the disk is gone"));
    await logged.promise;
  });
});
