/**
 * A page of the signed-in person in words: JSON answers them, and the view of the page shows them. Text, fields, problems
 * and actions are said once, in `content`; a view adds only what is about its looks.
 */
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import { initialsOf } from "../../core/pictures.ts";
import { formLocals, type FormProblem } from "../forms.ts";
import type { Locals } from "../look/views.ts";
import type { DescribedPage, SendOptions } from "../page.ts";
import { describedField, describedProblem } from "../steps/described-step.ts";
import { problemText } from "../steps/description.ts";
import type { ConsentApi } from "../steps/running-sign-in.ts";
import type { Field, Problem } from "../steps/step.ts";
import type { Notice } from "./seals.ts";

/** Where the account begins, below each base URL. */
export const HOME = "/account";

/** A page that the others link to. Its name is the text `account.<page>`. */
export interface NavigationItem {
  readonly page: string;
  /** As the browser sees it. */
  readonly href: string;
  /** Whether it or a page below it is shown. */
  readonly isCurrent: boolean;
}

/** The data that every page of the person gets. Paths are as the browser sees them. */
export interface PersonLocals {
  /** Who is signed in. The name may be empty. */
  readonly person: { readonly name: string; readonly email: string };
  readonly navigation: readonly NavigationItem[];
  /** The path of the deployment. */
  readonly base: string;
  /** The path of this page, which its forms are sent to. */
  readonly action: string;
  readonly csrf: string;
  /** The change that has just been made. */
  readonly notice?: Notice;
  /** What is wrong with what was submitted. */
  readonly problems?: readonly Problem[];
}

export const accountPage = section({
  /** The name of the page. An address can have several pages, one after the other. */
  page: z.string(),
  /** The title of the page, in the language of `locale`. */
  title: z.string(),
  /** Text below the title, in paragraphs separated by line breaks. Empty if there is none. */
  text: z.string(),
  /** Who is signed in. The name may be empty. */
  person: section({ name: z.string(), email: z.string() }),
  /** The pages of the account, for a navigation. `current` is the one that is shown, or that it belongs to. */
  pages: z
    .array(section({ name: z.string(), label: z.string(), href: z.string(), current: z.boolean() }))
    .readonly(),
  /** The change that has just been made. */
  notice: section({ code: z.string(), text: z.string() }).exactOptional(),
  /** The fields to show, in this order. */
  fields: z.array(describedField).readonly(),
  /** All problems with what was submitted. */
  problems: z.array(describedProblem).readonly(),
  /** The actions that the person can take. An action with POST sends `csrf` and its `fields`. */
  actions: z
    .array(
      section({
        name: z.string(),
        /** What to call it, in the language of `locale`. */
        label: z.string(),
        /** GET for another page, which the answer describes. */
        method: z.enum(["GET", "POST"]),
        /** Path on the same host. */
        href: z.string(),
        /** The names of the fields to send. */
        fields: z.array(z.string()).readonly(),
      }),
    )
    .readonly(),
  /** Unguessable, bound to this page and session. Send it back with each POST. */
  csrf: z.string(),
  /** The language of the texts. */
  locale: z.string(),
});

/** A page of the account as the JSON interface answers it, with the members of that page. */
export interface AccountPageDescription extends z.output<typeof accountPage> {}

/** A field of a page, with its texts. */
export interface PageField extends Omit<Field, "options"> {
  readonly label: string;
  /** The heading of its section. */
  readonly section?: string;
  readonly hint?: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
  /** Whether it takes digits only. */
  readonly isNumber?: boolean;
  /** The least number of characters of a new password. */
  readonly minLength?: number;
}

/** A problem with its text. */
interface PageProblem extends FormProblem {
  readonly code: string;
}

/** Too many attempts. @param retryAfter seconds until the next one can succeed. */
export const limited = (retryAfter: number): Problem => ({
  code: "limited",
  fields: [],
  values: { retryAfter },
});

/**
 * A problem with a field that the page does not show is about the page.
 * @param page what the keys of its own texts begin with.
 */
function problemsOf(
  t: Translator,
  page: string,
  problems: readonly Problem[] = [],
  fields: readonly PageField[] = [],
): readonly PageProblem[] {
  return problems.map(({ code, fields: about, values }) => {
    const { name: field = "", label = "" } = fields.find(({ name }) => about.includes(name)) ?? {};
    const keys = [`${page}.problem.${code}`, `problem.${field}.${code}`, `problem.${code}`];
    const text = problemText(t, keys, { ...values, field: label });
    return { code, fields: field === "" ? [] : [field], text, ...(label !== "" && { label }) };
  });
}

/** The status of a page with these problems. */
export function statusOf(problems: readonly Problem[] = []): Pick<SendOptions, "status" | "retryAfter"> {
  const retryAfter = problems.find(({ code }) => code === "limited")?.values?.["retryAfter"];
  if (typeof retryAfter === "number") return { status: 429, retryAfter };
  return { status: problems.length === 0 ? 200 : 400 };
}

/** Something that the person can do: one of the actions that the view `takes`. */
interface PageAction {
  readonly name: string;
  readonly label: string;
  /** The look of its button. Default: the main one. */
  readonly look?: "second" | "danger";
  /** The names of the fields that it takes. Default: those that the view takes. */
  readonly fields?: readonly string[];
  /** What its form says above the button. */
  readonly text?: string;
}

/** What a page says. */
interface Content<Members> {
  readonly title: string;
  /** Paragraphs below the title. */
  readonly texts?: readonly string[];
  readonly fields?: readonly PageField[];
  readonly actions?: readonly PageAction[];
  /** Other pages that the person can go to from here. */
  readonly links?: readonly { readonly name: string; readonly label: string; readonly href: string }[];
  /** What the description of this page has besides what all have. */
  readonly members?: Members;
}

