/**
 * Sample data for every page in every state. With custom views, start-up renders all of it, so a broken view stops the
 * start; the tests render it too. A new state of a page needs a row here.
 */
import type { ShownAttempt } from "../notifier/notifications.ts";
import type { ConsoleDeliveryDetail, ConsoleReceiver } from "./console/delivery-console.ts";
import { personPages } from "./account/sample-pages.ts";
import { errorPage, loggedOutPage, logoutPage, startAgainPage, unavailablePage } from "./answers.ts";
import { confirmPage } from "./confirm.ts";
import { deliveriesPage, deliveryPage, receiversPage } from "./console/console-views.ts";
import { type Sample, sample } from "./page.ts";
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
