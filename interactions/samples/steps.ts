/** The steps of a sign-in, in all their states. */
import type { Enrolment } from "../../accounts/factors/enrolment.ts";
import type { PasskeyCreation, PasskeyRequest } from "../../accounts/factors/passkeys.ts";
import { FULL_NAME } from "../../accounts/names.ts";
import { DOCUMENTED_FIELDS } from "../../accounts/profile-fields.ts";
import { ACR_PASSKEY } from "../../provider/authentication.ts";
import { PROVIDER_PROBLEMS } from "../steps/provider-state.ts";
import type { Proven, RunningSignIn, SignInClient, SignInState, StepName } from "../steps/running-sign-in.ts";
import type { Offers, SignInMethod } from "../steps/step.ts";
import type { DomainProvider } from "../look/providers.ts";
import { STEPS } from "../steps/steps.ts";
import { stepPage, type StepWithPicture } from "../steps/views.ts";
import {
  cameBackAt,
  isAfterProvider,
  providerStates,
  sampleProviders,
  type StepChanges,
} from "./provider-steps.ts";
import {
  ADA,
  APP,
  asItIs,
  daysAgo,
  LONG_NAME,
  problem,
  RECOVERY_CODES,
  type Sample,
  sampleApis,
  sampleFields,
  sampleUnregistered,
  states,
  SUB,
  type Text,
} from "./sample.ts";

const offersOf = (text: Text): Offers => ({
  registration: {
    fields: sampleFields(["en"]).registered,
    terms: { url: text("https://example.org/terms"), version: text("2026-05") },
    passwordless: true,
  },
  resets: true,
  emailCode: true,
  passwordLength: { min: 8, max: 128 },
  passkeys: true,
  passkeyOffer: true,
});

const accountOf = (text: Text): NonNullable<RunningSignIn["account"]> => ({
  sub: text(SUB),
  email: text(ADA),
  name: text("Ada Lovelace"),
  locale: null,
  ways: ["password"],
});

/** Somebody who has shown a password. */
const provenOf = (text: Text) => ({
  sub: text(SUB),
  generation: 0,
  at: 0,
  amr: ["pwd"],
  ways: ["password", "passkey", "app"],
});

/** The same, after a provider. */
const fedOf = (text: Text, proven: Proven): Proven => ({
  ...proven,
  amr: ["fed"],
  signedInAt: null,
  provider: text("google"),
});

/** What the steps need to be open. */
const stateOf = (name: StepName, text: Text): SignInState => ({
  step: name,
  email: text(ADA),
  proven: provenOf(text),
  ...cameBackAt(name, text, provenOf(text)),
  ...(name === "second-factor" && { passkey: passkeyOf(text) }),
  ...(name === "provider-problem" && { provider: { key: text("google"), from: "login", problem: "slow" } }),
  ...(name === "provider-fresh" && { proven: fedOf(text, provenOf(text)) }),
  ...(name === "invitation" && { invitation: { id: text(SUB), email: text(ADA) } }),
  ...(name === "enrol" && { enrolment: enrolmentOf(text) }),
});

function passkeyOf(text: Text): PasskeyRequest {
  return {
    challenge: text("bGluayBvZiAzMiBieXRlcw"),
    rpId: text("login.example"),
    timeout: 1,
    userVerification: "required",
    allowCredentials: [],
  };
}

/** What a new passkey is created with. */
export function samplePasskeyCreation(text: Text): PasskeyCreation {
  return {
    challenge: text("bGluayBvZiAzMiBieXRlcw"),
    rp: { id: text("login.example"), name: text("Example") },
    user: { id: text("1"), name: text(ADA), displayName: text("Ada Lovelace") },
    pubKeyCredParams: [{ type: "public-key", alg: -7 }],
    timeout: 1,
    excludeCredentials: [],
    authenticatorSelection: {
      residentKey: "required",
      requireResidentKey: true,
      userVerification: "required",
    },
    attestation: "none",
  };
}

