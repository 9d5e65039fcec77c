/**
 * "Sign-in methods": what the person can sign in with, what is missing for a safe account, and changes to what is
 * there. Adding is in `new-factor.ts`. Viewing needs a session; changing needs a recent sign-in.
 */
import { z } from "zod";
import { factorKey, hasSecondFactor, passkeyName } from "../../accounts/factors/factor.ts";
import {
  type AllowedWays,
  allWays,
  type Factors,
  kindsOf,
  mainWaysFirst,
  type Method,
  methodsOf,
  usesEmailCodes,
  type Way,
  type WayOwner,
  wayOf,
} from "../../accounts/ways/ways.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { type Moments, moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { Reply } from "../reply.ts";
import { NAME_REFUSED } from "../steps/new-factor.ts";
import type { PersonPage, PersonServices, PersonVisit } from "./person-pages.ts";
import {
  identitiesMember,
  identitiesOf,
  linkable,
  type LinkedAccounts,
  linkedLocals,
  LINK_PATH,
} from "./linked-accounts.ts";
import { type PersonLocals, type PersonView, personView } from "./person-view.ts";

export const METHODS_PATH = "/account/sign-in-methods";
/** @param kind of the factor that the page adds. */
export const newFactorPath = (kind: string): string => `${METHODS_PATH}/new-${kind}`;
const CHANGE_PATH = `${METHODS_PATH}/change`;
const CODES_PATH = `${METHODS_PATH}/recovery-codes`;
const PASSWORD_PATH = "/account/password";

/** With this many recovery codes or fewer, the page suggests new ones. */
const FEW_CODES = 3;

