import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { type ConsoleSite, consoleSite, refill, SUB, testResult } from "./console-site.ts";
import { formOf, listed, open, press, resultOf } from "./console-visitor.ts";
import { sampleDelivery, sampleReceiver } from "../../interactions/samples/console.ts";
import { localeFile } from "./every-page.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { closing } from "../closing.ts";

const TEXTS = localeFile("en");

let site: ConsoleSite;
let list: string;

beforeAll(async () => {
  site = closing(await consoleSite());
  list = `${site.base}/account/deliveries`;
});
beforeEach(() => refill(site));

describe("the list", () => {
  it("shows all deliveries, with the page's security headers", async () => {
    const browser = await open(list);
    expect(listed(browser)).toEqual(["msg_1", "msg_2", "msg_3", "msg_4"]);
    expect(browser.headers.get("content-security-policy")).toContain("script-src http");
    expect(browser.headers.get("cache-control")).toBe("no-store");
    expect(browser.headers.get("referrer-policy")).toBe("same-origin");
  });

  it("filters by state, receiver, type and account, and keeps the filter in the form", async () => {
    const browser = await open(list);
    const filter = browser.form("state");
    expect(filter.method).toBe("GET");
    await browser.submit(filter, { state: "parked" });
    expect(listed(browser)).toEqual(["msg_1"]);
    await browser.submit(browser.form("type"), { state: "", type: "DELETE_ACCOUNT" });
    expect(listed(browser)).toEqual(["msg_4"]);
    await browser.submit(browser.form("type"), { type: "", receiver: "group:media" });
    expect(listed(browser)).toEqual(["msg_3"]);
    await browser.submit(browser.form("type"), { receiver: "", sub: ` ${SUB.toUpperCase()} ` });
    expect(listed(browser)).toEqual(["msg_1", "msg_2", "msg_3", "msg_4"]);
    expect(new Map(browser.form("type").fields)).toEqual(
      new Map([
        ["state", ""],
        ["receiver", ""],
        ["type", ""],
        ["sub", SUB],
      ]),
    );
    expect(site.console.queries.at(-1)).toEqual({ account: SUB, limit: 50 });
  });

  it("pages with the filter, and returns to the first page", async () => {
    site.console.deliveries.length = 0;
    for (let i = 0; i < 120; i += 1) {
      site.console.deliveries.push(
        sampleDelivery({ id: `msg_${i}`, state: i % 2 === 0 ? "waiting" : "delivered" }),
      );
    }
    const browser = await open(`${list}?state=waiting`);
    expect([listed(browser).length, listed(browser)[49]]).toEqual([50, "msg_98"]);
    await browser.click(TEXTS["list.next"] ?? "");
    expect(listed(browser)).toEqual(Array.from({ length: 10 }, (_, i) => `msg_${100 + i * 2}`));
    expect(browser.html).not.toContain(TEXTS["list.next"]);
    await browser.click(TEXTS["list.first"] ?? "");
    expect(listed(browser)[0]).toBe("msg_0");
    expect((await open(`${list}?after=msg_119`)).html).toContain(TEXTS["console.none"]);
  });

  it("continues after an empty page if there are older deliveries", async () => {
    site.console.searching = { items: [], next: "msg_2" };
    const browser = await open(`${list}?type=DELETE_ACCOUNT`);
    expect(browser.html).toContain(TEXTS["console.noneSoFar"]);
    expect(listed(browser)).toEqual([]);
    site.console.searching = undefined;
    await browser.click(TEXTS["list.next"] ?? "");
    expect(site.console.queries.at(-1)).toEqual({
      type: "DELETE_ACCOUNT",
      after: "msg_2",
      limit: 50,
    });
  });

  it("reports an invalid account id, without a query", async () => {
    for (const sub of ["ada@example.com", "x", "' OR 1=1 --", "<script>", "\r\nSet-Cookie: a=b"]) {
      const browser = await open(`${list}?${new URLSearchParams({ sub, state: "parked" })}`);
      expect([browser.status, listed(browser)]).toEqual([400, []]);
      expect(browser.html).toContain(TEXTS["console.problem.sub"]);
      expect(new Map(browser.form("type").fields).get("sub")).toBe(sub);
    }
    expect(site.console.queries).toEqual([]);
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
    const browser = await open(`${list}?${query}`);
    expect([browser.status, browser.title]).toEqual([400, TEXTS["error.title"]]);
    expect(site.console.queries).toEqual([]);
  });

  it("redrives all matching parked deliveries, and no others", async () => {
    expect((await open(list)).html).not.toContain("redriveAll");
    expect((await open(`${list}?state=parked&receiver=group:media`)).html).not.toContain("redriveAll");
    const browser = await press(`${list}?state=parked&receiver=service:1&sub=${SUB}`, "redriveAll");
    expect(site.console.done).toEqual([["redriveAll", { receiver: "service:1", account: SUB }]]);
    expect(resultOf(browser)).toMatch(/Sent again: 2\..*: 1\..*: 3\./);
    expect(browser.url.searchParams.get("state")).toBe("parked");
    expect(browser.url.searchParams.get("receiver")).toBe("service:1");
    site.console.answers.redriveAll = undefined;
    expect(resultOf(await press(`${list}?state=parked`, "redriveAll"))).toBe(
      TEXTS["console.result.redriveUnderWay"],
    );
    // The token is valid only for its filter.
    const other = await open(`${list}?state=parked&receiver=service:1`);
    await other.submit(formOf(other, "redriveAll"), { receiver: "" });
    expect(other.status).toBe(403);
    await other.submit(formOf(await open(`${list}?state=parked`), "redriveAll"), { state: "delivered" });
    expect(other.status).toBe(400);
    expect(site.console.done).toHaveLength(2);
  });
});

