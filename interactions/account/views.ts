/** What each page of the signed-in person is given, and the texts and times that their views print. */
import type { SignInSession } from "../../provider/sessions/sessions.ts";
import type { Translator } from "../../core/texts.ts";
import { moments, waitText } from "../look/moments.ts";
import { languageName } from "../look/language.ts";
import type { Locals } from "../look/views.ts";
import type { PageLocals } from "../page-locals.ts";
import type { Notice } from "./seals.ts";

/** What every page of the person is given. Paths are as the browser sees them. */
export interface PersonLocals extends PageLocals {
  /** The path of the deployment. */
  readonly base: string;
  /** The path of this page, which its forms are sent to. */
  readonly action: string;
  readonly csrf: string;
  /** What has just been done. */
  readonly notice?: Notice;
}

/** `account`: who is signed in, links to the other pages, and a form that signs out. */
export interface AccountLocals extends PersonLocals {
  readonly email: string;
  /** Given name and family name. */
  readonly fullName: string;
  readonly sub: string;
  /** Whether the address can be changed. */
  readonly canChangeEmail: boolean;
  /** Path of the delivery console, for operators. */
  readonly deliveries?: string;
}

/** The fields of the profile form. */
export const PROFILE_FORM = ["name", "surname", "username", "date_of_birth", "gender", "locale"] as const;

export type ProfileField = (typeof PROFILE_FORM)[number];

/** A field that can't be saved, and why. */
export interface ProfileProblem {
  readonly field: ProfileField;
  readonly reason: "text" | "username" | "reserved" | "taken" | "date" | "choice";
}

/** `account-profile`: a form with the fields of the profile. */
export interface ProfileLocals extends PersonLocals {
  /** What the fields contain. */
  readonly values: Readonly<Record<ProfileField, string>>;
  /** The languages to choose from; none if there is only one. */
  readonly locales: readonly string[];
  readonly problems: readonly ProfileProblem[];
}

/** What is wrong with a new address or a code. */
export type EmailProblem =
  | { readonly reason: "invalid" | "same" | "noCode" | "noTries" | "gone" }
  | { readonly reason: "wrongCode"; readonly triesLeft: number }
  /** Seconds. */
  | { readonly reason: "limited"; readonly retryAfter: number };

/** `account-email`: the address, and forms for a change that waits to be confirmed. */
export interface EmailLocals extends PersonLocals {
  readonly email: string;
  readonly isConfirmed: boolean;
  /** The new address, and whether this browser has followed the link in the mail. */
  readonly pending?: { readonly email: string; readonly hasLink: boolean };
  readonly problem?: EmailProblem;
}

/** `account-new-email`: a form with the new address. */
export interface NewEmailLocals extends PersonLocals {
  /** What the field contains. */
  readonly value: string;
  readonly problem?: EmailProblem;
}

/** `account-password`: a form with the new password. */
export interface PasswordLocals extends PersonLocals {
  /** For password managers. */
  readonly username: string;
  readonly min: number;
  readonly max: number;
  /** The end of a key `problem.password.…`. */
  readonly problem?: string;
}

/** One browser, and whether it is the one that asks. */
export interface ShownSession {
  readonly session: SignInSession;
  readonly isThis: boolean;
}