/** `account-methods`: everything that the person can sign in with. */
interface MethodsLocals extends PersonLocals {
  readonly account: Pick<AccountRecord, "sub" | "ways">;
  readonly factors: Factors;
  readonly linked: Omit<LinkedAccounts, "account" | "now">;
  /** The hidden field of the form that links an account elsewhere. */
  readonly linkCsrf: string;
  /** The kinds of factors that the person could add here. */
  readonly canAdd: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

const seconds = z.int().describe("Seconds since the epoch.");

export const methodsView: PersonView<MethodsLocals> = personView({
  name: "methods",
  view: "account-methods",
  members: {
    advice: z.string().describe("What is missing for a safe account, or that nothing is. May be empty."),
    safe: z.boolean(),
    methods: z
      .array(
        section({
          kind: z.string().describe("Such as `app` or `passkey`."),
          label: z.string(),
          added_at: seconds,
          last_used_at: seconds.nullable(),
          stopped: z.literal(true).exactOptional().describe("After too many wrong codes."),
          href: z.string().describe("The page on which it is changed or removed."),
        }),
      )
      .readonly(),
    identities: identitiesMember.describe("The accounts at other providers that are linked."),
    recovery_codes_left: z.int(),
    password: section({ set: z.boolean(), changed_at: seconds.exactOptional() }),
  },
  content(t, locals) {
    const { base, account, factors, canAdd, linked, now } = locals;
    const { hash = null, changed_at } = account.ways.password ?? {};
    const methods = methodsOf(factors);
    return {
      title: t("account.methods"),
      links: [
        ...mainWaysFirst().flatMap((way) => (canAddTo(way, locals) ? [additionOf(t, way, base)] : [])),
        ...(methods.length === 0
          ? []
          : [{ name: "recovery-codes", label: t("methods.codes.new"), href: base + CODES_PATH }]),
        ...(linkable(linked).length === 0
          ? []
          : [{ name: "link", label: t("linked.title"), href: base + LINK_PATH }]),
        {
          name: "password",
          label: hash === null ? t("methods.password.new") : t("password.save"),
          href: base + PASSWORD_PATH,
        },
      ],
      members: {
        advice: adviceOf(t, locals),
        safe: missingOf({ factors, canAdd }) === undefined,
        methods: methods.map((method) =>
          Object.assign(
            {
              kind: method.kind,
              label: nameOf(t, method),
              added_at: method.added_at,
              last_used_at: method.last_used_at,
              href: changeUrl(base, method),
            },
            method.state === "stopped" && { stopped: true as const },
          ),
        ),
        identities: identitiesOf(t, base, { ...linked, account, now }),
        recovery_codes_left: factors.recovery_codes_left,
        password: { set: hash !== null, ...(changed_at !== undefined && { changed_at }) },
      },
    };
  },
  locals(t, locals) {
    const { base, account, factors, linked, linkCsrf, now } = locals;
    const { hash = null, changed_at: changedAt } = account.ways.password ?? {};
    const moment = moments({ locale: t.locale, now });
    return {
      advice: adviceOf(t, locals),
      isSafe: missingOf(locals) === undefined,
      sections: mainWaysFirst().flatMap((way) => sectionOf(t, way, locals, moment)),
      linked: linkedLocals(t, base, { ...linked, account, now }, moment),
      linkCsrf,
      codesLeft: factors.recovery_codes_left,
      hasFactor: methodsOf(factors).length > 0,
      codesUrl: base + CODES_PATH,
      password: {
        isSet: hash !== null,
        changed: changedAt === undefined ? "" : moment(changedAt * 1000),
        href: base + PASSWORD_PATH,
      },
    };
  },
});

const changeUrl = (base: string, { id }: Pick<Method, "id">): string =>
  `${base}${CHANGE_PATH}?factor=${factorKey(id)}`;

const nameOf = (t: Translator, method: Pick<Method, "kind" | "name">): string =>
  method.name ?? t(wayOf(method).texts.name);

/** Whether the person can add one of a kind. */
const canAddTo = ({ kind, methods, max }: Way, { factors, canAdd }: MethodsLocals): boolean =>
  canAdd.includes(kind) && (methods?.(factors).length ?? 0) < max;

const additionOf = (t: Translator, { kind }: Way, base: string) => ({
  name: `new-${kind}`,
  label: t(`methods.new.${kind}`),
  href: base + newFactorPath(kind),
});

/** The part of the page about one kind: what there is, and a way to add another one. */
function sectionOf(t: Translator, way: Way, locals: MethodsLocals, moment: Moments): Locals[] {
  const { kind, methods, signsIn, max, texts } = way;
  const { base, factors } = locals;
  const { heading, text, full } = texts;
  if (methods === undefined || heading === undefined) return [];
  const all = methods(factors);
  return [
    {
      id: kind,
      heading: t(heading),
      text: text === undefined ? "" : t(text),
      methods: all.map((method, i) => ({
        id: `${kind}-${i}`,
        name: nameOf(t, method),
        href: changeUrl(base, method),
        times: [
          { label: t("methods.added"), at: moment(method.added_at * 1000) },
          ...(method.last_used_at === null
            ? []
            : [{ label: t("methods.lastUse"), at: moment(method.last_used_at * 1000) }]),
        ],
        isUnused: method.last_used_at === null,
        isStopped: method.state === "stopped",
      })),
      add: canAddTo(way, locals) && additionOf(t, way, base),
      isMain: signsIn && all.length === 0,
      full: all.length >= max && full !== undefined ? t(full, { count: max }) : "",
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
export function methodsText(
  t: Translator,
  account: WayOwner,
  allowed: Pick<AllowedWays, "emailCode">,
): string {
  const kinds = kindsOf(account, allowed);
  const all = mainWaysFirst().flatMap(({ kind, ids, texts }) => {
    const count = kinds.includes(kind) ? ids(account).length : 0;
    return count === 0 ? [] : [t(texts.count, { count })];
  });
  return all.length === 0 ? t("methods.none") : new Intl.ListFormat(t.locale).format(all);
}

/** `account-factor`: a form with the name of a factor, if the person has chosen one, and one that removes it. */
interface FactorLocals extends PersonLocals {
  readonly method: Pick<Method, "kind" | "id" | "name">;
  readonly isLast: boolean;
}

/** A form sends `factor`, and `action`: `rename` with `name`, or `remove`. */
export const factorView: PersonView<FactorLocals> = personView({
  name: "method",
  view: "account-factor",
  takes: { rename: ["factor", "name"], remove: ["factor"] },
  problems: "methods",
  members: {
    kind: z.string().describe("Such as `app` or `passkey`."),
    last: z.boolean().describe("Whether it is the only one of the account."),
  },
  content(t, { method, isLast }) {
    const { name, remove: removal = name, effect } = wayOf(method).texts;
    const hidden = { type: "hidden", autocomplete: "off", required: true, label: "" } as const;
    const rename = { name: "rename", label: t("methods.rename"), look: "second" } as const;
    return {
      title: nameOf(t, method),
      texts: [isLast ? t("methods.remove.last") : effect === undefined ? "" : t(effect), t("methods.effect")],
      fields: [
        { ...hidden, name: "factor", value: factorKey(method.id) },
        ...(method.name === null ? [] : [nameField(t, method.name)]),
      ],
      actions: [
        ...(method.name === null ? [] : [rename]),
        { name: "remove", label: t(removal), look: "danger" },
      ],
      members: { kind: method.kind, last: isLast },
    };
  },
  locals: (t, { base }) => backLocals(t, base),
});

/** The name of a passkey. */
export const nameField = (t: Translator, value: string) =>
  ({
    name: "name",
    type: "text",
    autocomplete: "nickname",
    required: true,
    value,
    label: t("new-passkey.name"),
    hint: t("new-passkey.hint"),
  }) as const;

/** The way back to the list. */
export const backLocals = (t: Translator, base: string): Locals => ({
  back: base + METHODS_PATH,
  backTo: t("account.methods"),
});

/** `account-codes`: shows new recovery codes, or a form to create them. */
interface CodesLocals extends PersonLocals {
  /** In plain text, only in the answer to the form that made them. */
  readonly codes: readonly string[];
  readonly left: number;
}

export const codesView: PersonView<CodesLocals> = personView({
  name: "recovery-codes",
  view: "account-codes",
  takes: { submit: [] },
  members: {
    recovery_codes: z
      .array(z.string())
      .readonly()
      .exactOptional()
      .describe("In the answer that made them, and never again: show them now."),
    recovery_codes_left: z.int(),
  },
  content: (t, { codes, left }) => ({
    title: t("methods.codes"),
    ...(codes.length === 0
      ? {
          texts: [
            `${t("methods.codes.left", { left })} ${t("methods.codes.text")}`,
            `${t("methods.codes.effect")} ${t("methods.effect")}`,
          ],
          actions: [{ name: "submit", label: t("methods.codes.new") }],
        }
      : { texts: [t("new-codes.text")] }),
    members: { ...(codes.length > 0 && { recovery_codes: codes }), recovery_codes_left: left },
  }),
  locals: (t, { base, codes }) => ({ ...backLocals(t, base), codes }),
});

/** What the person wanted to change has changed meanwhile: the list shows what there is now. */
export function backToMethods({ locals: { notice }, done, leave }: PersonVisit): Reply {
  // That a form was lost must not be lost on the way.
  return notice === "unsaved" ? done(METHODS_PATH, notice) : leave(METHODS_PATH);
}

const listPage: PersonPage = {
  path: METHODS_PATH,
  navigation: "methods",
  views: [methodsView],
  async show(visit, services) {
    const { accounts, configuration, identities, people, seals, secondFactors, clock } = services;
    const { account } = visit.person;
    const [factors, linked] = await Promise.all([
      accounts.factors(account.sub),
      account.ways.provider === undefined ? [] : identities.list(account.sub),
    ]);
    if (factors === undefined) return backToMethods(visit);
    const canAdd =
      secondFactors.enrolments === undefined
        ? []
        : allWays().flatMap((way) => (way.isFactor && way.isOn(secondFactors) ? [way.kind] : []));
    return visit.show(methodsView, {
      ...visit.locals,
      account,
      factors,
      linked: {
        identities: linked,
        providers: configuration.providers,
        only: onlyProvider(configuration, account),
        allowed: { emailCode: usesEmailCodes(services, account.sub), providers: configuration.providers },
        canUndo: people.passwordResets !== undefined,
      },
      linkCsrf: seals.token(visit.person, LINK_PATH),
      canAdd,
      now: clock.now(),
    });
  },
};

/** One factor. */
const factorPage: PersonPage = {
  path: CHANGE_PATH,
  needs: "recent sign-in",
  views: [factorView],
  async show(visit, services) {
    const found = await find(visit, services, visit.query.get("factor"));
    if (found === undefined) return backToMethods(visit);
    return visit.show(factorView, { ...visit.locals, ...found });
  },
  async submit(visit, { action, values }, services) {
    const found = await find(visit, services, values.get("factor"));
    if (found === undefined) return backToMethods(visit);
    const { method } = found;
    if (action === "remove") return remove(visit, services, found);
    if (method.name === null) return backToMethods(visit);
    const name = passkeyName(values.get("name") ?? "");
    if (name === undefined) {
      const again = { ...method, name: values.get("name") ?? "" };
      const { problems } = NAME_REFUSED;
      return visit.show(factorView, { ...visit.locals, ...found, method: again, problems });
    }
    const { sub } = visit.person.account;
    if (!(await services.accounts.renamePasskey(sub, method.id, name, visit.caller)))
      return backToMethods(visit);
    return visit.done(METHODS_PATH, "passkeyRenamed");
  },
};

async function find({ person }: PersonVisit, { accounts }: PersonServices, key: string | undefined) {
  const factors = await accounts.factors(person.account.sub);
  if (factors === undefined || key === undefined) return undefined;
  const methods = methodsOf(factors);
  const method = methods.find(({ id }) => factorKey(id) === key);
  return method && { method, isLast: methods.length === 1 };
}

async function remove(
  visit: PersonVisit,
  { accounts, sessions }: PersonServices,
  found: Pick<FactorLocals, "method" | "isLast">,
): Promise<Reply> {
  const { person, caller } = visit;
  const { sub, sessions_generation: generation } = person.account;
  const { kind, id } = found.method;
  const result = await accounts.removeOwnFactor(sub, id, { keepSession: person.session, generation }, caller);
  if (result.kind === "required" || result.kind === "last_sign_in_method")
    return visit.show(factorView, {
      ...visit.locals,
      ...found,
      problems: [{ code: result.kind.replaceAll("_", "-"), fields: [] }],
    });
  if (result.kind !== "changed") return backToMethods(visit);
  await sessions.keep(person.session, result.sessions_generation);
  return visit.done(
    METHODS_PATH,
    kind === "app" ? "appRemoved" : "passkeyRemoved",
    result.sessions_generation,
  );
}

/** The number of recovery codes that are left; its form makes new ones and shows them. */
const codesPage: PersonPage = {
  path: CODES_PATH,
  needs: "recent sign-in",
  views: [codesView],
  async show(visit, { accounts }) {
    const { account } = visit.person;
    if (!hasSecondFactor(account)) return backToMethods(visit);
    const factors = await accounts.factors(account.sub);
    return visit.show(codesView, { ...visit.locals, codes: [], left: factors?.recovery_codes_left ?? 0 });
  },
  async submit(visit, _sent, { accounts, sessions }) {
    const { person, caller } = visit;
    const { sub, sessions_generation: generation } = person.account;
    const change = { keepSession: person.session, generation };
    const result = await accounts.replaceRecoveryCodes(sub, change, caller);
    if (result.kind !== "changed") return backToMethods(visit);
    await sessions.keep(person.session, result.sessions_generation);
    return showCodes(visit, result.recoveryCodes);
  },
};

export const methodsPages: readonly PersonPage[] = [listPage, factorPage, codesPage];

/** Shows new recovery codes, this once. */
export function showCodes({ show, locals }: PersonVisit, codes: readonly string[]): Reply {
  return show(codesView, { ...locals, codes, left: codes.length });
}
