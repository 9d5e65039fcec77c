/** The pages of the console, in all their states. */
import { inSeconds } from "../../core/clock.ts";
import { factorKey } from "../../accounts/factors/factor.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";
import {
  type ConsoleLocals,
  deliveriesPage,
  type DeliveryLocals,
  deliveryPage,
  receiversPage,
} from "../console/console-views.ts";
import { ALL, peoplePage, personPage, removalPage } from "../console/people-views.ts";
import { sampleProviders } from "./provider-steps.ts";
import {
  ACCOUNT_URL,
  ADA,
  asItIs,
  daysAgo,
  MINUTE_MS,
  NO_FACTORS,
  NOW,
  type Sample,
  sampleAttributes,
  sampleFactors,
  sampleIdentities,
  states,
  SUB,
  type Text,
} from "./sample.ts";

/** A parked delivery with two attempts. */
export function sampleDelivery(
  changes: Partial<DeliveryLocals["delivery"]> = {},
  text: Text = asItIs,
): DeliveryLocals["delivery"] {
  return {
    id: text("msg_2xTq9vJm4nYcE7oPqL1s"),
    receiver: text("service:1"),
    sub: text(SUB),
    type: text("PROFILE_CHANGED"),
    state: "parked",
    at: (NOW - 260 * MINUTE_MS) / 1000,
    sequence: 1,
    attempts: 2,
    failures: 2,
    stored_at: inSeconds(NOW - 260 * MINUTE_MS),
    next_attempt_at: null,
    last_error: null,
    finished_at: inSeconds(NOW - 199 * MINUTE_MS),
    reason: text("attempts_used_up"),
    history: [
      {
        number: 1,
        started_at: inSeconds(NOW - 259 * MINUTE_MS),
        duration_ms: 31,
        status: 503,
        error: null,
        answer: text("<h1>Service Unavailable</h1>"),
      },
      {
        number: 2,
        started_at: inSeconds(NOW - 200 * MINUTE_MS),
        duration_ms: 15_000,
        status: null,
        error: text("ETIMEDOUT"),
        answer: null,
      },
    ],
    ...changes,
  };
}

/** A receiver with nothing to do. */
export function sampleReceiver(changes: Partial<ReceiverReport> = {}, text: Text = asItIs): ReceiverReport {
  return {
    receiver: text("service:1"),
    url: text("https://news.example/notify"),
    types: [text("PROFILE_CHANGED")],
    paused: false,
    reason: null,
    failures: 0,
    failing_since: null,
    last_error: null,
    circuit_open_until: null,
    waiting: 0,
    parked: 0,
    oldest_at: null,
    ...changes,
  };
}

export function consoleSamples(text: Text): readonly Sample[] {
  const common: ConsoleLocals = {
    list: text("/account/deliveries"),
    receiversPath: text("/account/deliveries/receivers"),
    people: text("/account/people"),
    path: text("/account/deliveries/receivers"),
    account: text(ACCOUNT_URL),
    names: new Map([
      [text("service:1"), text("News")],
      [text("group:media"), text("Media group")],
    ]),
    now: NOW,
  };
  return [...deliverySamples(text, common), ...receiverSamples(text, common), ...peopleSamples(text, common)];
}

/** The receivers, each in another condition. */
function receiversOf(text: Text) {
  const receiver = (name: string, url: string, changes: Partial<ReceiverReport> = {}): ReceiverReport =>
    sampleReceiver({ receiver: text(name), url: text(url), ...changes }, text);
  return {
    held: receiver("group:media", "https://media.example/notifications", {
      failures: 7,
      circuit_open_until: inSeconds(NOW + 4 * MINUTE_MS),
      waiting: 41,
      parked: 3,
      oldest_at: inSeconds(NOW - 90 * MINUTE_MS),
    }),
    removed: receiver("portal:old", "", { url: null, parked: 1 }),
    busy: receiver("service:1", "https://news.example/notify", {
      waiting: 2,
      oldest_at: inSeconds(NOW - 3 * MINUTE_MS),
    }),
    idle: receiver("service:8", "https://shop.example/notify"),
    paused: receiver("service:7", "https://shop.example/notify", { paused: true, reason: text("by hand") }),
    failing: receiver("service:9", "https://radio.example/notify", { failures: 1 }),
  };
}

