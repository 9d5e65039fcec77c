/** What the console says about codes, times and empty lists. */
import { describe, expect, it } from "@jest/globals";
import { deliveriesPage, deliveryPage, receiversPage } from "../../interactions/console/console-views.ts";
import { sampleDelivery, sampleReceiver } from "../../interactions/samples/console.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { localeFile, pagesWith } from "./every-page.ts";

const TEXTS = localeFile("en");
const NOW = Date.UTC(2026, 8, 21, 14, 20);
const MINUTE = 60_000;
const SUB = "5b8a2c0e-1111-4222-8333-444455556666";

const pages = pagesWith();
const common = {
  list: "/account/deliveries",
  receiversPath: "/account/deliveries/receivers",
  people: "/account/people",
  path: "/account/deliveries",
  account: "/account",
  names: new Map([["service:1", "News"]]),
  now: NOW,
};

const textOf = (html: string): string =>
  html
    .replace(/^[\s\S]*<main>/, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

type List = Parameters<typeof deliveriesPage.locals>[1];
const list: List = { ...common, filter: {}, receivers: ["service:1"], deliveries: [], isLater: false };
const listHtml = (changes: Partial<List> = {}): string =>
  pages.render(deliveriesPage, { locale: "en" }, { ...list, ...changes });

const delivery = (changes: Parameters<typeof sampleDelivery>[0]) =>
  sampleDelivery({ id: "msg_1", receiver: "service:1", sub: SUB, type: "PROFILE_CHANGED", ...changes });
const detail = (changes: Parameters<typeof sampleDelivery>[0]): string =>
  textOf(
    pages.render(deliveryPage, { locale: "en" }, { ...common, delivery: delivery(changes), tokens: {} }),
  );

describe("an empty list says why", () => {
  it.each<[Partial<List>, string]>([
    [{ receivers: [] }, "No receivers are configured"],
    [{}, "Nothing has been sent yet"],
    [{ filter: { state: "parked" } }, "Nothing is parked"],
    [{ filter: { state: "waiting" } }, "Nothing is waiting"],
    [{ filter: { state: "delivered" } }, "No deliveries match"],
    [{ filter: { state: "parked", sub: SUB } }, "No deliveries match"],
    [{ isLater: true }, "No deliveries match"],
    [{ next: "msg_9" }, "The next page has older ones"],
  ])("%j: %s", (changes, text) => {
    const html = listHtml(changes);
    expect(textOf(html)).toContain(text);
    const isPart = changes.filter !== undefined || changes.isLater === true;
    expect(html.includes(TEXTS["console.all"] ?? "")).toBe(isPart);
  });

  it("but not when nothing was looked for", () => {
    expect(listHtml({ wrongSub: "ada@example.com" })).not.toMatch(/class="empty"/);
  });
});

describe("a code", () => {
  it.each([
    ["attempts_used_up", "All attempts failed"],
    ["receiver_removed", "The receiver was removed"],
    ["payload_unreadable", "No configured key can decrypt the content"],
    ["by_hand", "Discarded by an operator"],
    ["__proto__", "__proto__"],
  ])("of a reason is said in words: %s", (reason, words) => {
    expect(detail({ reason, history: [] })).toContain(`Parked ${words}`);
    expect(textOf(listHtml({ deliveries: [delivery({ reason })] }))).toContain(`Parked ${words}`);
  });

  it.each([
    [{ status: 503, error: null }, "503 Service Unavailable 12 ms"],
    [{ status: 599, error: null }, "599 12 ms"],
    [{ status: null, error: "ECONNREFUSED" }, "Connection refused ECONNREFUSED 12 ms"],
    [{ status: null, error: "timeout_total" }, "No response in time timeout_total 12 ms"],
    [{ status: null, error: "CERT_HAS_EXPIRED" }, "CERT_HAS_EXPIRED 12 ms"],
  ])("of an attempt is said in words, and stays to be searched for: %j", (result, words) => {
    const attempt = { number: 1, started_at: NOW / 1000, duration_ms: 11.2, answer: null, ...result };
    expect(detail({ history: [attempt] })).toContain(words);
  });
});

describe("the next attempt", () => {
  it.each([
    [NOW + 4 * MINUTE, "in 4 minutes", "next attempt in 4 minutes"],
    [NOW, "Now: as soon as", "due now"],
    [NOW - 90 * MINUTE, "Now: as soon as", "due now"],
  ])("at %d is never told as a time that is past", (nextMs, inDetail, inList) => {
    const times = { finished_at: null, next_attempt_at: nextMs / 1000 };
    const waiting = { state: "waiting", reason: null, history: [], ...times } as const;
    expect(detail(waiting)).toContain(`Next attempt ${inDetail}`);
    expect(textOf(listHtml({ deliveries: [delivery(waiting)] }))).toContain(`Waiting ${inList}`);
  });

  it.each([
    [NOW + 4 * MINUTE, "One delivery is tried again in 4 minutes."],
    [NOW - 4 * MINUTE, "One delivery is tried again now."],
  ])("of a receiver whose circuit is open until %d", (openMs, words) => {
    const report = sampleReceiver({ receiver: "service:1", failures: 7, circuit_open_until: openMs / 1000 });
    const html = pages.render(
      receiversPage,
      { locale: "en" },
      { ...common, receivers: [{ report, tokens: {} }] },
    );
    expect(textOf(html)).toContain(words);
  });
});

describe("the overview", () => {
  const overview: NonNullable<List["overview"]> = {
    receivers: [
      sampleReceiver({ receiver: "service:1", waiting: 2, oldest_at: (NOW - 3 * MINUTE) / 1000 }),
      sampleReceiver({
        receiver: "service:2",
        waiting: 40,
        parked: 3,
        oldest_at: (NOW - 90 * MINUTE) / 1000,
      }),
    ],
    lastHour: [
      { from: NOW - 10 * MINUTE, stored: 1_000, parked: 2 },
      { from: NOW - 5 * MINUTE, stored: 0, parked: 0 },
      { from: NOW, stored: 5, parked: 0 },
    ],
  };

  it("adds up what waits and what is parked, and names the oldest", () => {
    expect(textOf(listHtml({ overview }))).toMatch(
      /Waiting 42 Oldest stored 1 hour ago Parked 3 .* Stored in the last hour 1005 /,
    );
  });

  it("shows the receivers with problems first, each leading to its place among all", () => {
    const links = tagsNamed(listHtml({ overview }), "a").map(
      ({ attributes }) => attributes.get("href") ?? "",
    );
    const places = links.filter((href) => href.includes("#"));
    expect(places).toEqual([
      "/account/deliveries/receivers#receiver-1",
      "/account/deliveries/receivers#receiver-0",
      expect.stringContaining("#zone"),
    ]);
  });

  it("draws a bar for each state of each span inside the chart, and says the same in words", () => {
    const html = listHtml({ overview });
    const [chart] = tagsNamed(html, "svg");
    expect(chart?.attributes.get("aria-label")).toBe(
      "In the last hour: 1,005 deliveries, of which 2 are parked",
    );
    const bars = tagsNamed(html, "rect").map(({ attributes }) =>
      ["class", "x", "y", "width", "height"].map((name) => attributes.get(name)),
    );
    expect(bars.map(([tone]) => tone)).toEqual(["done", "parked", "done"]);
    for (const [, x, y, width, height] of bars) {
      expect(Number(x) + Number(width)).toBeLessThanOrEqual(240);
      expect(Number(y)).toBeGreaterThanOrEqual(0);
      expect(Number(y) + Number(height)).toBeLessThanOrEqual(48);
      expect(Number(height)).toBeGreaterThan(0);
    }
  });
});