describe("one delivery", () => {
  it("is shown with the time, status, duration and response text of every attempt", async () => {
    const answer = `<script>alert(1)</script>\0\u202E\u001B[31m\n${"x".repeat(5_000)}`;
    site.console.deliveries.push(
      sampleDelivery({ id: "msg_5", history: sampleDelivery({}, () => answer).history }),
    );
    const browser = await open(`${list}/msg_5`);
    expect(tagsNamed(browser.html, "script").map(({ text }) => text)).toEqual([""]);
    const shown = tagsNamed(browser.html, "pre").map(({ text }) => text);
    expect(shown).toHaveLength(1);
    expect(shown[0]?.trim()).toBe(
      `<script>alert(1)</script>\uFFFD\uFFFD\uFFFD[31m\n${"x".repeat(4_096 - 25 - 3 - 5)}`,
    );
    const times = tagsNamed(browser.html, "time").map(({ attributes }) => attributes.get("datetime"));
    expect(times).toContain("2026-09-21T10:01:00.000Z");
    expect(browser.html).toContain("503");
    expect(browser.html).toContain("31 ms");
  });

  it.each([
    ["msg_1", ["redrive", "discard"]],
    ["msg_2", ["sendNow", "discard"]],
    ["msg_3", ["redrive"]],
    ["msg_4", ["redrive"]],
  ])("offers its possible actions: %s", async (id, actions) => {
    const browser = await open(`${list}/${id}`);
    const offered = browser.forms().map(({ fields }) => new Map(fields).get("action"));
    expect(offered).toEqual(actions);
  });

  it("is redriven, even if superseded after a warning", async () => {
    expect(resultOf(await press(`${list}/msg_1`, "redrive"))).toBe(TEXTS["console.result.redriven"]);
    site.console.answers.refusal = "superseded";
    const browser = await press(`${list}/msg_1`, "redrive");
    expect(resultOf(browser)).toBe(TEXTS["console.result.superseded"]);
    expect(browser.forms().map(({ fields }) => new Map(fields).get("action"))).toEqual(["force", "discard"]);
    await browser.submit(formOf(browser, "force"));
    expect(resultOf(browser)).toBe(TEXTS["console.result.redriven"]);
    expect(site.console.done).toEqual([
      ["redrive", "msg_1", false],
      ["redrive", "msg_1", false],
      ["redrive", "msg_1", true],
    ]);
    site.console.answers.refusal = undefined;
  });

  it.each([
    ["msg_1", "redrive", ["not_applicable", "purged", "not_found"]],
    ["msg_2", "sendNow", ["behind", "receiver_stopped", "not_waiting", "not_found"]],
    ["msg_2", "discard", ["not_waiting", "not_found"]],
  ] as const)("says why %s takes no %s: %j", async (id, action, codes) => {
    for (const refusal of codes) {
      site.console.answers.refusal = refusal;
      expect(resultOf(await press(`${list}/${id}`, action))).toBe(TEXTS[`console.result.${refusal}`]);
    }
    site.console.answers.refusal = undefined;
  });

  it.each([
    ["sendNow", "sentNow"],
    ["discard", "discarded"],
  ])("takes %s", async (action, code) => {
    expect(resultOf(await press(`${list}/msg_2`, action))).toBe(TEXTS[`console.result.${code}`]);
    expect(site.console.done.splice(0)).toEqual([[action, "msg_2"]]);
  });

  it("that is unknown is 404", async () => {
    for (const id of ["msg_0", "__proto__", "x".repeat(255)]) {
      const browser = await open(`${list}/${id}`);
      expect([browser.status, browser.html]).toEqual([
        404,
        expect.stringContaining("This delivery does not exist"),
      ]);
    }
  });
});

