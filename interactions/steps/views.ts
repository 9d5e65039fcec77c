/** The variables of the views of the steps. */
import type { Translator } from "../../core/texts.ts";
import type { Locals } from "../look/views.ts";
import { sharedSentence, type StepDescription } from "./description.ts";
import type { PresentStep, StepName } from "./step.ts";

/** What only the view of one step gets. */
const OWN: Readonly<Partial<Record<StepName, (t: Translator, step: StepDescription) => Locals>>> = {
  login: (_t, { fields }) => ({ username: fields.find(({ name }) => name === "username")?.value ?? "" }),
  consent: (t, { client: { name: client, policy_uri: policy = "", tos_uri: terms = "" }, shares = [] }) => ({
    sentence: sharedSentence(
      t,
      client,
      shares.map(({ name }) => name),
    ),
    fields: shares.map(({ label }) => label),
    clientLinks: [
      { href: policy, label: t("consent.policy", { client }) },
      { href: terms, label: t("consent.tos", { client }) },
    ].filter(({ href }) => href !== ""),
  }),
};

/** The variables of the view of a step. */
export function stepLocals(t: Translator, described: StepDescription, { name, path }: PresentStep): Locals {
  const {
    client,
    csrf,
    account = "",
    email = "",
    terms,
    notice,
    fields,
    problems,
    actions,
    locale,
  } = described;
  const problemsOf = (field: string): string =>
    problems.flatMap((problem, i) => (problem.fields.includes(field) ? [`problem-${i}`] : [])).join(" ");
  return {
    heading: described.title,
    client: client.name,
    clientLogo: client.logo ?? "",
    action: path,
    csrf,
    account,
    email,
    terms: terms?.url ?? "",
    notice: notice?.text ?? "",
    fields,
    problems,
    problemsOf,
    actions: actions.flatMap((action) => (action.method === "POST" ? [action.name] : [])),
    ways: actions.flatMap((action) =>
      action.method === "GET" ? [{ href: action.href, label: action.label }] : [],
    ),
    timeLeft: t("timeLeft", { time: minutesText(locale, described.expires_in) }),
    ...OWN[name]?.(t, described),
  };
}

/** Such as `58 minutes`. */
function minutesText(locale: string, seconds: number): string {
  const unit = { style: "unit", unit: "minute", unitDisplay: "long" } as const;
  return new Intl.NumberFormat(locale, unit).format(Math.max(1, Math.ceil(seconds / 60)));
}
