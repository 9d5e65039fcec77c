/** The variables of the views of the steps. */
import type { Translator } from "../../lib/texts/texts.ts";
import type { Locals } from "../look/views.ts";
import type { StepDescription } from "./description.ts";
import type { PresentStep, StepName } from "./step.ts";

/** What only the view of one step gets. Default: the heading alone. */
const OWN: Readonly<Partial<Record<StepName, (t: Translator, step: StepDescription) => Locals>>> = {
  login: (t, { client, fields }) => ({
    heading: client.own ? t("login.title.account") : t("login.title", { client: client.name }),
    username: fields.find(({ name }) => name === "username")?.value ?? "",
  }),
  register: (t, { client }) => ({
    heading: client.own ? t("register.title.account") : t("register.title", { client: client.name }),
  }),
  consent: (
    t,
    { client: { name: client, policy_uri: policy = "", tos_uri: terms = "" }, shares = [], locale },
  ) => ({
    heading: t("consent.title", { client }),
    sentence: sharedSentence(t, locale, client, shares),
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
    heading: t.has(`${name}.title`) && !(name in OWN) ? t(`${name}.title`) : "",
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
      action.method === "GET" ? [{ href: action.href, label: wayLabel(t, name, action.name) }] : [],
    ),
    timeLeft: t("timeLeft", { time: minutesText(locale, described.expires_in) }),
    ...OWN[name]?.(t, described),
  };
}

function wayLabel(t: Translator, step: StepName, way: string): string {
  const own = `way.${step}.${way}`;
  return t(t.has(own) ? own : `way.${way}`);
}

/** Such as `58 minutes`. */
function minutesText(locale: string, seconds: number): string {
  const unit = { style: "unit", unit: "minute", unitDisplay: "long" } as const;
  return new Intl.NumberFormat(locale, unit).format(Math.max(1, Math.ceil(seconds / 60)));
}

function sharedSentence(
  t: Translator,
  locale: string,
  client: string,
  shares: NonNullable<StepDescription["shares"]>,
): string {
  const names = sharedParts(shares.map(({ name }) => name));
  if (names.length === 0) return t("consent.sharesId", { client });
  const parts = names.map((part) => (t.has(`share.${part}`) ? t(`share.${part}`) : part));
  const list = new Intl.ListFormat(locale, { type: "conjunction" }).format(parts);
  return t("consent.shares", { client, parts: list });
}

/** The fields that the sentence names: the name first, as one, and no identifier, which says nothing about the person. */
function sharedParts(fields: readonly string[]): readonly string[] {
  const names = fields.filter((field) => field === "name" || field === "surname");
  const others = fields.filter((field) => !["sub", "name", "surname"].includes(field));
  return [...(names.length === 2 ? ["fullName"] : names), ...others];
}
