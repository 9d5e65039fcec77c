/**
 * Sample data for every page in every state. With custom views, start-up renders all of it, so a broken view stops the
 * start; the tests render it too. A new state of a page needs a row here.
 */
import { factorKey } from "../accounts/factors/factor.ts";
import type { ShownAttempt } from "../notifier/notifications.ts";
import type { ConsoleDeliveryDetail, ConsoleReceiver } from "./console/delivery-console.ts";
import { personPages } from "./account/sample-pages.ts";
import { errorPage, loggedOutPage, logoutPage, startAgainPage, unavailablePage } from "./answers.ts";
import { confirmPage } from "./confirm.ts";
import { type ConsoleLocals, deliveriesPage, deliveryPage, receiversPage } from "./console/console-views.ts";
import { ALL, peoplePage, personPage, removalPage, type ShownLocals } from "./console/people-views.ts";
import { type Sample, sample } from "./page.ts";
import { ACR_PASSKEY } from "../provider/authentication.ts";
import {
  sampleOffered,
  sampleNewcomer,
  sampleMethods,
  sampleOwner,
  type SampleStep,
  sampleState,
  sampleStep,
  stepUpForPasskey,
} from "./sample-steps.ts";
import type { Problem, StepName } from "./steps/step.ts";
import { stepPage } from "./steps/views.ts";

const problem = (code: string, ...fields: string[]): Problem => ({
  code,
  fields,
  values: { retryAfter: 120 },
});

