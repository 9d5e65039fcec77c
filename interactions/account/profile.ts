/** The profile: the fields of a person that people change themselves, in one form. */
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { trimmed } from "../../accounts/names.ts";
import {
  enteredProblem,
  enteredValue,
  type FieldRow,
  holding,
  inLines,
  PERSON_FIELD_NAMES,
  PERSON_FIELDS,
  type PersonFields,
  labelKey,
  textOf,
  valueOf,
} from "../../accounts/profile-fields.ts";
import { NameTaken } from "../../core/errors.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord, AttributeValue } from "../../records/directory/directory.ts";
import { keepLanguage } from "../look/language.ts";
import type { Form } from "../forms.ts";
import { languageName } from "../look/language.ts";
import type { Reply } from "../reply.ts";
import type { Problem } from "../steps/step.ts";
import type { PersonPage, PersonServices, PersonVisit } from "./person-pages.ts";
import { type PageField, type PersonLocals, type PersonView, personView } from "./person-view.ts";

const PATH = "/account/profile";

/** What the fields contain, by name. */
type Values = Readonly<Record<string, string>>;

/** An attribute that the page shows, but has no field for. */
interface ShownAttribute {
  readonly row: FieldRow;
  readonly value: AttributeValue;
}

/** `account-profile`: a form with the fields of the profile, and what operators have set. */
interface ProfileLocals extends PersonLocals {
  readonly rows: readonly FieldRow[];
  readonly values: Values;
  readonly set: readonly ShownAttribute[];
}

export const profileView: PersonView<ProfileLocals> = personView({
  name: "profile",
  view: "account-profile",
  takes: { submit: PERSON_FIELD_NAMES.filter((name) => PERSON_FIELDS[name].edit === "person") },
  members: {
    set: z
      .array(section({ name: z.string(), label: z.string(), value: z.string() }))
      .readonly()
      .describe("What operators have set and the person sees, in words."),
  },
  content: (t, data) => {
    const fields = data.rows.map((row) => fieldOf(t, row, data.values[row.name] ?? ""));
    return {
      title: t("account.profile"),
      texts: [t("profile.told")],
      fields,
      actions: [{ name: "submit", label: t("profile.save"), fields: fields.map(({ name }) => name) }],
      members: { set: data.set.map((each) => inWords(t, each)) },
    };
  },
  locals: (t, { rows, values, set }) => ({
    lines: inLines(rows.map((row) => fieldOf(t, row, values[row.name] ?? ""))),
    set: set.map((each) => inWords(t, each)),
  }),
});

function inWords(t: Translator, { row, value }: ShownAttribute) {
  const { name, input } = row;
  const option = `${input?.optionTexts ?? name}.${textOf(value)}`;
  // The parts of an address, in their order.
  const text = typeof value === "object" ? Object.values(value).join(", ") : textOf(value);
  return { name, label: t(labelKey(row)), value: input?.options === undefined ? text : t(option) };
}

/** What the person sees and does not change here. */
const setByOthers = ({ rows, own }: PersonFields, account: AccountRecord): readonly ShownAttribute[] =>
  rows.flatMap((row) => {
    const value = valueOf(row, account);
    if (value === null || !row.isAttribute || row.isHidden || own.includes(row)) return [];
    return [{ row, value }];
  });

function fieldOf(t: Translator, row: FieldRow, value: string): PageField {
  const { name, input = { type: "text" } } = row;
  const { type, autocomplete = "", options = [], optionTexts = name } = input;
  const none = `profile.${name}.none`;
  const hint = [`hint.profile.${name}`, `hint.${name}`].find((key) => t.has(key));
  const choices = options.map((option) => ({
    value: option,
    label: name === "locale" ? languageName(option) : t(`${optionTexts}.${option}`),
  }));
  return {
    name,
    label: t(labelKey(row)),
    type,
    value,
    autocomplete,
    required: false,
    ...(hint !== undefined && { hint: t(hint) }),
    ...(type === "select" && {
      options: withChoice([{ value: "", label: t(t.has(none) ? none : "profile.none") }, ...choices], value),
    }),
  };
}

