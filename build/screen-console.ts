/** The pages of the delivery console with realistic data. */
import { deliveriesPage, deliveryPage, receiversPage } from "../interactions/console/console-views.ts";
import type { Pages, Visit } from "../interactions/page.ts";
import { sampleDelivery, sampleReceiver } from "../interactions/sample-pages.ts";

const MINUTE = 60_000;

interface ConsoleScreen {
  readonly name: string;
  html(visit: Visit): string;
}

/** @param at.now milliseconds since the epoch. */
export function consoleScreens(
  pages: Pages,
  { now, sub, accountUrl }: { readonly now: number; readonly sub: string; readonly accountUrl: string },
): readonly ConsoleScreen[] {
  const common = {
    list: "/account/deliveries",
    receiversPath: "/account/deliveries/receivers",
    path: "/account/deliveries/receivers",
    account: accountUrl,
    names: new Map([
      ["service:1", "News"],
      ["group:media", "Media group"],
    ]),
    now,
  };
  const delivery = (id: string, minutes: number, changes: Parameters<typeof sampleDelivery>[1] = {}) =>
    sampleDelivery(id, {
      receiver: "service:1",
      sub,
      type: "PROFILE_CHANGED",
      at: (now - minutes * MINUTE) / 1000,
      finishedAt: now - (minutes - 1) * MINUTE,
      reason: null,
      ...changes,
    });
  const parked = delivery("msg_2xTq9vJm4nYcE7oPqL1s", 260, {
    reason: "attempts_used_up",
    history: [
      {
        number: 1,
        startedAt: now - 259 * MINUTE,
        duration: 31,
        status: 503,
        error: null,
        answer: "<h1>Service Unavailable</h1>",
      },
      {
        number: 2,
        startedAt: now - 200 * MINUTE,
        duration: 15_000,
        status: null,
        error: "ETIMEDOUT",
        answer: null,
      },
    ],
  });
  const deliveries = [
    delivery("msg_a", 3, { state: "waiting", attempts: 1 }),
    delivery("msg_b", 12, { state: "delivered", attempts: 1, receiver: "group:media" }),
    parked,
    delivery("msg_d", 3_000, { state: "discarded", attempts: 9, type: "UNASSINGED_FROM_SERVICE" }),
    delivery("msg_e", 60_000, { state: "delivered", attempts: 2, receiver: "portal:old" }),
  ];
  const list = { ...common, filter: {}, receivers: ["service:1", "group:media"], isLater: false };
  const pause = { pause: "t", test: "t" };
  return [
    {
      name: "deliveries-overview",
      html: (visit) =>
        pages.render(deliveriesPage, visit, {
          ...list,
          deliveries,
          next: "msg_e",
          overview: {
            receivers: [
              sampleReceiver("group:media", {
                url: "https://media.example/notifications",
                failures: 7,
                heldUntil: now + 4 * MINUTE,
                waiting: 41,
                parked: 3,
                oldest: now - 90 * MINUTE,
              }),
              sampleReceiver("portal:old", { url: null, parked: 1 }),
              sampleReceiver("service:1", {
                url: "https://news.example/notify",
                waiting: 2,
                oldest: now - 3 * MINUTE,
              }),
              sampleReceiver("service:8", { url: "https://shop.example/notify" }),
            ],
            lastHour: [12, 18, 9, 30, 44, 21, 17, 60, 38, 25, 31, 14].map((stored, index) => ({
              from: now - (12 - index) * 5 * MINUTE,
              stored,
              parked: index === 4 ? 3 : 0,
            })),
          },
        }),
    },
    {
      name: "deliveries-nothing-yet",
      html: (visit) =>
        pages.render(deliveriesPage, visit, {
          ...list,
          receivers: [],
          deliveries: [],
          overview: { receivers: [], lastHour: [] },
        }),
    },
    {
      name: "deliveries",
      html: (visit) =>
        pages.render(deliveriesPage, visit, { ...list, deliveries, next: "msg_e", redriveAll: "t" }),
    },
    {
      name: "deliveries-none",
      html: (visit) => pages.render(deliveriesPage, visit, { ...list, deliveries: [] }),
    },
    {
      name: "deliveries-wrong-account",
      html: (visit) =>
        pages.render(deliveriesPage, visit, { ...list, deliveries: [], wrongSub: "ada@example.com" }),
    },
    {
      name: "delivery",
      html: (visit) =>
        pages.render(deliveryPage, visit, {
          ...common,
          delivery: parked,
          tokens: { redrive: "t", discard: "t" },
          result: { code: "superseded", values: {} },
        }),
    },
    {
      name: "receivers",
      html: (visit) =>
        pages.render(receiversPage, visit, {
          ...common,
          result: { code: "testTaken", values: { receiver: "service:1", what: 204, duration: 12 } },
          receivers: [
            {
              report: sampleReceiver("service:1", { url: "https://news.example/notify", waiting: 2 }),
              tokens: pause,
            },
            {
              report: sampleReceiver("group:media", {
                url: "https://media.example/notifications",
                failures: 7,
                heldUntil: now + 4 * MINUTE,
                waiting: 41,
                parked: 3,
                oldest: now - 90 * MINUTE,
              }),
              tokens: { ...pause, resume: "t", redriveAll: "t" },
            },
            {
              report: sampleReceiver("service:8", {
                url: "https://shop.example/notify",
                paused: true,
                reason: "by hand",
              }),
              tokens: { resume: "t", test: "t" },
            },
            { report: sampleReceiver("portal:old", { url: null, parked: 1 }), tokens: { redriveAll: "t" } },
          ],
        }),
    },
  ];
}