/** @param text replaces every text from outside. */
export function samplePages(text: string): readonly Sample[] {
  const ended = { accountUrl: text, host: text };
  const client = { name: text, client_uri: text };
  const step = (state: string, name: StepName, shown: SampleStep = {}): Sample =>
    sample(stepPage(name), state, sampleStep(name, text, shown));
  return [
    step("filled in", "login", { signIn: { loginHint: text } }),
    step("empty", "login"),
    step("wrong", "login", { problems: [problem("wrong", "username", "password")] }),
    step("missing", "login", {
      problems: [problem("required", "username"), problem("required", "password")],
    }),
    step("limited", "login", { problems: [problem("limited")] }),
    step("own", "login", { signIn: { client: { client_id: text, name: text, own: true } } }),
    step("logo", "login", { signIn: { client: { client_id: text, name: text, logo: "/clients/1/logo?1" } } }),
    step("look of the client", "consent", {
      signIn: {
        client: {
          client_id: text,
          name: text,
          logo: "/clients/1/logo?1",
          policy_uri: text,
          tos_uri: text,
        },
        shares: ["email"],
      },
    }),
    step("known account", "consent", { signIn: { shares: ["email", text] } }),
    step("api", "consent", {
      signIn: {
        shares: ["sub"],
        apis: [{ identifier: text, name: text, scopes: [{ name: text, label: text }] }],
      },
    }),
    step("name", "consent", { signIn: { shares: ["sub", "name", "surname"] } }),
    step("id", "consent", { signIn: { shares: ["sub"] } }),
    step("known account", "continue"),
    step("application on this device", "continue", { signIn: { forDevice: true } }),
    step("without a name", "continue", {
      signIn: { account: { sub: text, email: text, name: "", locale: null, hasPassword: true } },
    }),
    step("new password", "login", { signIn: { state: { notice: "password-changed" } } }),
    step("passkey", "login", { signIn: sampleOwner(text) }),
    step("passkey first", "login", {
      signIn: { ...sampleOwner(text, { notice: "passkey-refused" }), prefersPasskey: true },
    }),
    step("recent sign-in", "reauthenticate"),
    step("passkey", "reauthenticate", { signIn: sampleOwner(text, { notice: "passkey-late" }) }),
    step("passkey only", "reauthenticate", {
      signIn: sampleOwner(text, { notice: "passkey-refused", hasPassword: false }),
    }),
    step("nothing to use", "reauthenticate", {
      signIn: { account: { sub: text, email: text, name: text, locale: null, hasPassword: false } },
    }),
    step("app, passkey and recovery code", "second-factor"),
    step("passkey for a step-up", "second-factor", {
      signIn: { state: { ...sampleState("second-factor", text), proven: stepUpForPasskey(text) } },
    }),
    step("wrong code", "second-factor", { problems: [problem("wrong-app-code", "code")] }),
    step("wrong recovery code", "second-factor", { problems: [problem("wrong-recovery-code")] }),
    step("app stopped", "second-factor", { problems: [problem("app-stopped")] }),
    step("asked", "offer-passkey"),
    step("limited", "offer-passkey", { problems: [problem("limited")] }),
    step("code", "enrol-confirm"),
    step("offered", "enrol-confirm", { signIn: { state: sampleOffered("enrol-confirm", text) } }),
    step("app and passkey", "enrol"),
    step("wrong code", "enrol", { problems: [problem("wrong-app-code", "code")] }),
    step("refused", "enrol", { problems: [problem("new-passkey-refused")] }),
    step("offered", "enrol", { signIn: { state: sampleOffered("enrol", text) } }),
    step("new account", "enrol", { signIn: sampleNewcomer(text) }),
    step("passkey only", "enrol", { signIn: { demandedAcr: ACR_PASSKEY } }),
    step("made", "recovery-codes", { recoveryCodes: Array.from({ length: 10 }, () => text) }),
    step("lost", "recovery-codes"),
    step("not kept", "recovery-codes", { problems: [problem("required", "kept")] }),
    step("app, passkey and browser", "review-methods"),
    step("the last one is needed", "review-methods", {
      methods: sampleMethods(text).slice(0, 1),
      problems: [problem("last-factor")],
    }),
    step("the only way", "review-methods", { problems: [problem("only-way")] }),
    step("nothing left", "review-methods", {
      methods: [],
      signIn: { state: { ...sampleState("review-methods", text), notice: "method-removed" } },
    }),
    step("empty", "register"),
    step("own", "register", { signIn: { client: { client_id: text, name: text, own: true } } }),
    step("expired", "register", { signIn: { state: { notice: "expired" } } }),
    step("incomplete", "register", {
      problems: ["email", "password", "terms"].map((field) => problem("required", field)),
    }),
    step("refused", "register", { problems: [problem("refused")] }),
    step("code", "confirm-email"),
    step("sent again", "confirm-email", {
      signIn: { state: { step: "confirm-email", email: text, notice: "sent" } },
    }),
    step("wrong code", "confirm-email", { problems: [problem("wrong-code", "code")] }),
    step("link", "confirm-email", { signIn: { link: text } }),
    step("username taken", "confirm-email", {
      signIn: { state: { step: "confirm-email", usernameTaken: true, notice: "username-taken" } },
    }),
    step("empty", "forgot-password"),
    step("limited", "forgot-password", { problems: [problem("limited")] }),
    step("code", "new-password"),
    step("link", "new-password", { signIn: { link: text }, ways: [] }),
    step("common", "new-password", { problems: [problem("common", "password")] }),
    step("new", "terms"),
    step("not accepted", "terms", { problems: [problem("required", "terms")] }),
    sample(confirmPage, "elsewhere", { accountUrl: text, kind: "elsewhere" }),
    sample(confirmPage, "gone", { accountUrl: text, kind: "gone" }),
    sample(confirmPage, "taken", { accountUrl: text, kind: "taken" }),
    sample(confirmPage, "blocked", { accountUrl: text, kind: "blocked" }),
    sample(confirmPage, "undo", {
      accountUrl: text,
      kind: "undo",
      form: { email: text, action: text, csrf: text },
    }),
    ...personPages(text),
    sample(logoutPage, "question", { action: text, xsrf: text }),
    sample(loggedOutPage, "signed out", { accountUrl: text, after: "signed out" }),
    sample(loggedOutPage, "stayed", { accountUrl: text, after: "stayed" }),
    sample(loggedOutPage, "deleted", { accountUrl: text, after: "deleted" }),
    ...consolePages(text),
    sample(errorPage, "unknown code", { accountUrl: text, error: text, description: text }),
    sample(errorPage, "known code", { accountUrl: text, error: "invalid_client" }),
    sample(errorPage, "limited", { accountUrl: text, error: "rate_limited", retryAfter: 30 }),
    sample(startAgainPage, "can go on", { ...ended, action: text }),
    sample(startAgainPage, "stopped", ended),
    ...(["expired", "complete", "elsewhere", "no-cookies"] as const).flatMap((reason) => [
      sample(startAgainPage, `${reason}, unknown`, { ...ended, reason, path: text }),
      sample(startAgainPage, `${reason}, with its client`, { ...ended, reason, path: text, client }),
      sample(startAgainPage, `${reason}, with its request`, {
        ...ended,
        reason,
        path: text,
        client,
        again: text,
      }),
    ]),
    sample(startAgainPage, "of the account", {
      ...ended,
      reason: "complete",
      path: text,
      client: { name: text, own: true },
      again: text,
    }),
    sample(startAgainPage, "name kept", {
      ...ended,
      reason: "expired",
      path: text,
      again: text,
      typed: "name",
    }),
    sample(startAgainPage, "all lost", { ...ended, reason: "expired", path: text, typed: "something" }),
    sample(unavailablePage, "503", { accountUrl: text }),
  ];
}

