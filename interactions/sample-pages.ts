/**
 * Sample data for every page in every state. With custom views, start-up renders all of it, so a broken view stops the
 * start; the tests render it too. A new state of a page needs a row here.
 */
import type { ConsoleAttempt, ConsoleDeliveryDetail, ConsoleReceiver } from "./console/delivery-console.ts";
import type { LocalsOfPersonPages } from "./account/views.ts";
import type { DeliveriesLocals, DeliveryLocals, ReceiversLocals } from "./console/console-views.ts";
import type {
  ConfirmLocals,
  ErrorLocals,
  LastPageLocals,
  LoggedOutLocals,
  LogoutLocals,
  StartAgainLocals,
  StepLocals,
} from "./page-locals.ts";

import type { Offers, PresentStep, Problem, RunningSignIn, SignInState, StepName } from "./steps/step.ts";
import { STEPS } from "./steps/steps.ts";

/** What each page is given, by the name of the page. */
export interface LocalsOfPages extends LocalsOfPersonPages {
  readonly step: StepLocals;
  readonly confirm: ConfirmLocals;
  readonly deliveries: DeliveriesLocals;
  readonly delivery: DeliveryLocals;
  readonly receivers: ReceiversLocals;
  readonly logout: LogoutLocals;
  readonly loggedOut: LoggedOutLocals;
  readonly error: ErrorLocals;
  readonly startAgain: StartAgainLocals;
  readonly unavailable: LastPageLocals;
}

/** One page in one state. */
export interface Sample<Page extends keyof LocalsOfPages = keyof LocalsOfPages> {
  readonly page: Page;
  /** Distinguishes the states of a page. */
  readonly state: string;
  /** Renders the page with one of these functions. */
  with<Html>(pages: { readonly [P in keyof LocalsOfPages]: (locals: LocalsOfPages[P]) => Html }): Html;
}

function sample<Page extends keyof LocalsOfPages>(
  page: Page,
  state: string,
  locals: LocalsOfPages[Page],
): Sample {
  return { page, state, with: (pages) => pages[page](locals) };
}

const problem = (code: string, ...fields: string[]): Problem => ({
  code,
  fields,
  values: { retryAfter: 120 },
});

/** @param text replaces every text from outside. */
export function samplePages(locale: string, text: string): readonly Sample[] {
  const step = (state: string, name: StepName, shown: SampleStep = {}): Sample =>
    sample("step", `${name}, ${state}`, { locale, here: text, step: sampleStep(name, text, shown) });
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
    step("name", "consent", { signIn: { shares: ["sub", "name", "surname"] } }),
    step("id", "consent", { signIn: { shares: ["sub"] } }),
    step("new password", "login", { signIn: { state: { notice: "password-changed" } } }),
    step("recent sign-in", "reauthenticate"),
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
    sample("confirm", "elsewhere", { locale, here: text, accountUrl: text, kind: "elsewhere" }),
    sample("confirm", "gone", { locale, accountUrl: text, kind: "gone" }),
    sample("confirm", "taken", { locale, accountUrl: text, kind: "taken" }),
    sample("confirm", "undo", {
      locale,
      accountUrl: text,
      kind: "undo",
      form: { email: text, action: text, csrf: text },
    }),
    ...personPages(locale, text),
    sample("logout", "question", { locale, action: text, xsrf: text }),
    sample("loggedOut", "signed out", { locale }),
    sample("loggedOut", "stayed", { locale, after: "stayed" }),
    sample("loggedOut", "deleted", { locale, after: "deleted" }),
    ...consolePages(locale, text),
    sample("error", "unknown code", { locale, accountUrl: text, error: text, description: text }),
    sample("error", "known code", { locale, accountUrl: text, error: "invalid_client" }),
    sample("error", "limited", { locale, accountUrl: text, error: "rate_limited", retryAfter: 30 }),
    sample("startAgain", "can go on", { locale, accountUrl: text, action: text }),
    sample("startAgain", "gone", { locale, accountUrl: text }),
    sample("unavailable", "503", { locale, accountUrl: text }),
  ];
}

/** How a sample of a step differs from an empty one. */
export interface SampleStep {
  readonly signIn?: Partial<RunningSignIn>;
  readonly problems?: readonly Problem[];
  readonly ways?: readonly StepName[];
}

/** What the service of the samples offers. @param text replaces every text from outside. */
function sampleOffers(text: string): Offers {
  const asked = { name: "required", surname: "required", username: "optional" } as const;
  return {
    registration: {
      fields: { ...asked, date_of_birth: "optional", gender: "optional" },
      terms: { url: text, version: text },
    },
    resets: true,
    passwordLength: { min: 8, max: 128 },
  };
}

/** The states that the steps need to be open. */
function sampleState(name: StepName, text: string): SignInState {
  const proven = name === "terms" && { proven: { sub: text, generation: 0, at: 0 } };
  return { step: name, email: text, ...proven };
}

