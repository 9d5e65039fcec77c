/** A step in words, for the views, the JSON interface and `service.interactions`. */
import type { Translator } from "../../lib/texts/texts.ts";
import type { Field, PresentStep, Problem, SignInClient, StepName } from "./step.ts";

/** Something that is wrong with what was submitted. */
export interface DescribedProblem {
  /** For programs. */
  readonly code: string;
  /** In the language of `locale`. */
  readonly text: string;
  /** The names of the fields that it is about. */
  readonly fields: readonly string[];
}

/** A field to show. */
export interface DescribedField extends Omit<Field, "value"> {
  /** In the language of `locale`. */
  readonly label: string;
  /** What the field contains. Empty for passwords. */
  readonly value: string;
  readonly problems: readonly DescribedProblem[];
}

/** Something that the person can do. */
export interface DescribedAction {
  /** `submit` for the fields, `allow` and `deny` for consent, or the name of another step. */
  readonly name: string;
  readonly method: "GET" | "POST";
  /** Path on the same host. */
  readonly href: string;
}

/** A step as the JSON interface answers it. */
export interface StepDescription {
  readonly step: StepName;
  readonly client: SignInClient;
  /** The e-mail address of the account, if it is known. */
  readonly account?: string;
  /** In the order to show. */
  readonly fields: readonly DescribedField[];
  /** Everything that is wrong with what was submitted. */
  readonly problems: readonly DescribedProblem[];
  /** Consent only: exactly what the client would get. */
  readonly shares?: readonly { readonly name: string; readonly label: string }[];
  readonly actions: readonly DescribedAction[];
  /** Unguessable, bound to this sign-in. Send it back with each POST. */
  readonly csrf: string;
  /** The language of the texts. */
  readonly locale: string;
  /** Seconds until the sign-in expires. */
  readonly expires_in: number;
}

/** Describes a step in a language. */
export function describeStep(
  { name, signIn, path, fields, actions, problems, expiresIn }: PresentStep,
  locale: string,
  t: Translator,
): StepDescription {
  const { client, account, csrf, shares } = signIn;
  const described = problems.map((problem) => ({
    code: problem.code,
    text: problemText(t, problem),
    fields: [...problem.fields],
  }));
  return {
    step: name,
    client,
    ...(account !== undefined && { account: account.email }),
    fields: fields.map(({ value = "", ...field }) => ({
      ...field,
      label: firstText(t, [`${name}.${field.name}`, `field.${field.name}`]),
      value,
      problems: described.filter((problem) => problem.fields.includes(field.name)),
    })),
    problems: described,
    ...(name === "consent" && {
      shares: shares.map((share) => ({ name: share, label: shareLabel(t, share) })),
    }),
    actions: actions.map((action) => ({
      name: action,
      method: "POST",
      href: action === "submit" ? path : `${path}?action=${action}`,
    })),
    csrf,
    locale,
    expires_in: expiresIn,
  };
}

function shareLabel(t: Translator, field: string): string {
  return t.has(`field.${field}`) ? t(`field.${field}`) : field;
}

/** The text of a problem: that of its field, if there is one. */
function problemText(t: Translator, { code, fields: [field = ""], values }: Problem): string {
  return firstText(t, [`problem.${code}.${field}`, `problem.${code}`], values);
}

function firstText(t: Translator, keys: readonly string[], values?: Problem["values"]): string {
  return t(keys.find((key) => t.has(key)) ?? keys.at(-1) ?? "", values);
}
