/** Sample data for the steps of a sign-in, as their pages and the tests show them. */
import type { Enrolment } from "../accounts/factors/enrolment.ts";
import type { PasskeyCreation, PasskeyRequest } from "../accounts/factors/passkeys.ts";
import type {
  Offers,
  Problem,
  Proven,
  RunningSignIn,
  SignInMethod,
  SignInState,
  StepName,
} from "./steps/step.ts";
import { STEPS } from "./steps/steps.ts";
import type { StepWithPicture } from "./steps/views.ts";

/** How a sample of a step differs from an empty one. */
export interface SampleStep {
  readonly signIn?: Partial<RunningSignIn>;
  readonly problems?: readonly Problem[];
  readonly ways?: readonly StepName[];
  readonly recoveryCodes?: readonly string[];
  readonly methods?: readonly SignInMethod[];
}

/** The offers of the service of the samples. @param text replaces every text from outside. */
function sampleOffers(text: string): Offers {
  const asked = { name: "required", surname: "required", username: "optional" } as const;
  return {
    registration: {
      fields: { ...asked, date_of_birth: "optional", gender: "optional" },
      terms: { url: text, version: text },
      passwordless: true,
    },
    resets: true,
    passwordLength: { min: 8, max: 128 },
    passkeyOffer: true,
  };
}

/** Steps of somebody who has shown something. */
const PROVEN: ReadonlySet<StepName> = new Set([
  "enrol-confirm",
  "enrol",
  "recovery-codes",
  "offer-passkey",
  "review-methods",
  "terms",
]);

/** One of each kind. */
export function sampleMethods(text: string): readonly SignInMethod[] {
  const added_at = 1_790_000_000;
  return [
    { kind: "app", id: "app", factor: "app", added_at, last_used_at: null },
    { kind: "passkey", id: text, factor: text, name: text, added_at, last_used_at: added_at },
    { kind: "browser", id: text, browser: text, system: null, added_at, expires_at: added_at },
  ];
}

/** The states that the steps need to be open. */
export function sampleState(name: StepName, text: string): SignInState {
  const proven = { sub: text, generation: 0, at: 0, amr: ["pwd"], app: true, passkeys: true };
  if (name === "second-factor") return { step: name, proven, passkey: samplePasskey(text) };
  return {
    step: name,
    email: text,
    ...(PROVEN.has(name) && { proven }),
    ...(name === "enrol" && { enrolment: sampleEnrolment(text) }),
  };
}

/** Somebody who was offered a passkey, at one of the steps that add it. */
export function sampleOffered(name: StepName, text: string): SignInState {
  const { proven, ...state } = sampleState(name, text);
  return { ...state, ...(proven && { proven: { ...proven, offered: true } }) };
}

export function stepUpForPasskey(text: string): Proven {
  const has = { app: true, passkeys: true, stepUp: true, passkeyOnly: true } as const;
  return { sub: text, generation: 0, at: 0, amr: ["pwd", "otp", "mfa"], ...has };
}

/** Somebody with a passkey, at a step where it can be used. */
export function sampleOwner(
  text: string,
  { notice, hasPassword = true }: { readonly notice?: string; readonly hasPassword?: boolean } = {},
): Partial<RunningSignIn> {
  const factors = { generation: 1, user_handle: text, app: false, passkeys: [text] };
  return {
    account: { sub: text, email: text, name: text, locale: null, factors, hasPassword },
    state: { loginChallenge: { challenge: text, expiresAt: 0 }, ...(notice !== undefined && { notice }) },
  };
}

function samplePasskey(text: string): PasskeyRequest {
  return { challenge: text, rpId: text, timeout: 1, userVerification: "required", allowCredentials: [] };
}

/** As long as that of a QR code. */
const SAMPLE_PICTURE = `data:image/svg+xml,${"x".repeat(3_900)}`;

function sampleEnrolment(text: string): Enrolment {
  const publicKey: PasskeyCreation = {
    challenge: text,
    rp: { id: text, name: text },
    user: { id: text, name: text, displayName: text },
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
  const as = { email: text, password_generation: 0, sessions_generation: 0, factors_generation: 0 };
  const app = { secret: text, uri: text };
  return { sub: text, as, isFirst: true, app, passkey: { publicKey }, expiresAt: 0 };
}

/** Somebody who registers without a password, where the passkey is made. */
export function sampleNewcomer(text: string): Partial<RunningSignIn> {
  const { passkey, isFirst: _isFirst, ...enrolment } = sampleEnrolment(text);
  return {
    state: {
      step: "enrol",
      email: text,
      ...(passkey && { enrolment: { ...enrolment, as: null, app: null, passkey } }),
    },
  };
}

/** A step as people see it. @param text replaces every text from outside. */
export function sampleStep(
  name: StepName,
  text: string,
  { signIn: changes, problems = [], ways, recoveryCodes, methods }: SampleStep = {},
): StepWithPicture {
  const known = name === "consent" || name === "continue" || name === "reauthenticate";
  const signIn = {
    uid: text,
    prompt: name === "consent" || name === "continue" ? name : "login",
    client: { client_id: text, name: text },
    path: text,
    csrf: text,
    again: text,
    shares: [],
    apis: [],
    state: sampleState(name, text),
    expiresAt: 0,
    ...(known && { account: { sub: text, email: text, name: text, hasPassword: true } }),
    ...changes,
  } as RunningSignIn;
  const offers = sampleOffers(text);
  const step = STEPS[name];
  const actions = step.actions(signIn, offers);
  return {
    name,
    signIn,
    path: signIn.path,
    fields: step.fields(signIn, offers),
    actions,
    ...(name !== "enrol" && actions.includes("passkey") && { passkey: samplePasskey(text) }),
    ways: (ways ?? step.ways(signIn)).map((way) => ({ name: way, path: text })),
    offers,
    problems,
    expiresIn: 3_480,
    extendable: true,
    ...(name === "enrol" && { qrCode: SAMPLE_PICTURE }),
    ...(recoveryCodes && { recoveryCodes }),
    ...(name === "review-methods" && { methods: methods ?? sampleMethods(text) }),
  };
}