/** A step as people see it. @param text replaces every text from outside. */
export function sampleStep(
  name: StepName,
  text: string,
  { signIn: changes, problems = [], ways }: SampleStep = {},
): PresentStep {
  const known = name === "consent" || name === "reauthenticate";
  const signIn = {
    uid: text,
    prompt: name === "consent" ? "consent" : "login",
    client: { client_id: text, name: text },
    path: text,
    csrf: text,
    shares: [],
    state: sampleState(name, text),
    expiresAt: 0,
    ...(known && { account: { sub: text, email: text } }),
    ...changes,
  } as RunningSignIn;
  const offers = sampleOffers(text);
  const step = STEPS[name];
  return {
    name,
    signIn,
    path: signIn.path,
    fields: step.fields(signIn, offers),
    actions: step.actions(signIn),
    ways: (ways ?? step.ways).map((way) => ({ name: way, path: text })),
    offers,
    problems,
    expiresIn: 3_480,
  };
}

/** A delivery of the console. @param text replaces every text from outside. */
export function sampleDelivery(
  text: string,
  changes: Partial<ConsoleDeliveryDetail> = {},
): ConsoleDeliveryDetail {
  const attempt: ConsoleAttempt = {
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
    heldUntil: null,
    waiting: 0,
    parked: 0,
    oldest: null,
    ...changes,
  };
}

function consolePages(locale: string, text: string): readonly Sample[] {
  const common = {
    locale,
    here: text,
    list: text,
    receiversPath: text,
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
    sample("deliveries", "none", list),
    sample("deliveries", "some", {
      ...list,
      filter: { state: "parked", receiver: text, type: "PROFILE_CHANGED", sub: text },
      deliveries: [parked, waiting],
      next: text,
      isLater: true,
      redriveAll: text,
    }),
    sample("deliveries", "wrong account", { ...list, wrongSub: text }),
    sample("delivery", "parked", { ...common, delivery: parked, tokens: { ...tokens, force: text } }),
    sample("delivery", "waiting", { ...common, delivery: waiting, tokens: { discard: text } }),
    sample("delivery", "after an action", { ...common, names: new Map(), delivery: parked, tokens, result }),
    sample("receivers", "none", { ...common, receivers: [] }),
    sample("receivers", "some", {
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
  ];
}

function personPages(locale: string, text: string): readonly Sample[] {
  const common = { locale, here: text, base: text, action: text, csrf: text };
  const overview = { ...common, email: text, fullName: "", sub: text, canChangeEmail: false };
  const address = { ...common, email: text, isConfirmed: true };
  const pending = { email: text, hasLink: false };
  const values = {
    name: text,
    surname: text,
    username: text,
    date_of_birth: text,
    gender: text,
    locale: text,
  };
  const profile = { ...common, values, locales: ["en", "pl"], problems: [] };
  const password = { ...common, username: text, min: 8, max: 128 };
  const at = 1_790_000_000_000;
  const session = { uid: text, firstUse: at / 1000, lastUse: at / 1000 };
  const where = { address: text, browser: text, system: text };
  const one = { isThis: true, session };
  const sessions = [one, { isThis: false, session: { ...session, ...where } }];
  const service = { key: text, name: text, since: undefined, fields: ["sub", "email", text] };
  return [
    sample("account", "person", overview),
    sample("account", "operator", {
      ...overview,
      fullName: text,
      canChangeEmail: true,
      deliveries: text,
      notice: "password",
    }),
    sample("accountProfile", "filled in", profile),
    sample("accountProfile", "saved, one language", { ...profile, locales: ["en"], notice: "profile" }),
    sample("accountProfile", "wrong", {
      ...profile,
      problems: [
        { field: "name", reason: "text" },
        { field: "username", reason: "taken" },
        { field: "username", reason: "username" },
        { field: "date_of_birth", reason: "date" },
        { field: "gender", reason: "choice" },
      ],
    }),
    sample("accountEmail", "confirmed", { ...address, notice: "address" }),
    sample("accountEmail", "not confirmed", { ...address, isConfirmed: false, notice: "addressCancelled" }),
    sample("accountEmail", "pending", { ...address, pending, notice: "codeSent" }),
    sample("accountEmail", "wrong code", {
      ...address,
      pending,
      problem: { reason: "wrongCode", triesLeft: 3 },
    }),
    sample("accountEmail", "link", { ...address, pending: { email: text, hasLink: true } }),
    sample("accountNewEmail", "empty", { ...common, value: "" }),
    sample("accountNewEmail", "wrong", { ...common, value: text, problem: { reason: "invalid" } }),
    sample("accountNewEmail", "limited", {
      ...common,
      value: text,
      problem: { reason: "limited", retryAfter: 90 },
    }),
    sample("accountPassword", "empty", password),
    sample("accountPassword", "refused", { ...password, problem: "too-short" }),
    sample("accountSessions", "one", { ...common, sessions: [one], now: at }),
    sample("accountSessions", "several", { ...common, sessions, now: at + 1, notice: "session" }),
    sample("accountServices", "none", { ...common, services: [], now: at, notice: "service" }),
    sample("accountServices", "some", {
      ...common,
      services: [service, { ...service, since: at }],
      now: at + 1,
    }),
    sample("accountDelete", "nobody is told", { ...common, email: text, told: [] }),
    sample("accountDelete", "some are told", { ...common, email: text, told: [text, text] }),
  ];
}
