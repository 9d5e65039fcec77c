/** The variables of the views of the steps. */
import type { Translator } from "../../lib/texts/texts.ts";
import type { Locals } from "../look/views.ts";
import type { StepDescription } from "./description.ts";
import type { PresentStep, StepName } from "./step.ts";

/** What only the view of one step gets. */
const OWN: Readonly<Record<StepName, (t: Translator, step: StepDescription) => Locals>> = {
  login: (t, { client, fields }) => ({
    heading: client.own ? t("login.title.account") : t("login.title", { client: client.name }),
    username: fields.find(({ name }) => name === "username")?.value ?? "",
  }),
  consent: (t, { client: { name: client }, account = "", shares = [], locale }) => ({
    heading: t("consent.title", { client }),
    account,
    sentence: sharedSentence(t, locale, client, shares),
    fields: shares.map(({ label }) => label),
  }),
};

/** The variables of the view of a step. */
export function stepLocals(
  t: Translator,
  described: StepDescription,
  { path }: Pick<PresentStep, "path">,
): Locals {
  const { step, client, csrf, fields, problems } = described;
  const problemsOf = (field: string): string =>
    problems.flatMap((problem, i) => (problem.fields.includes(field) ? [`problem-${i}`] : [])).join(" ");
  const common = { client: client.name, action: path, csrf, fields, problems, problemsOf };
  return { ...common, ...OWN[step](t, described) };
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
