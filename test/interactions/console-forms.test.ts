import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { type ConsoleSite, consoleSite, person, refill, SUB } from "./console-site.ts";
import { formOf, open, press, resultOf } from "./console-visitor.ts";
import { localeFile } from "./every-page.ts";
import { closing } from "../closing.ts";

const TEXTS = localeFile("en");

let site: ConsoleSite;
let list: string;

beforeAll(async () => {
  site = closing(await consoleSite());
  list = `${site.base}/account/deliveries`;
});
beforeEach(() => refill(site));

/** The fields of the form that redrives `msg_1`. */
async function fields(): Promise<Record<string, string>> {
  return Object.fromEntries(formOf(await open(`${list}/msg_1`), "redrive").fields);
}

async function post(
  address: string,
  body: Record<string, string> | string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const text = typeof body === "string" ? body : new URLSearchParams(body).toString();
  const type = { "content-type": "application/x-www-form-urlencoded" };
  return fetch(address, {
    method: "POST",
    body: text,
    redirect: "manual",
    headers: { ...type, ...headers },
  });
}

describe("a form", () => {
  it("of another site is refused [D-SELF-2]", async () => {
    const good = await fields();
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: site.base.replace("/prefix", "0") },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { origin: "null" },
    ]) {
      expect((await post(`${list}/msg_1`, good, headers)).status).toBe(403);
    }
    expect(site.console.done).toEqual([]);
    expect(
      (await post(`${list}/msg_1`, good, { origin: "null", "sec-fetch-site": "same-origin" })).status,
    ).toBe(303);
  });

  it("is valid for one action on one object in one session", async () => {
    const { csrf = "" } = await fields();
    const bad: [string, Record<string, string>][] = [
      [`${list}/msg_1`, { action: "redrive" }],
      [`${list}/msg_1`, { action: "redrive", csrf: "" }],
      [`${list}/msg_1`, { action: "redrive", csrf: `${csrf}A` }],
      [`${list}/msg_1`, { action: "redrive", csrf: csrf.slice(0, -1) }],
      [`${list}/msg_1`, { action: "force", csrf }],
      [`${list}/msg_1`, { action: "discard", csrf }],
      [`${list}/msg_3`, { action: "redrive", csrf }],
      [`${list}/receivers`, { action: "pause", receiver: "service:1", csrf }],
      [list, { action: "redriveAll", csrf }],
    ];
    for (const [address, body] of bad) {
      expect([address, body, (await post(address, body)).status]).toEqual([address, body, 403]);
    }
    for (const other of [person({ session: "session-2" }), person({ generation: 2 }), person({ sub: SUB })]) {
      site.visitor = other;
      expect((await post(`${list}/msg_1`, { action: "redrive", csrf })).status).toBe(403);
    }
    expect(site.console.done).toEqual([]);
  });

  it("that no page contains is refused", async () => {
    const { csrf = "" } = await fields();
    for (const [address, body] of [
      [`${list}/msg_1`, { csrf }],
      [`${list}/msg_1`, { csrf, action: "toString" }],
      [`${list}/msg_1`, "action=redrive&action=discard"],
      [`${list}/msg_1`, "action=%zz"],
      [`${list}/msg_1`, `action=redrive&x=${"x".repeat(70_000)}`],
      [`${list}/receivers`, { csrf, action: "constructor", receiver: "service:1" }],
      [`${list}/receivers`, { csrf, action: "pause", receiver: "../1" }],
      [`${list}/receivers`, { csrf, action: "pause", receiver: "service:1\r\nx: y" }],
      [`${list}/receivers`, { csrf, action: "pause" }],
      [list, { csrf, action: "redriveAll", sub: "x" }],
      [list, { csrf, action: "discard" }],
    ] as const) {
      expect([address, (await post(address, body)).status]).toEqual([address, 400]);
    }
    expect((await post(list, "{}", { "content-type": "application/json" })).status).toBe(400);
    expect(site.console.done).toEqual([]);
  });

  it("has no effect without a session, or for users who are not operators", async () => {
    const good = await fields();
    site.visitor = undefined;
    expect((await post(`${list}/msg_1`, good)).status).toBe(303);
    site.visitor = person({ sub: SUB });
    for (const address of [list, `${list}/msg_1`, `${list}/receivers`]) {
      const { status, html } = await open(address);
      expect([status, html]).toEqual([403, expect.stringContaining("for operators only")]);
      expect(html).not.toMatch(/msg_1|service:1/);
      expect((await post(address, good)).status).toBe(403);
    }
    expect(site.console.done).toEqual([]);
  });
});

describe("a form that removes a second factor", () => {
  it("has no effect once its account is an operator’s", async () => {
    const page = `${site.base}/account/people/${SUB}`;
    const form = Object.fromEntries(formOf(await open(`${page}?remove=app`), "remove").fields);
    site.operators.push(SUB);
    const refused = await post(page, form);
    site.operators.pop();
    expect(refused.status).toBe(303);
    expect(resultOf(await open(refused.headers.get("location") ?? ""))).toBe(
      TEXTS["console.result.operatorKept"],
    );
    expect(site.console.done).toEqual([]);
    expect((await post(page, form)).status).toBe(303);
    expect(site.console.done).toEqual([["removeFactorsOf", SUB, "app", 1]]);
  });
});

describe("the result of an action", () => {
  it("is signed for its page and session, so that a link can't forge it", async () => {
    const browser = await press(`${list}/msg_1`, "redrive");
    const result = browser.url.searchParams.get("result") ?? "";
    const at = (path: string, value: string) =>
      open(`${list}${path}?${new URLSearchParams({ result: value })}`);
    expect(resultOf(await at("/msg_1", result))).toBe(TEXTS["console.result.redriven"]);
    for (const [path, value] of [
      ["/msg_2", result],
      ["", result],
      ["/msg_1", `${result}A`],
      ["/msg_1", result.replace(/^./, "X")],
      ["/msg_1", "redriven"],
      ["/msg_1", "."],
      ["/msg_1", ""],
    ] as const) {
      const page = await at(path, value);
      expect([path, value, page.status, resultOf(page)]).toEqual([path, value, 200, undefined]);
    }
    site.visitor = person({ session: "session-2" });
    expect(resultOf(await at("/msg_1", result))).toBeUndefined();
  });
});