/** A value that was set elsewhere stays until the person chooses another one. */
function withChoice(
  choices: NonNullable<PageField["options"]>,
  value: string,
): NonNullable<PageField["options"]> {
  const isOffered = choices.some((choice) => choice.value === value);
  return isOffered ? choices : [...choices, { value, label: value }];
}

export const profilePage: PersonPage = {
  path: PATH,
  navigation: "profile",
  views: [profileView],
  show: (visit, { fields }) => shown(visit, fields, valuesOf(fields.own, visit.person.account)),
  async submit(visit, { values: sent }, { accounts, limits, fields, clock }) {
    const { own } = fields;
    const { account } = visit.person;
    const before = valuesOf(own, account);
    const values = typed(own, sent, before);
    const problems = problemsIn(own, values, before, clock);
    if (problems.length > 0) return shown(visit, fields, values, problems);
    const changes = changesIn(own, values, before);
    if (fields.isTooLarge(fields.stored(account, changes)))
      return shown(visit, fields, values, [{ code: "too-much", fields: [] }]);
    // The point is taken before the answer is known: neither a refusal nor its absence may reveal whether a username
    // is taken.
    const isRenamed = values["username"] !== "" && values["username"] !== before["username"];
    const attempt = isRenamed ? await limits.usernameTaken(account.sub) : undefined;
    if (attempt?.allowed === false) return visit.limited(attempt.retryAfter);
    let isTaken = false;
    try {
      await accounts.update(account.sub, changes, byCaller(visit.caller));
    } catch (error) {
      isTaken = error instanceof NameTaken;
      if (!isTaken) throw error;
      return shown(visit, fields, values, [{ code: "taken", fields: ["username"] }]);
    } finally {
      if (!isTaken) await attempt?.withdraw();
    }
    // The language in the cookie wins over that of the account, so it changes too.
    const { locale } = values;
    if (locale !== before["locale"]) keepLanguage(visit.ctx, locale || undefined);
    return visit.done(PATH, "profile");
  },
};

function shown(
  { locals, person, show }: PersonVisit,
  fields: PersonFields,
  values: Values,
  problems: readonly Problem[] = [],
): Reply {
  const set = setByOthers(fields, person.account);
  return show(profileView, { ...locals, rows: fields.own, values, set, problems });
}

const valuesOf = (rows: readonly FieldRow[], account: AccountRecord): Values =>
  Object.fromEntries(rows.map((row) => [row.name, textOf(valueOf(row, account))]));

/** What the form contains. A field that it does not have stays as it is. */
const typed = (rows: readonly FieldRow[], form: Form, before: Values): Values =>
  Object.fromEntries(rows.map(({ name }) => [name, trimmed(form.get(name) ?? before[name] ?? "")]));

/** Why a value is refused, by the kind of its field. */
const REASONS = { text: "text", date: "date", select: "choice" } as const;

/** What the form changes. What is left alone is not sent: somebody else may change it now. */
function changesIn(rows: readonly FieldRow[], values: Values, before: Values) {
  const changed = rows.filter(({ name }) => values[name] !== before[name]);
  return holding(
    changed.map((row): [FieldRow, AttributeValue | null] => {
      const text = values[row.name] ?? "";
      return [row, text === "" ? null : enteredValue(row, text)];
    }),
  );
}

/** Values that have not changed are accepted, whatever they are. */
function problemsIn(
  rows: readonly FieldRow[],
  values: Values,
  before: Values,
  clock: PersonServices["clock"],
): Problem[] {
  return rows.flatMap((row): Problem[] => {
    const { name, input: { type, reason = REASONS[type] } = { type: "text" } } = row;
    const value = values[name] ?? "";
    const problem =
      value === "" || value === before[name]
        ? undefined
        : enteredProblem(row, enteredValue(row, value), clock);
    if (problem === undefined) return [];
    if (problem === "reserved") return [{ code: problem, fields: [name] }];
    return [{ code: name === "username" ? name : reason, fields: [name] }];
  });
}
