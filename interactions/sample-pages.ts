/**
 * Sample data for every page in every state. With custom views, start-up renders all of it, so a broken view stops the
 * start; the tests render it too. A new state of a page needs a row here.
 */
import type { ShownAttempt } from "../notifier/notifications.ts";
import type { ConsoleDeliveryDetail, ConsoleReceiver } from "./console/delivery-console.ts";
import { compareView, deviceDoneView, deviceView } from "./account/device.ts";
import { deletionView } from "./account/delete.ts";
import { addressView, newAddressView } from "./account/email.ts";
import { overviewView } from "./account/overview.ts";
import { confirmFactorView, newAppView, newPasskeyView } from "./account/new-factor.ts";
import { passwordView } from "./account/password.ts";
import type { PersonLocals } from "./account/person-pages.ts";
import { profileView } from "./account/profile.ts";
import { servicesView } from "./account/services.ts";
import { codesView, factorView, methodsView } from "./account/sign-in-methods.ts";
import { sessionsView } from "./account/sessions.ts";
import { errorPage, loggedOutPage, logoutPage, startAgainPage, unavailablePage } from "./answers.ts";
import { confirmPage } from "./confirm.ts";
import { deliveriesPage, deliveryPage, receiversPage } from "./console/console-views.ts";
import type { Page, Pages, Visit } from "./page.ts";
import type { PasskeyRequest } from "../accounts/factors/passkeys.ts";
import type {
  Offers,
  PresentStep,
  Problem,
  Proven,
  RunningSignIn,
  SignInState,
  StepName,
} from "./steps/step.ts";
import { STEPS } from "./steps/steps.ts";
import { stepPage } from "./steps/views.ts";

/** One page in one state. */
export interface Sample {
  /** The view and the state. */
  readonly name: string;
  render(pages: Pick<Pages, "render">, visit: Visit): string;
}

function sample<Data>(page: Page<Data>, state: string, data: NoInfer<Data>): Sample {
  return {
    name: `${page.view}, ${state}`,
    render: (pages, visit) => pages.render(page, visit, data),
  };
}

const problem = (code: string, ...fields: string[]): Problem => ({
  code,
  fields,
  values: { retryAfter: 120 },
});

/** @param text replaces every text from outside. */
export function samplePages(text: string): readonly Sample[] {
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
    step("new password", "login", { signIn: { state: { notice: "password-changed" } } }),
    step("passkey", "login", { signIn: sampleOwner(text) }),
    step("passkey first", "login", {
      signIn: { ...sampleOwner(text, "passkey-refused"), prefersPasskey: true },
    }),
    step("recent sign-in", "reauthenticate"),
    step("passkey", "reauthenticate", { signIn: sampleOwner(text, "passkey-late") }),
    step("app, passkey and recovery code", "second-factor"),
    step("passkey for a step-up", "second-factor", {
      signIn: { state: { ...sampleState("second-factor", text), proven: stepUpForPasskey(text) } },
    }),
    step("wrong code", "second-factor", { problems: [problem("wrong-app-code", "code")] }),
    step("wrong recovery code", "second-factor", { problems: [problem("wrong-recovery-code")] }),
    step("app stopped", "second-factor", { problems: [problem("app-stopped")] }),
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
    sample(startAgainPage, "can go on", { accountUrl: text, action: text }),
    sample(startAgainPage, "gone", { accountUrl: text }),
    sample(unavailablePage, "503", { accountUrl: text }),
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
  const proven = { sub: text, generation: 0, at: 0, amr: ["pwd"], app: true, passkeys: true };
  if (name === "second-factor") return { step: name, proven, passkey: samplePasskey(text) };
  return { step: name, email: text, ...(name === "terms" && { proven }) };
}

function stepUpForPasskey(text: string): Proven {
  const has = { app: true, passkeys: true, stepUp: true, passkeyOnly: true } as const;
  return { sub: text, generation: 0, at: 0, amr: ["pwd", "otp", "mfa"], ...has };
}

/** Somebody with a passkey, at a step where it can be used. */
function sampleOwner(text: string, notice?: string): Partial<RunningSignIn> {
  const factors = { generation: 1, user_handle: text, app: false, passkeys: [text] };
  return {
    account: { sub: text, email: text, locale: null, factors },
    state: { loginChallenge: { challenge: text, expiresAt: 0 }, ...(notice !== undefined && { notice }) },
  };
}

function samplePasskey(text: string): PasskeyRequest {
  return { challenge: text, rpId: text, timeout: 1, userVerification: "required", allowCredentials: [] };
}