function enrolmentOf(text: Text) {
  return {
    sub: text(SUB),
    as: { email: text(ADA), password_generation: 0, sessions_generation: 0, factors_generation: 0 },
    isFirst: true,
    app: { secret: text(APP.key), uri: text(APP.uri) },
    passkey: { publicKey: samplePasskeyCreation(text) },
    expiresAt: 0,
  } satisfies Enrolment;
}

/** One method of each kind, used and not. */
function methodsOf(text: Text): readonly SignInMethod[] {
  const added_at = daysAgo(104);
  const seen = { added_at: daysAgo(1), expires_at: daysAgo(-30) };
  const passkey = (id: string, name: string, last_used_at: number | null): SignInMethod => ({
    kind: "passkey",
    id: text(id),
    factor: text(id),
    name: text(name),
    added_at,
    last_used_at,
  });
  return [
    { kind: "app", id: "app", factor: "app", name: null, added_at, last_used_at: null },
    passkey("1", "iPhone", null),
    passkey("2", "YubiKey", daysAgo(2)),
    {
      kind: "provider",
      id: text("5"),
      factor: text("5"),
      name: null,
      label: text("Google"),
      email: text("ada@gmail.com"),
      added_at,
      last_used_at: daysAgo(1),
    },
    { kind: "browser", id: text("3"), browser: text("Firefox"), system: text("Windows"), ...seen },
    { kind: "browser", id: text("4"), browser: text("Opera"), system: null, ...seen },
  ];
}

/** A provider of people at a domain. */
const domainsOf = (text: Text): readonly DomainProvider[] => [
  {
    key: text("corp"),
    preset: "openid",
    name: text("Corp ID"),
    domains: ["corp.example"],
    only: true,
    issuer: "https://login.corp.example",
  },
];

/** A name in that domain, whatever it is. */
const atDomain = (text: Text): string => `${text("grace").slice(0, 60)}@corp.example`;

/** A step as people see it. */
export function sampleStep(
  name: StepName,
  { signIn: changes, state, problems = [], alternatives, recoveryCodes, methods }: StepChanges = {},
  text: Text = asItIs,
): StepWithPicture {
  const known = name === "consent" || name === "continue" || name === "reauthenticate";
  const signIn: RunningSignIn = {
    uid: text("V1StGXR8_Z5jdHi6B-myT"),
    prompt: name === "consent" || name === "continue" ? name : "login",
    client: { client_id: text("news"), name: text("News") },
    clientThen: { client_id: "news", services: [] },
    path: text("/interaction/1"),
    csrf: text("c"),
    again: text("sealed"),
    shares: [],
    apis: [],
    state: { ...stateOf(name, text), ...state },
    expiresAt: 0,
    ...(known && { account: accountOf(text) }),
    ...(name === "provider" && { providers: sampleProviders(text), hinted: text("google") }),
    ...(isAfterProvider(name) && { providers: sampleProviders(text) }),
    ...changes,
  };
  const offers = offersOf(text);
  const step = STEPS[name];
  const actions = step.actions(signIn, offers);
  return {
    name,
    signIn,
    path: signIn.path,
    fields: step.fields(signIn, offers),
    actions,
    ...(name !== "enrol" && actions.includes("passkey") && { passkey: passkeyOf(text) }),
    alternatives: (alternatives ?? step.alternatives(signIn)).map((each) => ({
      name: each,
      path: text(`/interaction/1/${each}`),
    })),
    offers,
    problems,
    expiresIn: 3_480,
    extendable: true,
    ...(name === "enrol" && { qrCode: APP.qrCode }),
    ...(recoveryCodes && { recoveryCodes }),
    ...(name === "review-methods" && { methods: methods ?? methodsOf(text) }),
  };
}