function deliverySamples(text: Text, common: ConsoleLocals): readonly Sample[] {
  const { held, removed, busy, idle, paused } = receiversOf(text);
  const delivery = (
    id: string,
    minutes: number,
    changes: Partial<DeliveryLocals["delivery"]> = {},
  ): DeliveryLocals["delivery"] =>
    sampleDelivery(
      {
        id: text(id),
        at: (NOW - minutes * MINUTE_MS) / 1000,
        finished_at: inSeconds(NOW - (minutes - 1) * MINUTE_MS),
        reason: null,
        ...changes,
      },
      text,
    );
  const parked = sampleDelivery({}, text);
  const waiting = delivery("msg_a", 3, {
    state: "waiting",
    attempts: 1,
    finished_at: null,
    next_attempt_at: inSeconds(NOW + 4 * MINUTE_MS),
    history: [],
  });
  const deliveries = [
    waiting,
    delivery("msg_b", 12, { state: "delivered", attempts: 1, receiver: text("group:media") }),
    parked,
    delivery("msg_d", 3_000, { state: "discarded", attempts: 9, type: text("UNASSINGED_FROM_SERVICE") }),
    delivery("msg_e", 60_000, { state: "delivered", receiver: text("portal:old") }),
  ];
  const receivers = [text("service:1"), text("group:media")];
  const none = { ...common, filter: {}, receivers, deliveries: [], isLater: false };
  const next = text("msg_e");
  const redriveAll = text("t");
  const tokens = { redrive: text("t"), discard: text("t") };
  const one = { ...common, delivery: parked, tokens };
  return [
    ...states(deliveriesPage, none, {
      "deliveries-overview": {
        deliveries: deliveries.slice(0, 3),
        next,
        overview: {
          receivers: [held, removed, busy, idle, paused],
          lastHour: [12, 18, 9, 30, 44, 21, 17, 60, 38, 25, 31, 0].map((stored, index) => ({
            from: NOW - (12 - index) * 5 * MINUTE_MS,
            stored,
            parked: index === 4 ? 3 : 0,
          })),
        },
      },
      "deliveries-nothing-yet": { receivers: [], overview: { receivers: [], lastHour: [] } },
      deliveries: { deliveries, next, redriveAll },
      "deliveries-filtered": {
        filter: { state: "parked", receiver: text("service:1"), type: "PROFILE_CHANGED", sub: text(SUB) },
        deliveries: [parked],
        next,
        isLater: true,
        redriveAll,
      },
      "deliveries-none": {},
      "deliveries-none-parked": { filter: { state: "parked" } },
      "deliveries-wrong-account": { wrongSub: text(ADA) },
    }),
    ...states(deliveryPage, one, {
      delivery: { result: { code: "superseded", values: {} } },
      "delivery-outdated": { tokens: { ...tokens, force: text("t") } },
      "delivery-waiting": { delivery: waiting, tokens: { sendNow: text("t"), discard: text("t") } },
      "delivery-due": { delivery: { ...waiting, next_attempt_at: inSeconds(NOW - MINUTE_MS) }, tokens: {} },
      "delivery-unnamed": { names: new Map() },
    }),
  ];
}

function receiverSamples(text: Text, common: ConsoleLocals): readonly Sample[] {
  const { held, removed, busy, paused, failing } = receiversOf(text);
  const values = { receiver: text("service:1"), what: text("204"), duration: 12 };
  const [pause, resume, test, redriveAll] = [text("t"), text("t"), text("t"), text("t")];
  const receivers = [
    { report: busy, tokens: { pause, test } },
    { report: held, tokens: { pause, test, resume, redriveAll } },
    { report: paused, tokens: { resume, test } },
    { report: failing, tokens: {} },
    { report: removed, tokens: { redriveAll } },
  ];
  const all = { ...common, receivers };
  return states(receiversPage, all, {
    receivers: { result: { code: "testTaken", values } },
    "receivers-test-failed": { result: { code: "testFailed", values: { ...values, what: text("503") } } },
    "receivers-due": {
      receivers: [{ report: { ...held, circuit_open_until: inSeconds(NOW - MINUTE_MS) }, tokens: {} }],
    },
    "receivers-none": { receivers: [] },
  });
}

function peopleSamples(text: Text, common: ConsoleLocals): readonly Sample[] {
  const csrf = text("t");
  const factors = sampleFactors(text);
  const [passkey] = factors.passkeys;
  const person = {
    sub: text(SUB),
    email: text("augusta.lovelace-of-ockham@mathematics.example.org"),
    email_verified: true,
    name: text("Augusta Ada"),
    surname: text("King, Countess of Lovelace"),
    username: text("ada"),
    ways: { password: { hash: text(""), generation: 1, changed_at: daysAgo(40) } },
    created_at: daysAgo(800),
  };
  const bare = {
    ...person,
    email_verified: false,
    name: null,
    surname: null,
    username: null,
    disabled: true,
    ways: {},
  };
  const shown = {
    ...common,
    person,
    factors: { ...factors, app: { ...factors.app, stopped: true } },
    methods: text("/account/sign-in-methods"),
    attributes: sampleAttributes(text),
    identities: [],
    providers: sampleProviders(text),
  };
  const removal = { ...shown, factor: ALL, generation: "7", csrf, isMailed: true };
  const form = { ...common, csrf };
  return [
    ...states(peoplePage, form, { people: {}, "people-nobody": { unknown: text("ada@exmaple.com") } }),
    ...states(personPage, shown, {
      person: { result: { code: "factorRemoved", values: {} } },
      "person-changed": { result: { code: "personChanged", values: {} } },
      "person-without-factors": { factors: NO_FACTORS },
      "person-bare": { person: bare, factors: NO_FACTORS, attributes: [] },
      "person-linked": { identities: sampleIdentities(text) },
      "person-own": { protectedAs: "own" },
      "person-operator": { protectedAs: "operator" },
    }),
    ...states(removalPage, removal, {
      "person-remove-all": {},
      "person-remove-all-no-password": { person: bare },
      "person-remove-app": { factor: "app" },
      "person-remove": { factor: factorKey(passkey.id) },
      "person-remove-last": {
        factors: { ...factors, app: null, passkeys: [passkey] },
        factor: factorKey(passkey.id),
        isMailed: false,
      },
    }),
  ];
}