/** `account-sessions`: the browsers, a form for each other one, and a form for all others. */
export interface SessionsLocals extends PersonLocals {
  readonly sessions: readonly ShownSession[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** A service that the account is connected to. */
export interface ShownService {
  readonly key: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly since: number | undefined;
  /** The names of the fields that it may read. */
  readonly fields: readonly string[];
}

/** `account-services`: the services, and a form for each. */
export interface ServicesLocals extends PersonLocals {
  readonly services: readonly ShownService[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** `account-delete`: a form that deletes the account. */
export interface DeleteLocals extends PersonLocals {
  readonly email: string;
  /** The names of the services and portals that are told. */
  readonly told: readonly string[];
}

/** The pages and what each is given. */
export interface LocalsOfPersonPages {
  readonly account: AccountLocals;
  readonly accountProfile: ProfileLocals;
  readonly accountEmail: EmailLocals;
  readonly accountNewEmail: NewEmailLocals;
  readonly accountPassword: PasswordLocals;
  readonly accountSessions: SessionsLocals;
  readonly accountServices: ServicesLocals;
  readonly accountDelete: DeleteLocals;
}

/** The view of each page, and what it prints. */
export const personViews: {
  readonly [Page in keyof LocalsOfPersonPages]: readonly [
    view: string,
    build: (t: Translator, locals: LocalsOfPersonPages[Page]) => Locals,
  ];
} = {
  account: ["account", overview],
  accountProfile: ["account-profile", profile],
  accountEmail: ["account-email", address],
  accountNewEmail: ["account-new-email", newAddress],
  accountPassword: ["account-password", password],
  accountSessions: ["account-sessions", sessions],
  accountServices: ["account-services", services],
  accountDelete: ["account-delete", deletion],
};

/** A problem of a form, as the summary lists it. */
interface Problem {
  readonly fields: readonly string[];
  readonly text: string;
}

function common(
  t: Translator,
  { base, action, csrf, notice }: PersonLocals,
  heading: string,
  problems: readonly Problem[] = [],
): Locals {
  return {
    heading,
    action,
    csrf,
    problems,
    notice: notice === undefined ? "" : t(`account.notice.${notice}`),
    back: `${base}/account`,
    problemsOf: (field: string) =>
      problems.flatMap(({ fields }, i) => (fields.includes(field) ? [`problem-${i}`] : [])).join(" "),
  };
}

function overview(t: Translator, locals: AccountLocals): Locals {
  const { base, email, fullName, sub, canChangeEmail, deliveries } = locals;
  const way = (page: string): Locals => ({
    href: `${base}/account/${page}`,
    label: t(`account.${page}`),
    hint: t(`account.${page}.hint`),
  });
  const console = { href: deliveries, label: t("account.deliveries"), hint: t("account.deliveries.hint") };
  const ways = [
    way("profile"),
    ...(canChangeEmail ? [way("email")] : []),
    way("password"),
    way("sessions"),
    way("services"),
    ...(deliveries === undefined ? [] : [console]),
    way("delete"),
  ];
  return {
    ...common(t, locals, t("account.title")),
    // It is the first page.
    back: "",
    action: `${base}/account`,
    email,
    fullName,
    sub,
    ways,
  };
}

function profile(t: Translator, locals: ProfileLocals): Locals {
  const { values, locales } = locals;
  const label = (field: ProfileField): string =>
    t(`field.${field === "username" ? "preferred_username" : field}`);
  const problems = locals.problems.map(({ field, reason }) => ({
    fields: [field],
    text: t(`profile.problem.${reason}`, { field: label(field) }),
  }));
  const genders = ["", "female", "male", "other"].map((value) => ({
    value,
    label: t(`profile.gender.${value || "none"}`),
  }));
  const languages = [
    { value: "", label: t("profile.locale.none") },
    ...locales.map((value) => ({ value, label: languageName(value) })),
  ];
  return {
    ...common(t, locals, t("account.profile"), problems),
    values,
    genders: withChoice(genders, values.gender),
    locales: locales.length < 2 ? [] : withChoice(languages, values.locale),
  };
}

/** A value that was set elsewhere stays until the person chooses another one. */
function withChoice(
  choices: readonly { readonly value: string; readonly label: string }[],
  value: string,
): Locals[] {
  const all = choices.some((choice) => choice.value === value)
    ? choices
    : [...choices, { value, label: value }];
  return all.map((choice) => ({
    value: choice.value,
    label: choice.label,
    selected: choice.value === value,
  }));
}

function address(t: Translator, locals: EmailLocals): Locals {
  const { base, email, isConfirmed, pending, problem } = locals;
  return {
    ...common(t, locals, t("account.email"), emailProblems(t, "code", problem)),
    email,
    isConfirmed,
    pending: pending ?? { email: "", hasLink: false },
    change: `${base}/account/email/new`,
  };
}

function newAddress(t: Translator, locals: NewEmailLocals): Locals {
  const problems = emailProblems(t, "email", locals.problem);
  return { ...common(t, locals, t("email.new.title"), problems), value: locals.value };
}

function emailProblems(t: Translator, field: string, problem: EmailProblem | undefined): readonly Problem[] {
  if (problem === undefined) return [];
  const values = {
    wait: problem.reason === "limited" ? waitText(t.locale, problem.retryAfter) : "",
    tries: problem.reason === "wrongCode" ? problem.triesLeft : "",
  };
  const isAboutField = !["gone", "limited", "noTries"].includes(problem.reason);
  return [{ fields: isAboutField ? [field] : [], text: t(`email.problem.${problem.reason}`, values) }];
}

function password(t: Translator, locals: PasswordLocals): Locals {
  const { username, min, max, problem } = locals;
  const problems =
    problem === undefined
      ? []
      : [{ fields: ["password"], text: t(`problem.password.${problem}`, { min, max }) }];
  return { ...common(t, locals, t("account.password"), problems), username, min };
}

function sessions(t: Translator, locals: SessionsLocals): Locals {
  const moment = moments(locals);
  return {
    ...common(t, locals, t("account.sessions")),
    sessions: locals.sessions.map(({ session, isThis }) => ({
      uid: session.uid,
      isThis,
      address: session.address ?? "",
      name: nameOf(t, session),
      firstUse: moment(session.firstUse * 1000),
      lastUse: moment(session.lastUse * 1000),
    })),
    others: locals.sessions.filter(({ isThis }) => !isThis).length,
  };
}

function nameOf(t: Translator, { browser, system }: SignInSession): string {
  const named = browser === undefined || browser === "other" ? t("sessions.otherBrowser") : browser;
  return system === undefined ? named : t("sessions.browserOn", { browser: named, system });
}

function services(t: Translator, locals: ServicesLocals): Locals {
  const moment = moments(locals);
  return {
    ...common(t, locals, t("account.services")),
    services: locals.services.map(({ key, name, since, fields }) => ({
      key,
      name,
      since: since === undefined ? undefined : moment(since),
      fields: fields.map((field) => (t.has(`field.${field}`) ? t(`field.${field}`) : field)),
    })),
  };
}

function deletion(t: Translator, locals: DeleteLocals): Locals {
  const { email, told } = locals;
  return { ...common(t, locals, t("account.delete")), email, told };
}
