/** The steps of somebody who comes back from a provider, in all their states, and the providers of the samples. */
import type { ShownProvider } from "../look/providers.ts";
import type { LinkingState, Newcomer } from "../steps/provider-state.ts";
import type { Proven, RunningSignIn, SignInState, StepName } from "../steps/running-sign-in.ts";
import type { Problem, SignInMethod } from "../steps/step.ts";
import { ADA, problem, SUB, type Text } from "./sample.ts";

/** How a state of a step differs from the first one. */
export interface StepChanges {
  readonly signIn?: Partial<RunningSignIn>;
  /** Members of the state of the sign-in that it has besides those that open the step. */
  readonly state?: SignInState;
  readonly problems?: readonly Problem[];
  readonly alternatives?: readonly StepName[];
  readonly recoveryCodes?: readonly string[];
  readonly methods?: readonly SignInMethod[];
}

/** Providers with marks of their own, and others. */
export function sampleProviders(text: Text): readonly ShownProvider[] {
  return [
    { key: text("google"), preset: "google", name: text("Google") },
    { key: text("microsoft"), preset: "microsoft", name: text("Microsoft") },
    { key: text("apple"), preset: "apple", name: text("Apple") },
    { key: text("github"), preset: "github", name: text("GitHub") },
    { key: text("corp"), preset: "openid", name: { en: text("Corp ID"), de: text("Firmenkonto") } },
    { key: text("uni"), preset: "openid", name: text("University of Examples") },
  ];
}

/** Somebody at another provider. */
const identityOf = (text: Text): Newcomer => ({
  provider: text("google"),
  issuer: text("https://accounts.google.com"),
  subject: text("110169484474386276334"),
  email: text("ada.lovelace@gmail.com"),
  vouched: true,
  name: text("Ada"),
  surname: text("Lovelace"),
  mfa: false,
  leftAt: 0,
});

const linkingOf = (text: Text): LinkingState => ({
  identity: identityOf(text),
  owner: { name: text("Ada Lovelace"), email: text(ADA) },
});

/** The steps of somebody who came back from a provider: before and after a sign-in. */
const NEWCOMERS: ReadonlySet<StepName> = new Set(["provider-register", "provider-known"]);
const LINKING: ReadonlySet<StepName> = new Set(["provider-confirm", "provider-link"]);

/** Whether somebody has come back there. */
export const isAfterProvider = (name: StepName): boolean => NEWCOMERS.has(name) || LINKING.has(name);

/** What opens these steps. @param proven somebody who has shown a password. */
export const cameBackAt = (name: StepName, text: Text, proven: Proven): SignInState => ({
  ...(NEWCOMERS.has(name) && { upstream: identityOf(text) }),
  ...(name === "provider-known" && { known: { ways: ["password"] } }),
  ...(LINKING.has(name) && { proven: { ...proven, linking: linkingOf(text) } }),
});

export function providerStates(
  text: Text,
): Readonly<Partial<Record<StepName, Readonly<Record<string, StepChanges>>>>> {
  const proven = { sub: text(SUB), generation: 0, at: 0, amr: ["pwd"], ways: ["password"] };
  const limited = { problems: [problem("limited")] };
  const challenged = (notice?: string): SignInState => ({
    loginChallenge: { challenge: text("bGluayBvZiAzMiBieXRlcw"), expiresAt: 0 },
    ...(notice !== undefined && { notice }),
  });
  const linkingWith = (changes: Partial<LinkingState>): StepChanges => ({
    state: { proven: { ...proven, linking: { ...linkingOf(text), ...changes } } },
  });
  const { email: _email, name: _name, surname: _surname, ...unnamed } = identityOf(text);
  const nobody: Newcomer = { ...unnamed, vouched: false };
  return {
    "provider-register": {
      "provider-register": {},
      "provider-register-unconfirmed": { state: { upstream: { ...identityOf(text), vouched: false } } },
      "provider-register-other-address": { state: { known: { ways: ["password"] } } },
      "provider-register-problems": {
        state: { upstream: nobody },
        problems: ["email", "terms"].map((field) => problem("required", field)),
      },
    },
    "provider-known": {
      "provider-known": {},
      "provider-known-wrong": { problems: [problem("wrong", "password")] },
      "provider-known-passkey": { state: { ...challenged(), known: { ways: ["password", "passkey"] } } },
      "provider-known-passkey-only": {
        state: { ...challenged("passkey-refused"), known: { ways: ["passkey"] } },
      },
      "provider-known-other": { state: { known: { ways: [] } } },
      "provider-known-only": { state: { known: { ways: ["password"], only: true } } },
    },
    "provider-confirm": {
      "provider-confirm": {},
      "provider-confirm-again": { state: { notice: "sent" } },
      "provider-confirm-wrong": { problems: [problem("wrong-code", "code")] },
    },
    "provider-link": {
      "provider-link": {},
      "provider-link-same-address": linkingWith({ identity: { ...identityOf(text), email: text(ADA) } }),
      "provider-link-taken": linkingWith({ refused: "taken" }),
      "provider-link-full": linkingWith({ refused: "full" }),
      "provider-link-domain": linkingWith({ refused: "domain" }),
      "provider-link-limited": limited,
    },
  };
}
