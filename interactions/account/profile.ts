/** The profile: names, date of birth, gender and language, in one form. */
import { seconds, type Clock } from "../../core/clock.ts";
import type { AccountChanges, Accounts } from "../../accounts/account.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { chosenUsernameProblem } from "../../accounts/chosen-usernames.ts";
import { dateProblem, textProblem } from "../../accounts/text-rules.ts";
import { NameTaken } from "../../core/errors.ts";
import type { AttemptLimits } from "../../accounts/limits/attempt-limits.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { keepLanguage } from "../look/language.ts";
import type { Form } from "../forms.ts";
import type { Pages } from "../pages.ts";
import type { PersonPage, PersonVisit } from "./person-pages.ts";
import { PROFILE_FORM, type ProfileField, type ProfileProblem } from "./views.ts";

const PATH = "/account/profile";
const GENDERS: ReadonlySet<string> = new Set(["female", "male", "other"]);
const EARLIEST = "1800-01-01";

type Values = Readonly<Record<ProfileField, string>>;

export interface ProfilePageParts {
  readonly pages: Pick<Pages, "accountProfile">;
  readonly accounts: Pick<Accounts, "update">;
  readonly limits: Pick<AttemptLimits, "usernameTaken">;
  readonly clock: Clock;
  /** The configured locales. */
  readonly locales: readonly string[];
  readonly reservedUsernames: readonly string[];
}

export function profilePage({
  pages,
  accounts,
  limits,
  clock,
  locales,
  reservedUsernames,
}: ProfilePageParts): PersonPage {
  function shown(
    { locals, send }: PersonVisit,
    values: Values,
    problems: readonly ProfileProblem[] = [],
  ): Promise<void> {
    const html = pages.accountProfile({ ...locals, values, locales, problems });
    return send(html, problems.length === 0 ? 200 : 400);
  }

  return {
    path: PATH,
    show: (visit) => shown(visit, valuesOf(visit.person.account)),
    async submit(visit, form) {
      const { account } = visit.person;
      const before = valuesOf(account);
      const values = typed(form, before);
      const today = new Date(seconds(clock) * 1000).toISOString().slice(0, 10);
      const problems = problemsIn(values, before, { locales, today, reservedUsernames });
      if (problems.length > 0) return shown(visit, values, problems);
      // Taken before it is known: to be refused must not tell that a username is taken, and not to be, that it is free.
      const isRenamed = values.username !== "" && values.username !== before.username;
      const attempt = isRenamed ? await limits.usernameTaken(account.sub) : undefined;
      if (attempt?.allowed === false) return visit.limited(attempt.retryAfter);
      let isTaken = false;
      try {
        await accounts.update(account.sub, changesOf(values), byCaller(visit.caller));
      } catch (error) {
        isTaken = error instanceof NameTaken;
        if (!isTaken) throw error;
        return shown(visit, values, [{ field: "username", reason: "taken" }]);
      } finally {
        if (!isTaken) await attempt?.withdraw();
      }
      // The language in the cookie wins over that of the account, so it changes too.
      if (values.locale !== before.locale) keepLanguage(visit.ctx, values.locale || undefined);
      return visit.done(PATH, "profile");
    },
  };
}

function valuesOf(account: AccountRecord): Values {
  const entries = PROFILE_FORM.map((field) => [field, account[field] ?? ""] as const);
  return Object.fromEntries(entries) as Values;
}

/** What the form contains. A field that it does not have stays as it is. */
function typed(form: Form, before: Values): Values {
  const entries = PROFILE_FORM.map((field) => [field, form.get(field)?.trim() ?? before[field]] as const);
  return Object.fromEntries(entries) as Values;
}

function changesOf(values: Values): AccountChanges {
  return Object.fromEntries(PROFILE_FORM.map((field) => [field, values[field] || null] as const));
}

const textReason = (value: string) => (textProblem(value) === undefined ? undefined : "text");

/** Values that have not changed are accepted, whatever they are. */
function problemsIn(
  values: Values,
  before: Values,
  {
    locales,
    today,
    reservedUsernames,
  }: Pick<ProfilePageParts, "locales" | "reservedUsernames"> & { readonly today: string },
): ProfileProblem[] {
  const isDate = (date: string): boolean =>
    dateProblem(date) === undefined && date >= EARLIEST && date <= today;
  const rules: Readonly<Record<ProfileField, (value: string) => ProfileProblem["reason"] | undefined>> = {
    name: textReason,
    surname: textReason,
    username(value) {
      const problem = chosenUsernameProblem(value, reservedUsernames);
      return problem === "invalid" ? "username" : problem;
    },
    date_of_birth: (value) => (isDate(value) ? undefined : "date"),
    gender: (value) => (GENDERS.has(value) ? undefined : "choice"),
    locale: (value) => (locales.includes(value) ? undefined : "choice"),
  };
  return PROFILE_FORM.flatMap((field) => {
    const value = values[field];
    if (value === "" || value === before[field]) return [];
    const reason = rules[field](value);
    return reason === undefined ? [] : [{ field, reason }];
  });
}