/** The same, with what is wrong. */
interface Said extends Content<object> {
  readonly problems: readonly PageProblem[];
}

/** What the JSON interface publishes about a page. */
export interface PublishedView {
  readonly name: string;
  /** What can be submitted, and the names of the fields that each action takes. */
  readonly takes: Readonly<Record<string, readonly string[]>>;
  /** The schema of what the description of this page has besides what all have. */
  readonly members: z.ZodRawShape;
}

/** A page of the signed-in person. */
export interface PersonView<Data extends PersonLocals> extends DescribedPage<Data>, PublishedView {
  readonly describe: (t: Translator, data: Data) => AccountPageDescription;
}

/** Builds a page from what it says. */
export function personView<Data extends PersonLocals, Shape extends z.ZodRawShape>({
  name,
  view = "account-page",
  takes = {},
  problems = name,
  members,
  content,
  locals,
}: {
  /** The name in JSON. */
  readonly name: string;
  /** Without `.ejs`. Default: the one that shows texts, fields and actions, one form after the other. */
  readonly view?: string;
  readonly takes?: PublishedView["takes"];
  /**
   * What the keys of its own texts about problems begin with: `<problems>.problem.<code>`. Default: the name. Without such a
   * text, it is `problem.<field>.<code>` or `problem.<code>`.
   */
  readonly problems?: string;
  readonly members?: Shape;
  readonly content: (t: Translator, data: Data) => Content<z.output<z.ZodObject<Shape>>>;
  /** What only the view shows. */
  readonly locals?: (t: Translator, data: Data) => Locals;
}): PersonView<Data> {
  const said = (t: Translator, data: Data): Said => {
    const all: Content<object> = content(t, data);
    return { ...all, problems: problemsOf(t, problems, data.problems, all.fields) };
  };
  return {
    name,
    view,
    takes,
    members: members ?? {},
    describe: (t, data) => describe(t, name, takes, data, said(t, data)),
    locals: (t, data) => ({ ...personLocals(t, takes, data, said(t, data)), ...locals?.(t, data) }),
  };
}

/** What a client may do in APIs, in words. */
export const apisMember = z
  .array(section({ name: z.string(), scopes: z.array(z.string()).readonly() }))
  .readonly();

export const apisOf = (apis: readonly ConsentApi[]): z.output<typeof apisMember> =>
  apis.map(({ name, scopes }) => ({ name, scopes: scopes.map(({ label }) => label) }));

/** The field that chooses one item of a list; no field for an empty list. */
export const choiceOf = (
  name: string,
  label: string,
  options: NonNullable<PageField["options"]>,
): readonly PageField[] =>
  options.length === 0 ? [] : [{ type: "select", autocomplete: "off", required: true, name, label, options }];

/** The ways to the other pages of a list. */
export const listLinks = (
  t: Translator,
  { first, next }: { readonly first?: string; readonly next?: string },
): NonNullable<Content<object>["links"]> => [
  ...(first === undefined ? [] : [{ name: "first", label: t("list.first"), href: first }]),
  ...(next === undefined ? [] : [{ name: "next", label: t("list.next"), href: next }]),
];

/** The fields that an action takes now. */
function fieldsOf(
  takes: PublishedView["takes"],
  { name, fields: taken = takes[name] }: PageAction,
  fields: readonly PageField[] = [],
): PageField[] {
  return fields.filter((field) => taken?.includes(field.name));
}

function describe(
  t: Translator,
  name: string,
  takes: PublishedView["takes"],
  { action: path, csrf, notice, person, navigation }: PersonLocals,
  { title, texts = [], fields = [], problems, actions = [], links = [], members }: Said,
): AccountPageDescription {
  const described = problems.map(({ code, text, fields: of }) => ({ code, text, fields: of }));
  return {
    page: name,
    title,
    text: texts.join("\n"),
    person: { name: person.name, email: person.email },
    pages: navigation.map(({ page, href, isCurrent }) => ({
      name: page,
      label: t(`account.${page}`),
      href,
      current: isCurrent,
    })),
    ...(notice !== undefined && { notice: { code: notice, text: t(`account.notice.${notice}`) } }),
    ...members,
    fields: fields.map(({ isNumber: _isNumber, minLength: _minLength, value = "", ...field }) => ({
      ...field,
      value,
      problems: described.filter(({ fields: of }) => of.includes(field.name)),
    })),
    problems: described,
    actions: [
      ...actions.map((action) => ({
        name: action.name,
        label: action.label,
        method: "POST" as const,
        href: action.name === "submit" ? path : `${path}?action=${action.name}`,
        fields: fieldsOf(takes, action, fields).map((field) => field.name),
      })),
      ...links.map((link) => ({ ...link, method: "GET" as const, fields: [] })),
    ],
    csrf,
    locale: t.locale,
  };
}

/** The variables that every page of the person has. */
function personLocals(
  t: Translator,
  takes: PublishedView["takes"],
  { base, action, csrf, notice, person, navigation }: PersonLocals,
  { title, texts = [], fields = [], problems, actions = [] }: Said,
): Locals {
  return {
    heading: title,
    texts,
    forms: actions.map((each) => ({ look: "", text: "", ...each, fields: fieldsOf(takes, each, fields) })),
    layout: "account",
    action,
    csrf,
    person: { ...person, initials: initialsOf(person, t.locale) },
    home: base + HOME,
    navigation: navigation.map(({ page, href, isCurrent }) => ({
      page,
      href,
      label: t(`account.${page}`),
      current: isCurrent,
    })),
    notice: notice === undefined ? "" : t(`account.notice.${notice}`),
    back: base + HOME,
    ...formLocals(t, [], problems),
  };
}
