/** What the pages say to somebody who came back from a provider. */
import { emailProblem, readName, shownEmail } from "../../accounts/names.ts";
import type { Translator } from "../../core/texts.ts";
import { labelIn } from "../../config/labels.ts";
import type { ShownProvider } from "../look/providers.ts";
import type { RunningSignIn, StepName } from "./running-sign-in.ts";
import type { PresentStep } from "./step.ts";

/** The account at a provider that somebody came back with. */
export interface CameBack extends Pick<ShownProvider, "key" | "preset"> {
  /** Of the provider. */
  readonly name: string;
  /** As the provider says. */
  readonly email?: string;
}

const STEPS: ReadonlySet<StepName> = new Set([
  "provider-register",
  "provider-known",
  "provider-confirm",
  "provider-link",
]);

/** Who came back; `undefined` at other steps. */
export function cameBack({ name: step, signIn }: PresentStep, locale: string): CameBack | undefined {
  const { providers = [], domains = [], state } = signIn;
  const identity = state.proven?.linking?.identity ?? state.upstream;
  if (!STEPS.has(step) || identity === undefined) return undefined;
  const { provider: key, email } = identity;
  const provider = [...providers, ...domains].find((each) => each.key === key);
  return {
    key,
    preset: provider?.preset ?? "openid",
    name: provider === undefined ? key : labelIn(provider.name, locale),
    // The provider may say anything.
    ...(email !== undefined && emailProblem(email) === undefined && { email: shownEmail(email) }),
  };
}

/** The account that the identity would be linked to. */
export const linkingOwner = ({ name, signIn }: PresentStep) =>
  name === "provider-link" ? signIn.state.proven?.linking?.owner : undefined;

/** Whether the two addresses differ: then the person looks twice. */
export function addressesDiffer({ state: { proven } }: RunningSignIn): boolean {
  const { identity, owner } = proven?.linking ?? {};
  return identity?.email !== undefined && readName(identity.email) !== readName(owner?.email ?? "");
}

export function knownText(t: Translator, { signIn: { state } }: PresentStep, name: string): string {
  if (state.known?.only) return t("provider-known.only", { name });
  return state.known?.ways.length === 0 ? t("provider-known.other") : t("provider-known.text", { name });
}

/** A warning, if the addresses differ, and what linking means; or why it is not possible. */
export function linkTexts(t: Translator, { signIn }: PresentStep, name: string): readonly string[] {
  const { refused, owner } = signIn.state.proven?.linking ?? {};
  if (refused !== undefined) return [t(`provider-link.${refused}`, { name })];
  return [
    ...(addressesDiffer(signIn) ? [t("provider-link.differ")] : []),
    t("provider-link.access", { name }),
    t("provider-link.signedOut", { email: shownEmail(owner?.email ?? "") }),
    t("provider-link.undo"),
  ];
}