export function stepSamples(text: Text): readonly Sample[] {
  const steps = (name: StepName, named: Readonly<Record<string, StepChanges>>): readonly Sample[] =>
    Object.entries(named).flatMap(([state, changes]) => {
      const step = sampleStep(name, changes, text);
      return states(stepPage(step), step, { [state]: {} });
    });
  const client = (changes: Partial<SignInClient> = {}): Pick<RunningSignIn, "client"> => ({
    client: { client_id: text("partner"), name: text("Partner"), ...changes },
  });
  const unregistered = (known: Parameters<typeof sampleUnregistered>[1]) => ({
    apis: sampleApis(text),
    ...client({ unregistered: sampleUnregistered(text, known) }),
  });
  const own = client({ name: text("Account"), own: true });
  const logo = "/clients/1/logo?1";
  const account = accountOf(text);
  const loginHint = text("ada");
  const limited = { problems: [problem("limited")] };
  const proven = provenOf(text);
  const providers = sampleProviders(text);
  const domains = domainsOf(text);
  const offered: SignInState = { proven: { ...proven, offered: true } };
  const { passkey, isFirst: _isFirst, ...enrolment } = enrolmentOf(text);
  /** Somebody with a passkey, at a step where it can be used. */
  const owner = (...ways: readonly string[]): Partial<RunningSignIn> => ({
    account: { ...account, ways: ["passkey", ...ways] },
  });
  const codeAsked: SignInState = { username: text(ADA), mailed: true };
  const mailOnly = { ...account, ways: ["email"] };
  const challenged = (notice?: string): SignInState => ({
    loginChallenge: { challenge: text("bGluayBvZiAzMiBieXRlcw"), expiresAt: 0 },
    ...(notice !== undefined && { notice }),
  });
  return [
    ...steps("login", {
      login: {},
      "login-filled-in": { signIn: { loginHint } },
      "login-own": { signIn: own },
      "login-long-name": { signIn: client({ name: text(`${LONG_NAME} Południe`) }) },
      "login-logo": { signIn: client({ logo }) },
      "login-wrong": { signIn: { loginHint }, problems: [problem("wrong", "username", "password")] },
      "login-missing": { problems: [problem("required", "username"), problem("required", "password")] },
      "login-limited": { signIn: { loginHint }, ...limited },
      "login-provider-cancelled": {
        signIn: { providers: providers.slice(0, 3) },
        state: { notice: "provider-cancelled", provider: { key: text("google"), from: "login" } },
      },
      "login-new-password": { state: { notice: "password-changed" } },
      "login-code-too-little": { state: { notice: "code-too-little" } },
      "login-passkey": { signIn: owner("password"), state: challenged() },
      "login-passkey-first": {
        signIn: { ...owner("password"), prefers: "passkey" },
        state: challenged("passkey-refused"),
      },
    }),
    ...steps("login", {
      "login-providers": { signIn: { providers: providers.slice(0, 3) }, state: challenged() },
      "login-provider-last": {
        signIn: { providers: providers.slice(0, 3), lastProvider: text("google") },
        state: challenged(),
      },
      "login-providers-many": { signIn: { providers }, state: challenged() },
      "login-providers-wrong": {
        signIn: { loginHint, providers, lastProvider: text("uni") },
        problems: [problem("wrong", "username", "password")],
      },
    }),
    ...steps("email-code", {
      "email-code": {},
      "email-code-filled-in": { signIn: { loginHint } },
      "email-code-limited": { signIn: { loginHint }, ...limited },
      "email-code-sent": { state: codeAsked },
      "email-code-again": { state: { ...codeAsked, notice: "code-sent" } },
      "email-code-username": { state: { ...codeAsked, username: loginHint } },
      "email-code-own": { signIn: { ...own, account: mailOnly }, state: { mailed: true } },
      "email-code-wrong": { state: codeAsked, problems: [problem("wrong-code", "code")] },
      "email-code-no-tries": { state: codeAsked, problems: [problem("no-tries", "code")] },
      "email-code-late": { state: codeAsked, problems: [problem("code-expired", "code")] },
      "email-code-not-resent": { state: codeAsked, ...limited },
    }),
    ...steps("login", {
      "login-name": { signIn: { providers: providers.slice(0, 3), domains }, state: challenged() },
      "login-name-wrong": {
        signIn: { loginHint, providers, domains, lastProvider: text("uni") },
        problems: [problem("wrong", "username")],
      },
      "login-name-known": {
        signIn: { providers, domains },
        state: { ...challenged(), named: true, username: text(ADA) },
      },
      "login-name-known-wrong": {
        signIn: { providers, domains },
        state: { named: true, username: text("ada") },
        problems: [problem("wrong", "username", "password")],
      },
      "login-domain": {
        signIn: { providers, domains: domains.map((each) => ({ ...each, only: false })) },
        state: { ...challenged(), named: true, username: atDomain(text) },
      },
      "login-domain-only": {
        signIn: { providers, domains },
        state: { named: true, username: atDomain(text) },
      },
    }),
    ...steps("provider", {
      provider: {},
      "provider-own": { signIn: { ...own, providers, hinted: text("corp") } },
      "provider-limited": limited,
    }),
    ...steps("consent", {
      consent: {
        signIn: {
          ...client(),
          shares: ["sub", "email", ...DOCUMENTED_FIELDS],
        },
      },
      "consent-id": { signIn: { ...client(), shares: ["sub"] } },
      "consent-name": { signIn: { shares: ["sub", ...FULL_NAME] } },
      "consent-claim": { signIn: { shares: ["email", text("shoe_size")] } },
      "consent-look": {
        signIn: {
          ...client({
            logo,
            policy_uri: text("https://partner.example/privacy"),
            tos_uri: text("https://partner.example/terms"),
          }),
          shares: ["email"],
        },
      },
      "consent-https": { signIn: unregistered({ how: "https", checked: false }) },
      "consent-loopback": {
        signIn: unregistered({ how: "loopback", host: text("vscode.dev"), checked: true }),
      },
      "consent-scheme": { signIn: unregistered({ how: "scheme", scheme: text("cursor"), checked: false }) },
      "consent-api": { signIn: { shares: ["sub"], apis: sampleApis(text) } },
    }),
    ...steps("continue", {
      continue: {},
      "continue-device": { signIn: { forDevice: true } },
      "continue-nameless": { signIn: { account: { ...account, name: "" } } },
    }),
    ...steps("reauthenticate", {
      reauthenticate: {},
      "reauthenticate-passkey": { signIn: owner("password"), state: challenged("passkey-late") },
      "reauthenticate-passkey-only": { signIn: owner(), state: challenged("passkey-refused") },
      "reauthenticate-provider": {
        signIn: {
          account: { ...account, ways: ["password", "provider"], providers: [text("google")] },
          providers,
        },
      },
      "reauthenticate-code": { signIn: { account: mailOnly } },
      "reauthenticate-code-limited": { signIn: { account: mailOnly }, ...limited },
      "reauthenticate-nothing": { signIn: { account: { ...account, ways: [] } } },
    }),
    ...steps("provider-problem", {
      ...Object.fromEntries(
        PROVIDER_PROBLEMS.map((problem_) => [
          `provider-problem-${problem_}`,
          {
            signIn: { providers },
            state: { provider: { key: text("google"), from: "login", problem: problem_ } },
          },
        ]),
      ),
      "provider-problem-organizations": {
        signIn: { providers },
        state: {
          provider: {
            key: text("google"),
            from: "login",
            problem: "not-among",
            organizations: [text("corp.example"), text("corp.test")],
          },
        },
      },
      "provider-problem-limited": {
        signIn: { providers },
        state: { provider: { key: text("google"), from: "login", problem: "slow" } },
        ...limited,
      },
    }),
    ...steps("provider-fresh", {
      "provider-fresh": { signIn: { providers }, state: { proven: fedOf(text, proven) } },
      "provider-fresh-mailed": {
        signIn: { providers },
        state: { proven: fedOf(text, proven), mailed: true },
      },
      "provider-fresh-wrong": {
        signIn: { providers },
        state: { proven: fedOf(text, proven) },
        problems: [problem("wrong", "password")],
      },
    }),
    ...steps("second-factor", {
      "second-factor": {},
      "second-factor-step-up": {
        state: { proven: { ...proven, amr: ["pwd", "otp", "mfa"], stepUp: true, passkeyOnly: true } },
      },
      "second-factor-wrong": { problems: [problem("wrong-app-code", "code")] },
      "second-factor-wrong-recovery-code": { problems: [problem("wrong-recovery-code")] },
      "second-factor-stopped": { problems: [problem("app-stopped")] },
    }),
    ...steps("offer-passkey", { "offer-passkey": {}, "offer-passkey-limited": limited }),
    ...steps("enrol-confirm", { "enrol-confirm": {}, "enrol-confirm-offered": { state: offered } }),
    ...steps("enrol", {
      enrol: {},
      "enrol-wrong": { problems: [problem("wrong-app-code", "code")] },
      "enrol-refused": { problems: [problem("new-passkey-refused")] },
      "enrol-offered": { state: offered },
      "enrol-new-account": {
        signIn: {
          state: {
            step: "enrol",
            email: text(ADA),
            enrolment: { ...enrolment, as: null, app: null, passkey },
          },
        },
      },
      "enrol-passkey-only": { signIn: { demandedAcr: ACR_PASSKEY } },
    }),
    ...steps("recovery-codes", {
      "recovery-codes": { recoveryCodes: RECOVERY_CODES.map(text) },
      "recovery-codes-lost": {},
      "recovery-codes-not-kept": { problems: [problem("required", "kept")] },
    }),
    ...steps("review-methods", {
      "review-methods": {},
      "review-methods-last": {
        methods: methodsOf(text).slice(0, 1),
        problems: [problem("last-factor")],
      },
      "review-methods-last-sign-in-method": { problems: [problem("last-sign-in-method")] },
      "review-methods-none": { methods: [], state: { notice: "method-removed" } },
    }),
    ...steps("register", {
      register: {},
      "register-own": { signIn: own },
      "register-expired": { state: { notice: "expired" } },
      "register-problems": {
        signIn: { loginHint: text(ADA) },
        problems: [problem("common", "password"), problem("required", "terms")],
      },
      "register-incomplete": {
        problems: ["email", "password", "terms"].map((field) => problem("required", field)),
      },
      "register-refused": { problems: [problem("refused")] },
    }),
    ...Object.entries(providerStates(text)).flatMap(([name, named]) => steps(name as StepName, named)),
    ...steps("confirm-email", {
      "confirm-email": {},
      "confirm-email-provider": { state: cameBackAt("provider-register", text, proven) },
      "confirm-email-again": { state: { notice: "sent" } },
      "confirm-email-wrong": { problems: [problem("wrong-code", "code")] },
      "confirm-email-link": { signIn: { link: text("x") } },
      "confirm-email-username": { state: { usernameTaken: true, notice: "username-taken" } },
    }),
    ...steps("invitation", {
      invitation: { signIn: own },
      "invitation-expired": { signIn: own, state: { notice: "expired" } },
      "invitation-common": { signIn: own, problems: [problem("common", "password")] },
    }),
    ...steps("forgot-password", {
      "forgot-password": { signIn: { loginHint: text(ADA) } },
      "forgot-password-empty": {},
      "forgot-password-limited": limited,
    }),
    ...steps("new-password", {
      "new-password": {},
      "new-password-link": { signIn: { link: text("x") }, alternatives: [] },
      "new-password-common": { problems: [problem("common", "password")] },
    }),
    ...steps("terms", { terms: {}, "terms-not-accepted": { problems: [problem("required", "terms")] } }),
  ];
}
