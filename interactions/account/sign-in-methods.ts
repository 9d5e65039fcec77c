/**
 * "Sign-in methods": what the person can sign in with, what is missing for a safe account, and changes to what is
 * there. Adding is in `new-factor.ts`. Viewing needs a session; changing needs a recent sign-in.
 */
import type { AccountInternals, Accounts } from "../../accounts/account.ts";
import {
  type ChangedFactors,
  factorKey,
  hasSecondFactor,
  passkeyName,
  type UnchangedFactors,
} from "../../accounts/factors/factor.ts";
import type { SecondFactors } from "../../accounts/factors/factors.ts";
import {
  allWays,
  type Factors,
  mainWaysFirst,
  type Method,
  methodsOf,
  type Way,
  type WayOwner,
  wayOf,
} from "../../accounts/ways/ways.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { seeOther } from "../answers.ts";
import type { Form } from "../forms.ts";
import { type Moments, moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { Page } from "../page.ts";
import { personLocals, type PersonLocals, type PersonPage, type PersonVisit } from "./person-pages.ts";
import type { Notice } from "./seals.ts";

export const METHODS_PATH = "/account/sign-in-methods";
/** @param kind of the factor that the page adds. */
export const newFactorPath = (kind: string): string => `${METHODS_PATH}/new-${kind}`;
const CHANGE_PATH = `${METHODS_PATH}/change`;
const CODES_PATH = `${METHODS_PATH}/recovery-codes`;

/** With this many recovery codes or fewer, the page suggests new ones. */
const FEW_CODES = 3;

/** `account-methods`: everything that the person can sign in with. */
interface MethodsLocals extends PersonLocals {
  readonly account: Pick<AccountRecord, "ways">;
  readonly factors: Factors;
  /** The kinds of factors that the person could add here. */
  readonly canAdd: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export const methodsView: Page<MethodsLocals> = {
  view: "account-methods",
  locals(t, locals) {
    const { base, account, factors, now } = locals;
    const { recovery_codes_left: codesLeft } = factors;
    const { hash = null, changed_at: changedAt } = account.ways.password ?? {};
    const moment = moments({ locale: t.locale, now });
    return {
      ...personLocals(t, locals, t("account.methods")),
      advice: adviceOf(t, locals),
      isSafe: missingOf(locals) === undefined,
      sections: mainWaysFirst().flatMap((way) => sectionOf(t, way, locals, moment)),
      codesLeft,
      hasFactor: methodsOf(factors).length > 0,
      codesUrl: base + CODES_PATH,
      password: {
        isSet: hash !== null,
        changed: changedAt === undefined ? "" : moment(changedAt * 1000),
        href: `${base}/account/password`,
      },
    };
  },
};

/** The part of the page about one kind: what there is, and a way to add another one. */
function sectionOf(
  t: Translator,
  { kind, methods, signsIn, max, texts }: Way,
  { base, factors, canAdd }: MethodsLocals,
  moment: Moments,
): Locals[] {
  const { name, heading, text, full } = texts;
  if (methods === undefined || heading === undefined) return [];
  const all = methods(factors);
  const isFull = all.length >= max;
  return [
    {
      id: kind,
      heading: t(heading),
      text: text === undefined ? "" : t(text),
      methods: all.map(({ id, name: chosen, added_at, last_used_at, state }, i) => ({
        id: `${kind}-${i}`,
        name: chosen ?? t(name),
        href: `${base}${CHANGE_PATH}?factor=${factorKey(id)}`,
        times: [
          { label: t("methods.added"), at: moment(added_at * 1000) },
          ...(last_used_at === null
            ? []
            : [{ label: t("methods.lastUse"), at: moment(last_used_at * 1000) }]),
        ],
        isUnused: last_used_at === null,
        isStopped: state === "stopped",
      })),
      add: canAdd.includes(kind) &&
        !isFull && { href: base + newFactorPath(kind), label: t(`methods.new.${kind}`) },
      isMain: signsIn && all.length === 0,
      full: isFull && full !== undefined ? t(full, { count: max }) : "",
    },
  ];
}

/** The most important thing that the account lacks to be safe; `undefined` if nothing. */
function missingOf({ factors, canAdd }: Pick<MethodsLocals, "factors" | "canAdd">): string | undefined {
  const methods = methodsOf(factors);
  const { recovery_codes_left: left } = factors;
  if (methods.some(({ state }) => state === "stopped")) return "stopped";
  if (methods.length === 0) return canAdd.length > 0 ? "factor" : undefined;
  if (left === 0) return "codes";
  if (left <= FEW_CODES) return "fewCodes";
  return methods.length === 1 && canAdd.length > 0 ? "second" : undefined;
}

function adviceOf(t: Translator, locals: MethodsLocals): string {
  const missing = missingOf(locals);
  if (missing !== undefined)
    return t(`methods.missing.${missing}`, { left: locals.factors.recovery_codes_left });
  return methodsOf(locals.factors).length > 0 ? t("methods.safe") : "";
}

/** What an account can sign in with, in words, such as "Password and 1 passkey". */
export function methodsText(t: Translator, account: WayOwner): string {
  const all = mainWaysFirst().flatMap(({ ids, texts }) => {
    const count = ids(account).length;
    return count === 0 ? [] : [t(texts.count, { count })];
  });
  return all.length === 0 ? t("methods.none") : new Intl.ListFormat(t.locale).format(all);
}

/** `account-factor`: a form with the name of a factor, if the person has chosen one, and one that removes it. */
interface FactorLocals extends PersonLocals {
  readonly method: Pick<Method, "kind" | "id" | "name">;
  readonly isLast: boolean;
  readonly problem?: "name" | "required" | "last_sign_in_method";
}

export const factorView: Page<FactorLocals> = {
  view: "account-factor",
  locals(t, locals) {
    const { base, method, isLast, problem } = locals;
    const { name, remove = name, effect } = wayOf(method).texts;
    const problems = {
      none: [],
      name: [{ fields: ["name"], text: t("methods.problem.passkeyName") }],
      required: [{ fields: [], text: t("methods.problem.required") }],
      last_sign_in_method: [{ fields: [], text: t("problem.last-sign-in-method") }],
    }[problem ?? "none"];
    return {
      ...personLocals(t, locals, method.name ?? t(name), problems),
      factor: factorKey(method.id),
      name: method.name ?? "",
      isNamed: method.name !== null,
      remove: t(remove),
      effect: isLast ? t("methods.remove.last") : effect === undefined ? "" : t(effect),
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
  const { enrolments } = secondFactors;
  const canAdd =
    enrolments === undefined
      ? []
      : allWays().flatMap((way) => (way.isFactor && way.isOn(secondFactors) ? [way.kind] : []));
  const list: PersonPage = {
    path: METHODS_PATH,
    place: "methods",
    async show(visit) {
      const { account } = visit.person;
      const factors = await accounts.factors(account.sub);
      if (factors === undefined) return backToMethods(visit);
      visit.send(methodsView, { ...visit.locals, account, factors, canAdd, now: clock.now() });
    },
  };
  return [list, factorPage(parts), codesPage(parts)];
}

/** One factor. A form sends `factor`, and `action`: `rename` with `name`, or `remove`. */
function factorPage({ accounts, sessions }: MethodsPageParts): PersonPage {
  async function find({ person }: PersonVisit, key: string | undefined) {
    const factors = await accounts.factors(person.account.sub);
    if (factors === undefined || key === undefined) return undefined;
    const methods = methodsOf(factors);
    const method = methods.find(({ id }) => factorKey(id) === key);
    return method && { method, isLast: methods.length === 1 };
  }

  async function remove(visit: PersonVisit, found: Pick<FactorLocals, "method" | "isLast">): Promise<void> {
    const { person, caller } = visit;
    const { sub, sessions_generation: generation } = person.account;
    const change = { keepSession: person.session, generation };
    const { kind, id } = found.method;
    const result = await accounts.removeOwnFactor(sub, id, change, caller);
    if (result.kind === "required" || result.kind === "last_sign_in_method")
      return visit.send(factorView, { ...visit.locals, ...found, problem: result.kind }, { status: 400 });
    if (result.kind !== "changed") return backToMethods(visit);
    await sessions.keep(person.session, result.sessions_generation);
    return doneAt(visit, kind === "app" ? "appRemoved" : "passkeyRemoved", result.sessions_generation);
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
      const { method } = found;
      if (form.get("action") === "remove") return remove(visit, found);
      if (method.name === null) return backToMethods(visit);
      const name = passkeyName(form.get("name") ?? "");
      if (name === undefined) {
        const again = { ...method, name: form.get("name") ?? "" };
        return visit.send(
          factorView,
          { ...visit.locals, ...found, method: again, problem: "name" },
          { status: 400 },
        );
      }
      const { sub } = visit.person.account;
      if (!(await accounts.renamePasskey(sub, method.id, name, visit.caller))) return backToMethods(visit);
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