describe("the receivers", () => {
  it("are shown with their state and possible actions", async () => {
    const removed = sampleReceiver({ receiver: "portal:old", url: null, parked: 3 });
    const failing = sampleReceiver({ receiver: "service:2", failures: 7, circuit_open_until: 1_790_000_000 });
    site.console.known.push(removed, failing);
    const { html } = await open(`${list}/receivers`);
    const offered = (await open(`${list}/receivers`)).forms().map(({ fields }) => {
      const values = new Map(fields);
      return `${values.get("receiver")} ${values.get("action")}`;
    });
    expect(offered).toEqual([
      "service:1 pause",
      "service:1 test",
      "group:media resume",
      "group:media test",
      "group:media redriveAll",
      "portal:old pause",
      "portal:old redriveAll",
      "service:2 pause",
      "service:2 resume",
      "service:2 test",
    ]);
    for (const words of [
      "https://news.example/notify",
      "by hand",
      "Paused.",
      "Failed attempts in a row: 7",
    ]) {
      expect(html).toContain(words);
    }
  });

  it.each([
    ["pause", "service:1", "paused"],
    ["resume", "group:media", "resumed"],
  ])("take %s", async (action, receiver, code) => {
    const text = (each: string) => TEXTS[`console.result.${each}`]?.replaceAll("{receiver}", receiver);
    expect(resultOf(await press(`${list}/receivers`, action, receiver))).toBe(text(code));
    site.console.answers.refusal = "not_found";
    expect(resultOf(await press(`${list}/receivers`, action, receiver))).toBe(text("not_found"));
    site.console.answers.refusal = undefined;
    expect(site.console.done).toEqual([
      [action, receiver],
      [action, receiver],
    ]);
  });

  it("are tested, and the result is shown", async () => {
    for (const [answer, words] of [
      [testResult({ ok: true, status: 204 }), "service:1 accepted the test: 204, after 7 ms."],
      [testResult({ status: 500 }), "did not accept the test: 500"],
      [testResult({ error: "ECONNREFUSED", duration_ms: 6.2 }), "test: ECONNREFUSED, after 7 ms"],
    ] as const) {
      site.console.answers.test = answer;
      expect(resultOf(await press(`${list}/receivers`, "test", "service:1"))).toContain(words);
    }
  });

  it("are tested in the background if that takes long, and a later failure is reported", async () => {
    const test = Promise.withResolvers<never>();
    const reported = Promise.withResolvers<unknown>();
    site.onDefect = reported.resolve;
    site.console.answers.test = test.promise;
    expect(resultOf(await press(`${list}/receivers`, "test", "service:1"))).toContain("has not answered yet");
    const fault = new Error("later");
    test.reject(fault);
    await expect(reported.promise).resolves.toBe(fault);
  });
});

const times = (browser: Browser): string[] =>
  tagsNamed(browser.html, "time").flatMap(({ attributes }) => attributes.get("title") ?? []);

describe("the time zone of exact times", () => {
  it("is UTC until the person chooses another one, which a cookie keeps for every page", async () => {
    const browser = await open(list);
    expect(times(browser).every((text) => text.endsWith("UTC"))).toBe(true);
    await browser.click("Choose another time zone");
    await browser.submit(browser.form("zone"), { zone: "Asia/Tokyo" });
    expect(listed(browser)).toHaveLength(4);
    expect(times(browser).length).toBeGreaterThan(0);
    expect(times(browser).every((text) => text.endsWith("GMT+9"))).toBe(true);
    expect(browser.jar.all()).toEqual([
      expect.objectContaining({ name: "sign_in_time_zone", value: "Asia/Tokyo" }),
    ]);
    await browser.get(`${list}/msg_1`);
    expect(times(browser).every((text) => text.endsWith("GMT+9"))).toBe(true);
    await browser.click("Choose another time zone");
    await browser.submit(browser.form("zone"), { zone: "UTC" });
    expect(times(browser).every((text) => text.endsWith("UTC"))).toBe(true);
  });

  it("is chosen without losing the filter of the list", async () => {
    const browser = await open(`${list}?state=parked&type=&sub=%22%3E%3Cb%3E`);
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
    const browser = await open(`${list}?${new URLSearchParams({ zone })}`);
    expect([browser.status, browser.jar.all()]).toEqual([200, []]);
    expect(times(browser).every((text) => text.endsWith("UTC"))).toBe(true);
    const forged = await new Browser({
      headers: { cookie: `sign_in_time_zone=${encodeURIComponent(zone)}` },
    }).get(list);
    expect(times(forged).every((text) => text.endsWith("UTC"))).toBe(true);
  });
});
