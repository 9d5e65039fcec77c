/** The profile: the fields of a person that people change themselves, in one form. */
import { byCaller } from "../../accounts/arguments.ts";
import { chosenUsernameProblem, trimmed } from "../../accounts/names.ts";
import {
  enteredProblem,
  inLines,
  OWN_FIELDS,
  type OwnField,
  PERSON_FIELDS,
  shownName,
} from "../../accounts/profile-fields.ts";
import type { InteractionSettings } from "../../config/pages.ts";
import { NameTaken } from "../../core/errors.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { keepLanguage } from "../look/language.ts";
import type { Form } from "../forms.ts";
import { languageName } from "../look/language.ts";
import type { Reply } from "../reply.ts";
import type { PersonPage, PersonServices, PersonVisit } from "./person-pages.ts";
import { type PageField, type PersonLocals, type PersonView, personView } from "./person-view.ts";
import type { AccountChanges } from "../../accounts/account-schema.ts";

const PATH = "/account/profile";

/** A field that can't be saved, and why. */
interface ProfileProblem {
  readonly field: OwnField;
  readonly reason: "text" | "username" | "reserved" | "taken" | "date" | "choice";
}

/** `account-profile`: a form with the fields of the profile. */
interface ProfileLocals extends PersonLocals {
  /** What the fields contain. */
  readonly values: Readonly<Record<OwnField, string>>;
  /** The languages to choose from; none if there is only one. */
  readonly locales: readonly string[];
  readonly problems: readonly ProfileProblem[];
}

export const profileView: PersonView<ProfileLocals> = personView({
  name: "profile",
  view: "account-profile",
  takes: { submit: OWN_FIELDS },
  content: (t, data) => ({
    title: t("account.profile"),
    texts: [t("profile.told")],
    fields: profileFields(t, data),
    problems: data.problems.map(({ field, reason }) => ({
      code: reason,
      fields: [field],
      label: labelOf(t, field),
      text: t(`profile.problem.${reason}`, { field: labelOf(t, field) }),
    })),
    actions: [{ name: "submit", label: t("profile.save") }],
  }),
  locals: (t, data) => ({ lines: inLines(profileFields(t, data)) }),
});

const labelOf = (t: Translator, field: OwnField): string => t(`field.${shownName(field)}`);

function profileFields(t: Translator, { values, locales }: ProfileLocals): PageField[] {
  const optionsOf = (field: OwnField) => {
    const choices =
      field === "locale"
        ? locales.map((value) => ({ value, label: languageName(value) }))
        : (PERSON_FIELDS[field].input?.options ?? []).map((value) => ({
            value,
            label: t(`profile.${field}.${value}`),
          }));
    return withChoice([{ value: "", label: t(`profile.${field}.none`) }, ...choices], values[field]);
  };
  return OWN_FIELDS.filter((field) => field !== "locale" || locales.length > 1).map((field) => {
    const { type = "text", autocomplete = "" } = PERSON_FIELDS[field].input ?? {};
    const common = { name: field, label: labelOf(t, field), type, value: values[field], autocomplete };
    return Object.assign(
      common,
      { required: false },
      field === "username" && { hint: t("profile.username.hint") },
      type === "select" && { options: optionsOf(field) },
    );
  });
}

/** A value that was set elsewhere stays until the person chooses another one. */
function withChoice(
  choices: NonNullable<PageField["options"]>,
  value: string,
): NonNullable<PageField["options"]> {
  const isOffered = choices.some((choice) => choice.value === value);
  return isOffered ? choices : [...choices, { value, label: value }];
}

type Values = Readonly<Record<OwnField, string>>;

export const profilePage: PersonPage = {
  path: PATH,
  place: "profile",
  views: [profileView],
  show: (visit, { configuration }) =>
    shown(visit, configuration.interactions.locales, valuesOf(visit.person.account)),
  async submit(visit, { values: sent }, { accounts, limits, configuration, clock }) {
    const { locales, reservedUsernames } = configuration.interactions;
    const { account } = visit.person;
    const before = valuesOf(account);
    const values = typed(sent, before);
    const problems = problemsIn(values, before, { locales, reservedUsernames, clock });
    if (problems.length > 0) return shown(visit, locales, values, problems);
    // The point is taken before the answer is known: neither a refusal nor its absence may reveal whether a username
    // is taken.
    const isRenamed = values.username !== "" && values.username !== before.username;
    const attempt = isRenamed ? await limits.usernameTaken(account.sub) : undefined;
    if (attempt?.allowed === false) return visit.limited(attempt.retryAfter);
    let isTaken = false;
    try {
      await accounts.update(account.sub, changesOf(values), byCaller(visit.caller));
    } catch (error) {
      isTaken = error instanceof NameTaken;
      if (!isTaken) throw error;
      return shown(visit, locales, values, [{ field: "username", reason: "taken" }]);
    } finally {
      if (!isTaken) await attempt?.withdraw();
    }
    // The language in the cookie wins over that of the account, so it changes too.
    if (values.locale !== before.locale) keepLanguage(visit.ctx, values.locale || undefined);
    return visit.done(PATH, "profile");
  },
};

function shown(
  { locals, show }: PersonVisit,
  locales: readonly string[],
  values: Values,
  problems: readonly ProfileProblem[] = [],
): Reply {
  const status = problems.length === 0 ? 200 : 400;
  return show(profileView, { ...locals, values, locales, problems }, { status });
}

function valuesOf(account: AccountRecord): Values {
  const entries = OWN_FIELDS.map((field) => [field, account[field] ?? ""] as const);
  return Object.fromEntries(entries) as Values;
}

/** What the form contains. A field that it does not have stays as it is. */
function typed(form: Form, before: Values): Values {
  const entries = OWN_FIELDS.map((field) => [field, trimmed(form.get(field) ?? before[field])] as const);
  return Object.fromEntries(entries) as Values;
}

function changesOf(values: Values): AccountChanges {
  return Object.fromEntries(OWN_FIELDS.map((field) => [field, values[field] || null] as const));
}

/** Why a value is refused, by the kind of its field. */
const REASONS = { text: "text", date: "date", select: "choice" } as const;

/** Values that have not changed are accepted, whatever they are. */
function problemsIn(
  values: Values,
  before: Values,
  {
    locales,
    clock,
    reservedUsernames,
  }: Pick<InteractionSettings, "locales" | "reservedUsernames"> & Pick<PersonServices, "clock">,
): ProfileProblem[] {
  function reasonOf(field: OwnField, value: string): ProfileProblem["reason"] | undefined {
    if (field === "locale") return locales.includes(value) ? undefined : "choice";
    if (field === "username") {
      const problem = chosenUsernameProblem(value, reservedUsernames);
      return problem === "invalid" ? "username" : problem;
    }
    const isFine = enteredProblem(field, value, clock) === undefined;
    return isFine ? undefined : REASONS[PERSON_FIELDS[field].input?.type ?? "text"];
  }
  return OWN_FIELDS.flatMap((field) => {
    const value = values[field];
    if (value === "" || value === before[field]) return [];
    const reason = reasonOf(field, value);
    return reason === undefined ? [] : [{ field, reason }];
  });
}
