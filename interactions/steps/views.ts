/** The steps as pages. */
import type { ServiceContext } from "../../provider/exchange.ts";
import type { Translator } from "../../core/texts.ts";
import type { Locals } from "../look/views.ts";
import type { Page, Pages } from "../page.ts";
import { describeStep, sharedSentence, type StepDescription } from "./description.ts";
import { languageOf, type PresentStep, type StepName } from "./step.ts";

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

/** A step of a running sign-in: a form with the hidden field `csrf`. The view has the name of the step. */
export const stepPage = (name: StepName): Page<PresentStep> => ({ view: name, locals: stepLocals });

/** A step in the language of the request, for programs. */
export function describeFor(
  pages: Pick<Pages, "visit" | "translator">,
  ctx: ServiceContext,
  step: PresentStep,
): StepDescription {
  const { locale } = pages.visit(ctx, languageOf(step.signIn));
  return describeStep(step, pages.translator(locale));
}

function stepLocals(t: Translator, step: PresentStep): Locals {
  const described = describeStep(step, t);
  const { client, csrf, account = "", email = "", terms, notice, fields, problems, actions } = described;
  const problemsOf = (field: string): string =>
    problems.flatMap((problem, i) => (problem.fields.includes(field) ? [`problem-${i}`] : [])).join(" ");
  return {
    heading: described.title,
    client: client.name,
    clientLogo: client.logo ?? "",
    action: step.path,
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
    timeLeft: t("timeLeft", { time: minutesText(t.locale, described.expires_in) }),
    ...OWN[step.name]?.(t, described),
  };
}

/** Such as `58 minutes`. */
function minutesText(locale: string, seconds: number): string {
  const unit = { style: "unit", unit: "minute", unitDisplay: "long" } as const;
  return new Intl.NumberFormat(locale, unit).format(Math.max(1, Math.ceil(seconds / 60)));
}