/** A delivery of the console. @param text replaces every text from outside. */
export function sampleDelivery(
  text: string,
  changes: Partial<ConsoleDeliveryDetail> = {},
): ConsoleDeliveryDetail {
  const attempt: ShownAttempt = {
    number: 1,
    startedAt: 1_790_000_000_000,
    duration: 11.2,
    status: 500,
    error: null,
    answer: text,
  };
  return {
    id: text,
    receiver: text,
    sub: text,
    type: text,
    state: "parked",
    at: 1_790_000_000,
    attempts: 2,
    nextAttemptAt: null,
    lastError: null,
    finishedAt: 1_790_000_100_000,
    reason: text,
    history: [attempt, { ...attempt, number: 2, status: null, error: text, answer: null }],
    ...changes,
  };
}

/** A receiver of the console. @param text replaces every text from outside. */
export function sampleReceiver(text: string, changes: Partial<ConsoleReceiver> = {}): ConsoleReceiver {
  return {
    receiver: text,
    url: text,
    paused: false,
    reason: null,
    failures: 0,
    failingSince: null,
    lastError: null,
    heldUntil: null,
    waiting: 0,
    parked: 0,
    oldest: null,
    ...changes,
  };
}

function consolePages(text: string): readonly Sample[] {
  const common = {
    list: text,
    receiversPath: text,
    people: text,
    path: text,
    account: text,
    names: new Map([[text, text]]),
    now: 1_790_000_300_000,
  };
  const tokens = { redrive: text, discard: text };
  const result = {
    code: "testFailed",
    values: { receiver: text, what: text, duration: 5, redriven: 1, superseded: 2, purged: 3 },
  };
  const list = { ...common, filter: {}, receivers: [text], deliveries: [], isLater: false };
  const waiting = sampleDelivery(text, {
    state: "waiting",
    finishedAt: null,
    reason: null,
    nextAttemptAt: 1_790_000_200_000,
    history: [],
  });
  const parked = sampleDelivery(text);
  return [
    sample(deliveriesPage, "none", list),
    sample(deliveriesPage, "nothing yet", {
      ...list,
      receivers: [],
      overview: { receivers: [], lastHour: [] },
    }),
    sample(deliveriesPage, "nothing parked", { ...list, filter: { state: "parked" } }),
    sample(deliveriesPage, "overview", {
      ...list,
      overview: {
        receivers: [
          sampleReceiver(text),
          sampleReceiver(text, { paused: true, waiting: 3, parked: 1, oldest: 1_790_000_000_000 }),
        ],
        lastHour: [
          { from: 1_790_000_000_000, stored: 90, parked: 1 },
          { from: 1_790_000_300_000, stored: 0, parked: 0 },
        ],
      },
      deliveries: [waiting],
    }),
    sample(deliveriesPage, "some", {
      ...list,
      filter: { state: "parked", receiver: text, type: "PROFILE_CHANGED", sub: text },
      deliveries: [parked, waiting],
      next: text,
      isLater: true,
      redriveAll: text,
    }),
    sample(deliveriesPage, "wrong account", { ...list, wrongSub: text }),
    sample(deliveryPage, "parked", { ...common, delivery: parked, tokens: { ...tokens, force: text } }),
    sample(deliveryPage, "waiting", { ...common, delivery: waiting, tokens: { discard: text } }),
    sample(deliveryPage, "after an action", {
      ...common,
      names: new Map(),
      delivery: parked,
      tokens,
      result,
    }),
    sample(receiversPage, "none", { ...common, receivers: [] }),
    sample(receiversPage, "some", {
      ...common,
      receivers: [
        { report: sampleReceiver(text), tokens: { pause: text, test: text } },
        {
          report: sampleReceiver(text, { paused: true, reason: text, waiting: 3, oldest: 1_790_000_000_000 }),
          tokens: { resume: text, test: text },
        },
        {
          report: sampleReceiver(text, { failures: 7, heldUntil: 1_790_000_000_000, parked: 2 }),
          tokens: { pause: text, resume: text, redriveAll: text },
        },
        { report: sampleReceiver(text, { failures: 1 }), tokens: {} },
        { report: sampleReceiver(text, { url: null }), tokens: {} },
      ],
    }),
    ...peoplePages(text, common),
  ];
}