/** A step as people see it. @param text replaces every text from outside. */
export function sampleStep(
  name: StepName,
  text: string,
  { signIn: changes, problems = [], ways }: SampleStep = {},
): PresentStep {
  const known = name === "consent" || name === "continue" || name === "reauthenticate";
  const signIn = {
    uid: text,
    prompt: name === "consent" || name === "continue" ? name : "login",
    client: { client_id: text, name: text },
    path: text,
    csrf: text,
    shares: [],
    apis: [],
    state: sampleState(name, text),
    expiresAt: 0,
    ...(known && { account: { sub: text, email: text } }),
    ...changes,
  } as RunningSignIn;
  const offers = sampleOffers(text);
  const step = STEPS[name];
  const actions = step.actions(signIn);
  return {
    name,
    signIn,
    path: signIn.path,
    fields: step.fields(signIn, offers),
    actions,
    ...(actions.includes("passkey") && { passkey: samplePasskey(text) }),
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

function consolePages(text: string): readonly Sample[] {
  const common = {
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
  ];
}

/** The pages for the code of a device. */
function devicePages(text: string, common: PersonLocals, at: number): readonly Sample[] {
  const compared = {
    ...common,
    client: { name: text },
    logo: undefined,
    userCode: "BCDFGHJK",
    fields: ["sub", "email", "name", "surname", text],
    apis: [],
    askedAt: at,
    now: at + 1,
    network: text,
    ownNetwork: text,
  };
  return [
    sample(deviceView, "empty", { ...common, value: "" }),
    sample(deviceView, "filled in", { ...common, value: text }),
    ...(["required", "unknown", "used", "expired", "unavailable"] as const).map((reason) =>
      sample(deviceView, reason, { ...common, value: text, problem: { reason } }),
    ),
    sample(deviceView, "limited", { ...common, value: text, problem: { reason: "limited", retryAfter: 90 } }),
    sample(compareView, "the same network", compared),
    sample(compareView, "api", {
      ...compared,
      fields: ["sub"],
      apis: [{ identifier: text, name: text, scopes: [{ name: text, label: text }] }],
    }),
    sample(compareView, "another network", { ...compared, logo: text, network: undefined }),
    sample(deviceDoneView, "connected", { ...common, isConnected: true, notice: "device" }),
    sample(deviceDoneView, "refused", { ...common, isConnected: false, notice: "deviceRefused" }),
  ];
}

/** "Sign-in methods", and adding one. */
function methodPages(text: string, common: PersonLocals, now: number): readonly Sample[] {
  const added_at = now / 1000 - 86_400;
  const passkey = { id: text, name: text, added_at, last_used_at: null, backed_up: true };
  const app = { added_at, last_used_at: added_at, stopped: false };
  const canAdd = { app: true, passkey: true };
  const nothing = { app: null, passkeys: [], recovery_codes_left: 0 };
  const methods = { ...common, factors: nothing, password: { isSet: true }, canAdd, now };
  const both = { app, passkeys: [passkey, { ...passkey, last_used_at: added_at }], recovery_codes_left: 10 };
  const full = { ...both, app: { ...app, stopped: true }, passkeys: Array(10).fill(passkey) };
  const confirm = { ...common, kind: "app", isSent: false, isGuarded: false } as const;
  const newApp = {
    ...common,
    kind: "app",
    app: { qrCode: text, key: text, uri: text },
    setUp: text,
  } as const;
  const newPasskey = { ...common, kind: "passkey", passkey: text, setUp: text } as const;
  return [
    sample(methodsView, "password only", { ...methods, password: { isSet: true, changedAt: added_at } }),
    sample(methodsView, "passkeys and app", { ...methods, factors: both, notice: "passkeyAdded" }),
    sample(methodsView, "full and stopped", { ...methods, factors: full, notice: "factorsFull" }),
    sample(methodsView, "few codes", { ...methods, factors: { ...both, recovery_codes_left: 2 } }),
    sample(methodsView, "no codes", { ...methods, factors: { ...both, recovery_codes_left: 0 } }),
    sample(methodsView, "one passkey, no password", {
      ...methods,
      password: { isSet: false },
      factors: { app: null, passkeys: [passkey], recovery_codes_left: 10 },
    }),
    sample(methodsView, "nothing to add", { ...methods, canAdd: { app: false, passkey: false } }),
    sample(factorView, "passkey", { ...common, passkey, isLast: false }),
    sample(factorView, "no name", { ...common, passkey, isLast: true, problem: "name" }),
    sample(factorView, "app", { ...common, isLast: false }),
    sample(codesView, "left", { ...common, codes: [], left: 1 }),
    sample(codesView, "new", { ...common, codes: [text, text], left: 2 }),
    sample(confirmFactorView, "not sent", confirm),
    sample(confirmFactorView, "sent", { ...confirm, isSent: true, isGuarded: true, notice: "factorCode" }),
    sample(confirmFactorView, "wrong code", {
      ...confirm,
      isSent: true,
      problem: { reason: "wrongCode", triesLeft: 3 },
    }),
    ...(["noCode", "noTries", "gone"] as const).map((reason) =>
      sample(confirmFactorView, reason, { ...confirm, isSent: reason === "noCode", problem: { reason } }),
    ),
    sample(confirmFactorView, "limited", { ...confirm, problem: { reason: "limited", retryAfter: 90 } }),
    sample(newAppView, "empty", newApp),
    sample(newAppView, "wrong code", { ...newApp, problem: { reason: "wrongApp" } }),
    sample(newPasskeyView, "empty", newPasskey),
    sample(newPasskeyView, "refused", { ...newPasskey, problem: { reason: "wrongPasskey" } }),
    sample(newPasskeyView, "no name", { ...newPasskey, problem: { reason: "name" } }),
  ];
}

function personPages(text: string): readonly Sample[] {
  const common = {
    base: text,
    action: text,
    csrf: text,
    person: { name: "", email: text },
    places: ["home", "profile", "email", "password", "methods", "sessions", "services", "delete"].map(
      (page) => ({
        page,
        href: text,
        isCurrent: page === "home",
      }),
    ),
  };
  const overview = {
    ...common,
    account: { sub: text, email_verified: false, username: null, password_hash: null },
    browsers: 1,
    services: [],
    now: 1_790_000_000_000,
  };
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
  const apis = [{ identifier: text, name: text, scopes: [{ name: text, label: text }] }];
  const service = { key: text, name: text, since: undefined, fields: ["sub", "email", text], apis };
  return [
    sample(overviewView, "person", overview),
    sample(overviewView, "operator", {
      ...overview,
      person: { name: text, email: text },
      account: {
        sub: text,
        email_verified: true,
        username: text,
        password_hash: text,
        password_changed_at: 0,
      },
      browsers: 2,
      services: [text, text, text, text],
      deliveries: text,
      notice: "password",
    }),
    sample(profileView, "filled in", profile),
    sample(profileView, "saved, one language", { ...profile, locales: ["en"], notice: "profile" }),
    sample(profileView, "wrong", {
      ...profile,
      problems: [
        { field: "name", reason: "text" },
        { field: "username", reason: "taken" },
        { field: "username", reason: "username" },
        { field: "date_of_birth", reason: "date" },
        { field: "gender", reason: "choice" },
      ],
    }),
    sample(addressView, "confirmed", { ...address, notice: "address" }),
    sample(addressView, "not confirmed", { ...address, isConfirmed: false, notice: "addressCancelled" }),
    sample(addressView, "pending", { ...address, pending, notice: "codeSent" }),
    sample(addressView, "wrong code", {
      ...address,
      pending,
      problem: { reason: "wrongCode", triesLeft: 3 },
    }),
    sample(addressView, "link", { ...address, pending: { email: text, hasLink: true } }),
    sample(newAddressView, "empty", { ...common, value: "" }),
    sample(newAddressView, "wrong", { ...common, value: text, problem: { reason: "invalid" } }),
    sample(newAddressView, "limited", {
      ...common,
      value: text,
      problem: { reason: "limited", retryAfter: 90 },
    }),
    sample(passwordView, "empty", password),
    sample(passwordView, "refused", { ...password, problem: "too-short" }),
    sample(sessionsView, "one", { ...common, network: text, sessions: [one], now: at }),
    sample(sessionsView, "several", { ...common, network: text, sessions, now: at + 1, notice: "session" }),
    sample(servicesView, "none", {
      ...common,
      services: [],
      devices: [],
      offersDevices: false,
      now: at,
      notice: "service",
    }),
    sample(servicesView, "some", {
      ...common,
      services: [service, { ...service, since: at }],
      devices: [{ id: text, client: { name: text }, since: at / 1000 }],
      offersDevices: true,
      now: at + 1,
    }),
    ...methodPages(text, common, at),
    ...devicePages(text, common, at),
    sample(deletionView, "nobody is notified", { ...common, email: text, notified: [] }),
    sample(deletionView, "some are notified", { ...common, email: text, notified: [text, text] }),
  ];
}
