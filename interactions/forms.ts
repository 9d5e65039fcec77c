/** Forms: what a submitted one must be before its fields count, and what a view needs to show one. */
import type { Translator } from "../core/texts.ts";
import type { Locals } from "./look/views.ts";

/** The fields of a form; no name is repeated. */
export type Form = ReadonlyMap<string, string>;

/** What was sent, or `undefined` if it can't be read (`status` 400). Other errors are thrown. */
export async function readable<Sent>(read: () => Promise<Sent>): Promise<Sent | undefined> {
  try {
    return await read();
  } catch (error) {
    if (typeof error === "object" && error !== null && "status" in error && error.status === 400)
      return undefined;
    throw error;
  }
}

/** The parts of a Koa context that the origin check needs. */
export interface FormOrigin {
  get(field: string): string;
  readonly exchange: { readonly deployment: { readonly url: string } };
}

/**
 * False if the browser does not say that our own page sent the form, which another site may have sent: cross-site request
 * forgery, or signing a person in to the attacker's account. A program sends neither header: then the hidden field alone
 * decides. `Origin: null` is what pages of others can send, too, so that it needs `Sec-Fetch-Site`.
 */
export function isFromHere(ctx: FormOrigin): boolean {
  const site = ctx.get("Sec-Fetch-Site");
  const isOurs = site === "same-origin" || site === "none";
  if (site !== "" && !isOurs) return false;
  const origin = ctx.get("Origin");
  if (origin === "null") return isOurs;
  return origin === "" || origin === new URL(ctx.exchange.deployment.url).origin;
}

/** Something that is wrong with a form. The view shows it below the last of these fields, or above the form. */
export interface FormProblem {
  readonly fields: readonly string[];
  readonly text: string;
  /** Names the field in the list of several problems. Default: the text. */
  readonly label?: string;
}

/** A field as the view sees it. */
export interface FormField {
  readonly name: string;
  readonly type: string;
  readonly autocomplete: string;
  readonly value?: string;
  /** Whether it takes digits only. */
  readonly isNumber?: boolean;
  /** The least number of characters of a new password. */
  readonly minLength?: number;
}

/** The variables of a form: what is wrong, which field has the focus, and what helps to fill each one in. */
export function formLocals(
  t: Translator,
  fields: readonly FormField[],
  problems: readonly FormProblem[],
): Locals {
  const wrong = problems.map((problem) => problem.fields.at(-1));
  const empty = fields.find(({ type, value = "" }) => value === "" && type !== "checkbox");
  return {
    problems: problems.map((problem) => ({ ...problem, label: problem.label ?? problem.text })),
    /** The ids of the texts that say what is wrong with a field. */
    problemsOf: (field: string): string =>
      wrong.flatMap((each, i) => (each === field ? [`problem-${i}`] : [])).join(" "),
    /** Several problems have a summary, which has the focus. */
    focused: problems.length === 0 ? empty?.name : problems.length === 1 ? wrong[0] : undefined,
    inputHints: (field: FormField): Locals => ({
      ...(field.type !== "checkbox" && KEYBOARDS[field.autocomplete.replace(/ webauthn$/, "")]),
      enterkeyhint: fields.length === 0 || field === fields.at(-1) ? "go" : "next",
      ...(field.isNumber && { inputmode: "numeric" }),
      ...(field.type === "password" && passwordHints(t, field)),
    }),
  };
}

/** Hints for the keyboard of a phone, by `autocomplete`. */
const KEYBOARDS: Readonly<Record<string, Locals>> = {
  username: { autocapitalize: "none", autocorrect: "off", spellcheck: "false" },
  nickname: { autocapitalize: "none", autocorrect: "off", spellcheck: "false" },
  email: { autocapitalize: "none", autocorrect: "off", spellcheck: "false", inputmode: "email" },
  // So far, only the code of a device has `off`.
  off: { autocapitalize: "characters", autocorrect: "off", spellcheck: "false" },
  "one-time-code": { autocapitalize: "characters", autocorrect: "off", spellcheck: "false" },
  "given-name": { autocapitalize: "words" },
  "family-name": { autocapitalize: "words" },
};

/** The texts that the script shows at a password field. */
function passwordHints(t: Translator, { autocomplete, minLength = 0 }: FormField): Locals {
  const show = { "data-show": t("password.show"), "data-hide": t("password.hide") };
  if (autocomplete !== "new-password") return show;
  const strengths = [t("strength.short"), t("strength.weak"), t("strength.fair"), t("strength.strong")];
  return { ...show, "data-strength": strengths.join("|"), "data-min": minLength };
}