/** An account as the console shows it. @param text replaces every text from outside. */
export function samplePerson(text: string): ShownLocals["person"] {
  return {
    sub: text,
    email: text,
    email_verified: true,
    name: text,
    surname: text,
    username: text,
    password_hash: text,
    password_changed_at: 1_790_000_000,
    created_at: 1_780_000_000,
  };
}

function peoplePages(text: string, common: ConsoleLocals): readonly Sample[] {
  const person = samplePerson(text);
  const added_at = 1_780_000_000;
  const passkey = { id: text, name: text, added_at, last_used_at: null, backed_up: true };
  const app = { added_at, last_used_at: added_at, stopped: true };
  const both = { app, passkeys: [passkey], recovery_codes_left: 7 };
  const none = { app: null, passkeys: [], recovery_codes_left: 0 };
  const bare = {
    ...person,
    email_verified: false,
    name: null,
    surname: null,
    username: null,
    disabled: true,
    password_hash: null,
  };
  const shown = { ...common, person, factors: both, methods: text };
  const removal = { ...shown, factor: ALL, generation: "1", csrf: text, isMailed: true };
  const result = { code: "personChanged", values: {} };
  return [
    sample(peoplePage, "empty", { ...common, csrf: text }),
    sample(peoplePage, "nobody", { ...common, csrf: text, unknown: text }),
    sample(personPage, "app and passkey", { ...shown, result }),
    sample(personPage, "nothing", { ...shown, person: bare, factors: none }),
    sample(personPage, "own", { ...shown, protectedAs: "own" }),
    sample(personPage, "operator", { ...shown, protectedAs: "operator" }),
    sample(removalPage, "all", removal),
    sample(removalPage, "all, no password", { ...removal, person: bare }),
    sample(removalPage, "app", { ...removal, factor: "app" }),
    sample(removalPage, "the last passkey", {
      ...removal,
      factors: { ...both, app: null },
      factor: factorKey(text),
      isMailed: false,
    }),
  ];
}
