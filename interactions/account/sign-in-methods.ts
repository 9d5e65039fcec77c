/**
 * "Sign-in methods": what the person can sign in with, what is missing for a safe account, and changes to what is
 * there. Adding is in `new-factor.ts`. Viewing needs a session; changing needs a recent sign-in.
 */
import type { AccountInternals, Accounts } from "../../accounts/account.ts";
import {
  type ChangedFactors,
  factorKey,
  type Factors,
  hasSecondFactor,
  MAX_PASSKEYS,
  passkeyName,
  type UnchangedFactors,
} from "../../accounts/factors/factor.ts";
import type { SecondFactors } from "../../accounts/factors/factors.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import { seeOther } from "../answers.ts";
import type { Form } from "../forms.ts";
import { moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { Page } from "../page.ts";
import { personLocals, type PersonLocals, type PersonPage, type PersonVisit } from "./person-pages.ts";
import type { Notice } from "./seals.ts";

export const METHODS_PATH = "/account/sign-in-methods";
export const NEW_APP_PATH: string = `${METHODS_PATH}/new-app`;
export const NEW_PASSKEY_PATH: string = `${METHODS_PATH}/new-passkey`;
const CHANGE_PATH = `${METHODS_PATH}/change`;
const CODES_PATH = `${METHODS_PATH}/recovery-codes`;

/** With this many recovery codes or fewer, the page suggests new ones. */
const FEW_CODES = 3;

type Passkey = Factors["passkeys"][number];
type Used = Pick<Passkey, "added_at" | "last_used_at">;

/** `account-methods`: everything that the person can sign in with. */
interface MethodsLocals extends PersonLocals {
  readonly factors: Factors;
  readonly password: { readonly isSet: boolean; /** Seconds since the epoch. */ readonly changedAt?: number };
  /** What the person could add here. */
  readonly canAdd: { readonly app: boolean; readonly passkey: boolean };
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export const methodsView: Page<MethodsLocals> = {
  view: "account-methods",
  locals(t, locals) {
    const { base, factors, password, canAdd, now } = locals;
    const { app, passkeys, recovery_codes_left: codesLeft } = factors;
    const moment = moments({ locale: t.locale, now });
    const shown = (id: string, { added_at, last_used_at }: Used): Locals => ({
      href: `${base}${CHANGE_PATH}?factor=${factorKey(id)}`,
      times: [
        { label: t("methods.added"), at: moment(added_at * 1000) },
        ...(last_used_at === null ? [] : [{ label: t("methods.lastUse"), at: moment(last_used_at * 1000) }]),
      ],
      isUnused: last_used_at === null,
    });
    return {
      ...personLocals(t, locals, t("account.methods")),
      advice: adviceOf(t, locals),
      isSafe: missingOf(locals) === undefined,
      passkeys: passkeys.map((passkey, i) => ({
        ...shown(passkey.id, passkey),
        id: `passkey-${i}`,
        name: passkey.name,
        isStopped: false,
      })),
      app: app && {
        ...shown("app", app),
        id: "the-app",
        name: t("methods.app"),
        isStopped: app.stopped,
      },
      codesLeft,
      hasFactor: hasAny(factors),
      codesUrl: base + CODES_PATH,
      password: {
        isSet: password.isSet,
        changed: password.changedAt === undefined ? "" : moment(password.changedAt * 1000),
        href: `${base}/account/password`,
      },
      newPasskey: canAdd.passkey && passkeys.length < MAX_PASSKEYS ? base + NEW_PASSKEY_PATH : "",
      newApp: canAdd.app && app === null ? base + NEW_APP_PATH : "",
      isFull: passkeys.length >= MAX_PASSKEYS ? MAX_PASSKEYS : 0,
    };
  },
};

/** The most important thing that the account lacks to be safe; `undefined` if nothing. */
function missingOf({ factors, canAdd }: Pick<MethodsLocals, "factors" | "canAdd">): string | undefined {
  const { app, passkeys, recovery_codes_left: left } = factors;
  if (app?.stopped) return "stopped";
  if (app === null && passkeys.length === 0) return canAdd.app || canAdd.passkey ? "factor" : undefined;
  if (left === 0) return "codes";
  if (left <= FEW_CODES) return "fewCodes";
  return (app === null ? 0 : 1) + passkeys.length === 1 && (canAdd.app || canAdd.passkey)
    ? "second"
    : undefined;
}

function adviceOf(t: Translator, locals: MethodsLocals): string {
  const missing = missingOf(locals);
  if (missing !== undefined)
    return t(`methods.missing.${missing}`, { left: locals.factors.recovery_codes_left });
  return hasAny(locals.factors) ? t("methods.safe") : "";
}

const hasAny = ({ app, passkeys }: Factors): boolean => app !== null || passkeys.length > 0;

/** What an account can sign in with, in words, such as "Password and 1 passkey". */
export function methodsText(
  t: Translator,
  {
    password_hash,
    factors,
  }: { readonly password_hash: string | null } & Parameters<typeof hasSecondFactor>[0],
): string {
  const passkeys = factors?.passkeys.length ?? 0;
  const all = [
    ...(password_hash === null ? [] : [t("methods.password")]),
    ...(passkeys === 0 ? [] : [t("methods.passkeys.count", { passkeys })]),
    ...(factors?.app ? [t("methods.app.one")] : []),
  ];
  return all.length === 0 ? t("methods.none") : new Intl.ListFormat(t.locale).format(all);
}

/** `account-factor`: a form with the name of a passkey, and one that removes the passkey or the app. */
interface FactorLocals extends PersonLocals {
  /** Left out: the app. */
  readonly passkey?: Pick<Passkey, "id" | "name">;
  readonly isLast: boolean;
  readonly problem?: "name" | "required" | "last_sign_in_method";
}

export const factorView: Page<FactorLocals> = {
  view: "account-factor",
  locals(t, locals) {
    const { base, passkey, isLast, problem } = locals;
    const problems = {
      none: [],
      name: [{ fields: ["name"], text: t("methods.problem.passkeyName") }],
      required: [{ fields: [], text: t("methods.problem.required") }],
      last_sign_in_method: [{ fields: [], text: t("problem.last-sign-in-method") }],
    }[problem ?? "none"];
    return {
      ...personLocals(t, locals, passkey?.name ?? t("methods.app"), problems),
      factor: factorKey(passkey?.id ?? "app"),
      name: passkey?.name ?? "",
      isPasskey: passkey !== undefined,
      isLast,
      back: base + METHODS_PATH,
      backTo: t("account.methods"),
    };
  },
};

/** `account-codes`: shows new recovery codes, or a form to create them. */
interface CodesLocals extends PersonLocals {
  /** In plain text, only in the answer to the form that made them. */
  readonly codes: readonly string[];
  readonly left: number;
}

export const codesView: Page<CodesLocals> = {
  view: "account-codes",
  locals(t, locals) {
    const { base, codes, left } = locals;
    return {
      ...personLocals(t, locals, t("methods.codes")),
      codes,
      left,
      back: base + METHODS_PATH,
      backTo: t("account.methods"),
    };
  },
};

export interface MethodsPageParts {
  readonly accounts: Pick<
    Accounts & AccountInternals,
    "factors" | "removeOwnFactor" | "renamePasskey" | "replaceRecoveryCodes"
  >;
  readonly secondFactors: Pick<SecondFactors, "enrolments" | "passkeys">;
  readonly sessions: Pick<SignInSessions, "keep">;
  readonly clock: Clock;
}

/** Redirects to the list of methods with a notice, sealed for the person as the next request will see them. */
export function doneAt({ done, person }: PersonVisit, notice: Notice, generation?: number): void {
  const { account } = person;
  const now = {
    ...person,
    account: { ...account, sessions_generation: generation ?? account.sessions_generation },
  };
  done(METHODS_PATH, notice, now);
}

/** What the person wanted to change has changed meanwhile: the list shows what there is now. */
export function backToMethods({ ctx, locals: { notice }, done }: PersonVisit): void {
  // That a form was lost must not be lost on the way.
  if (notice === "unsaved") return done(METHODS_PATH, notice);
  return seeOther(ctx, ctx.exchange.deployment.url + METHODS_PATH);
}

export function methodsPages(parts: MethodsPageParts): readonly PersonPage[] {
  const { accounts, secondFactors, clock } = parts;
  const { enrolments, passkeys } = secondFactors;
  const canAdd = {
    app: enrolments !== undefined,
    passkey: enrolments !== undefined && passkeys !== undefined,
  };
  const list: PersonPage = {
    path: METHODS_PATH,
    place: "methods",
    async show(visit) {
      const { account } = visit.person;
      const factors = await accounts.factors(account.sub);
      if (factors === undefined) return backToMethods(visit);
      const { password_hash, password_changed_at: changedAt } = account;
      const password = { isSet: password_hash !== null, ...(changedAt !== undefined && { changedAt }) };
      visit.send(methodsView, { ...visit.locals, factors, password, canAdd, now: clock.now() });
    },
  };
  return [list, factorPage(parts), codesPage(parts)];
}

/** One passkey, or the app. A form sends `factor`, and `action`: `rename` with `name`, or `remove`. */
function factorPage({ accounts, sessions }: MethodsPageParts): PersonPage {
  async function find({ person }: PersonVisit, key: string | undefined) {
    const factors = await accounts.factors(person.account.sub);
    if (factors === undefined || key === undefined) return undefined;
    const isLast = (factors.app === null ? 0 : 1) + factors.passkeys.length === 1;
    if (key === "app") return factors.app === null ? undefined : { isLast };
    const passkey = factors.passkeys.find(({ id }) => factorKey(id) === key);
    return passkey && { passkey, isLast };
  }

  async function remove(
    visit: PersonVisit,
    id: string,
    found: Pick<FactorLocals, "passkey" | "isLast">,
  ): Promise<void> {
    const { person, caller } = visit;
    const { sub, sessions_generation: generation } = person.account;
    const change = { keepSession: person.session, generation };
    const result = await accounts.removeOwnFactor(sub, id, change, caller);
    if (result.kind === "required" || result.kind === "last_sign_in_method")
      return visit.send(factorView, { ...visit.locals, ...found, problem: result.kind }, { status: 400 });
    if (result.kind !== "changed") return backToMethods(visit);
    await sessions.keep(person.session, result.sessions_generation);
    return doneAt(visit, id === "app" ? "appRemoved" : "passkeyRemoved", result.sessions_generation);
  }

  return {
    path: CHANGE_PATH,
    needs: "recent sign-in",
    async show(visit) {
      const found = await find(visit, visit.query.get("factor"));
      if (found === undefined) return backToMethods(visit);
      visit.send(factorView, { ...visit.locals, ...found });
    },
    async submit(visit, form: Form) {
      const found = await find(visit, form.get("factor"));
      if (found === undefined) return backToMethods(visit);
      const { passkey } = found;
      if (form.get("action") === "remove") return remove(visit, passkey?.id ?? "app", found);
      if (passkey === undefined) return backToMethods(visit);
      const name = passkeyName(form.get("name") ?? "");
      if (name === undefined) {
        const again = { ...passkey, name: form.get("name") ?? "" };
        return visit.send(
          factorView,
          { ...visit.locals, ...found, passkey: again, problem: "name" },
          { status: 400 },
        );
      }
      const { sub } = visit.person.account;
      if (!(await accounts.renamePasskey(sub, passkey.id, name, visit.caller))) return backToMethods(visit);
      return doneAt(visit, "passkeyRenamed");
    },
  };
}

/** The number of recovery codes that are left; its form makes new ones and shows them. */
function codesPage({ accounts, sessions }: MethodsPageParts): PersonPage {
  return {
    path: CODES_PATH,
    needs: "recent sign-in",
    async show(visit) {
      const { account } = visit.person;
      if (!hasSecondFactor(account)) return backToMethods(visit);
      const factors = await accounts.factors(account.sub);
      visit.send(codesView, { ...visit.locals, codes: [], left: factors?.recovery_codes_left ?? 0 });
    },
    async submit(visit) {
      const { person, caller } = visit;
      const { sub, sessions_generation: generation } = person.account;
      const change = { keepSession: person.session, generation };
      const result: ChangedFactors | UnchangedFactors = await accounts.replaceRecoveryCodes(
        sub,
        change,
        caller,
      );
      if (result.kind !== "changed") return backToMethods(visit);
      await sessions.keep(person.session, result.sessions_generation);
      showCodes(visit, result.recoveryCodes);
    },
  };
}

/** Shows new recovery codes, this once. */
export function showCodes({ send, locals }: PersonVisit, codes: readonly string[]): void {
  send(codesView, { ...locals, codes, left: codes.length });
}
