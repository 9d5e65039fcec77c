/** The pages of the console with realistic data. */
import { factorKey } from "../../accounts/factors/factor.ts";
import { deliveriesPage, deliveryPage, receiversPage } from "../../interactions/console/console-views.ts";
import { ALL, peoplePage, personPage, removalPage } from "../../interactions/console/people-views.ts";
import type { Pages } from "../../interactions/page.ts";
import { sampleDelivery, samplePerson, sampleReceiver } from "../../interactions/sample-pages.ts";
import { ACCOUNT_URL, MINUTE_MS, NOW, type Screen, SUB } from "./screen.ts";

const delivery = (id: string, minutes: number, changes: Parameters<typeof sampleDelivery>[1] = {}) =>
  sampleDelivery(id, {
    receiver: "service:1",
    sub: SUB,
    type: "PROFILE_CHANGED",
    at: (NOW - minutes * MINUTE_MS) / 1000,
    finishedAt: NOW - (minutes - 1) * MINUTE_MS,
    reason: null,
    ...changes,
  });

export function consoleScreens(pages: Pages): readonly Screen[] {
  const common = {
    list: "/account/deliveries",
    receiversPath: "/account/deliveries/receivers",
    people: "/account/people",
    path: "/account/deliveries/receivers",
    account: ACCOUNT_URL,
    names: new Map([
      ["service:1", "News"],
      ["group:media", "Media group"],
    ]),
    now: NOW,
  };
  const parked = delivery("msg_2xTq9vJm4nYcE7oPqL1s", 260, {
    reason: "attempts_used_up",
    history: [
      {
        number: 1,
        startedAt: NOW - 259 * MINUTE_MS,
        duration: 31,
        status: 503,
        error: null,
        answer: "<h1>Service Unavailable</h1>",
      },
      {
        number: 2,
        startedAt: NOW - 200 * MINUTE_MS,
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
                heldUntil: NOW + 4 * MINUTE_MS,
                waiting: 41,
                parked: 3,
                oldest: NOW - 90 * MINUTE_MS,
              }),
              sampleReceiver("portal:old", { url: null, parked: 1 }),
              sampleReceiver("service:1", {
                url: "https://news.example/notify",
                waiting: 2,
                oldest: NOW - 3 * MINUTE_MS,
              }),
              sampleReceiver("service:8", { url: "https://shop.example/notify" }),
            ],
            lastHour: [12, 18, 9, 30, 44, 21, 17, 60, 38, 25, 31, 14].map((stored, index) => ({
              from: NOW - (12 - index) * 5 * MINUTE_MS,
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
                heldUntil: NOW + 4 * MINUTE_MS,
                waiting: 41,
                parked: 3,
                oldest: NOW - 90 * MINUTE_MS,
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
    ...peopleScreens(pages, common),
  ];
}

const daysAgo = (days: number): number => NOW / 1000 - days * 86_400;

function peopleScreens(
  pages: Pages,
  common: Omit<Parameters<typeof peoplePage.locals>[1], "csrf">,
): readonly Screen[] {
  const person = {
    ...samplePerson(""),
    sub: SUB,
    email: "augusta.lovelace-of-ockham@mathematics.example.org",
    name: "Augusta Ada",
    surname: "King, Countess of Lovelace",
    username: "ada",
    password_changed_at: daysAgo(40),
    created_at: daysAgo(800),
  };
  const passkey = (name: string, days: number, backed_up: boolean) => ({
    id: name,
    name,
    added_at: daysAgo(days),
    last_used_at: days > 100 ? daysAgo(days / 3) : null,
    backed_up,
  });
  const factors = {
    app: { added_at: daysAgo(410), last_used_at: daysAgo(12), stopped: true },
    passkeys: [
      passkey("Telephone", 200, true),
      passkey("Security key in the safe of the Analytical Society", 9, false),
    ],
    recovery_codes_left: 3,
  };
  const shown = { ...common, person, factors, methods: "/account/sign-in-methods" };
  const none = { app: null, passkeys: [], recovery_codes_left: 0 };
  const removal = { ...shown, generation: "7", csrf: "t", isMailed: true };
  const result = { code: "factorRemoved", values: {} };
  return [
    { name: "people", html: (visit) => pages.render(peoplePage, visit, { ...common, csrf: "t" }) },
    {
      name: "people-nobody",
      html: (visit) => pages.render(peoplePage, visit, { ...common, csrf: "t", unknown: "ada@exmaple.com" }),
    },
    { name: "person", html: (visit) => pages.render(personPage, visit, { ...shown, result }) },
    {
      name: "person-without-factors",
      html: (visit) => pages.render(personPage, visit, { ...shown, factors: none }),
    },
    {
      name: "person-operator",
      html: (visit) => pages.render(personPage, visit, { ...shown, protectedAs: "own" }),
    },
    {
      name: "person-remove",
      html: (visit) => pages.render(removalPage, visit, { ...removal, factor: factorKey("Telephone") }),
    },
    {
      name: "person-remove-all",
      html: (visit) => pages.render(removalPage, visit, { ...removal, factor: ALL }),
    },
  ];
}
