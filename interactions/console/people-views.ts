/** The data of the console's pages about people, and the texts that their views print. */
import { factorKey } from "../../accounts/factors/factor.ts";
import { fullName, type NamedPerson, shownEmail } from "../../accounts/names.ts";
import { type Factors, hasWay, methodsOf, type OwnedWays, wayOf } from "../../accounts/ways/ways.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { nameOf } from "../account/linked-accounts.ts";
import { type Moment, type Moments, moments } from "../look/moments.ts";
import { inWords, type ShownAttribute } from "../look/person-fields.ts";
import type { ShownProvider } from "../look/providers.ts";
import type { Page } from "../page.ts";
import { consoleLocals, type ConsoleLocals, listAddress } from "./console-views.ts";

/** Stands for all second factors, where otherwise the key of one is. Keys of passkeys are longer. */
export const ALL = "all";

/** Whether there is a factor with this key, or any, if it is {@link ALL}. */
export function hasFactor(factors: Factors, key: string): boolean {
  return methodsOf(factors).some(({ id }) => key === ALL || factorKey(id) === key);
}

/** `people`: the form that finds an account by its exact name. */
export interface PeopleLocals extends ConsoleLocals {
  readonly csrf: string;
  /** The name as typed, if no account has it. */
  readonly unknown?: string;
}

/** The data about an account that the pages show. */
export interface ShownLocals extends ConsoleLocals {
  readonly person: NamedPerson &
    Pick<AccountRecord, "sub" | "email_verified" | "disabled" | "created_at" | "ways">;
  readonly factors: Factors;
}

/** `person`: an account with its attributes and sign-in methods. */
export interface PersonLocals extends ShownLocals {
  readonly attributes: readonly ShownAttribute[];
  /** Oldest first, without the addresses there: those are for their owner alone. */
  readonly identities: NonNullable<OwnedWays["identities"]>;
  /** Those of the configuration. */
  readonly providers: readonly Pick<ShownProvider, "key" | "name">[];
  /** Path of the operator's own sign-in methods. */
  readonly methods: string;
  /** Why nothing can be removed: it is the operator's own account, or that of another one. */
  readonly protectedAs?: "own" | "operator" | undefined;
}

/** `person-remove`: what to check before a factor is removed, what happens then, and the form that does it. */
export interface RemovalLocals extends ShownLocals {
  /** The key of the factor, `app` or {@link ALL}. */
  readonly factor: string;
  /** Hidden field of the form: the account as it is shown. */
  readonly generation: string;
  readonly csrf: string;
  /** Whether the service sends mail about it. */
  readonly isMailed: boolean;
}

export const peoplePage: Page<PeopleLocals> = {
  view: "people",
  locals(t, locals) {
    const { people, csrf, unknown } = locals;
    return {
      ...consoleLocals(t, locals, { heading: t("console.people"), here: "people" }),
      action: people,
      csrf,
      name: unknown ?? "",
      problems: unknown === undefined ? [] : [{ fields: ["name"], text: t("console.people.unknown") }],
    };
  },
};

const addressOf = ({ people, person }: ShownLocals): string => `${people}/${person.sub}`;

/** A second factor in the table. Texts are empty where there is nothing to say. */
interface FactorRow {
  readonly key: string;
  readonly name: string;
  /** What kind of factor it is, if the name does not say so. */
  readonly kind: string;
  readonly note: string;
  readonly problem: string;
  readonly added: Moment;
  readonly lastUse: Moment | undefined;
}

function factorRows(t: Translator, { factors }: ShownLocals, moment: Moments): FactorRow[] {
  return methodsOf(factors).map(({ kind, id, name, added_at, last_used_at, state }) => {
    const ofKind = t(wayOf({ kind }).texts.name);
    const named = name === null ? [] : [ofKind];
    return {
      key: factorKey(id),
      name: name ?? ofKind,
      kind: named.join(""),
      note: [...named, ...(state === "copied" ? [t("console.method.copied")] : [])].join(" · "),
      problem: state === "stopped" ? t("methods.app.stopped") : "",
      added: moment(added_at * 1000),
      lastUse: last_used_at === null ? undefined : moment(last_used_at * 1000),
    };
  });
}

/** The table of linked accounts. */
const identityRows = (t: Translator, { factors, identities, providers }: PersonLocals, moment: Moments) =>
  methodsOf({ ...factors, identities }).flatMap(({ provider, added_at, last_used_at }) =>
    provider === undefined
      ? []
      : [
          {
            name: nameOf(t, providers, provider),
            isOff: providers.every(({ key }) => key !== provider),
            linked: moment(added_at * 1000),
            lastUse: last_used_at === null ? undefined : moment(last_used_at * 1000),
          },
        ],
  );

export const personPage: Page<PersonLocals> = {
  view: "person",
  locals(t, locals) {
    const { list, person, attributes, factors, protectedAs, methods } = locals;
    const { sub, email, username, ways } = person;
    const { hash = null, changed_at: changedAt } = ways.password ?? {};
    const moment = moments({ ...locals, locale: t.locale });
    const rows = factorRows(t, locals, moment);
    const removal = (key: string): string =>
      protectedAs === undefined ? `${addressOf(locals)}?remove=${key}` : "";
    return {
      ...consoleLocals(t, locals, { heading: t("console.person") }),
      lead: fullName(person) || shownEmail(email),
      sub,
      name: fullName(person),
      email: shownEmail(email),
      username: username ?? "",
      attributes: attributes.map((each) => inWords(t, each)),
      isConfirmed: person.email_verified,
      isDisabled: person.disabled === true,
      since: moment(person.created_at * 1000),
      password:
        hash === null
          ? t("account.password.none")
          : changedAt === undefined
            ? t("console.person.password")
            : t("account.password.changed", { when: moment(changedAt * 1000).relative }),
      deliveries: listAddress(list, { sub }),
      factors: rows.map((row) => ({ ...row, href: removal(row.key) })),
      codesLeft: factors.recovery_codes_left,
      identities: identityRows(t, locals, moment),
      removeAll: rows.length > 0 ? removal(ALL) : "",
      protection: protectionText(t, protectedAs),
      methods: protectedAs === "own" ? methods : "",
    };
  },
};

function protectionText(t: Translator, as: PersonLocals["protectedAs"]): string {
  if (as === undefined) return "";
  return as === "own" ? t("console.person.own") : t("console.person.operator");
}

/** The text of {@link ALL}. */
const ALL_TEXTS = { name: "console.remove.all", remove: undefined };

export const removalPage: Page<RemovalLocals> = {
  view: "person-remove",
  locals(t, locals) {
    const { person, factors, factor, generation, csrf } = locals;
    const moment = moments({ ...locals, locale: t.locale });
    const rows = factorRows(t, locals, moment).filter(({ key }) => factor === ALL || key === factor);
    const method = methodsOf(factors).find(({ id }) => factorKey(id) === factor);
    const { name, remove = name } = method === undefined ? ALL_TEXTS : wayOf(method).texts;
    const heading = t(remove);
    return {
      ...consoleLocals(t, locals, { heading }),
      action: addressOf(locals),
      name: fullName(person),
      email: shownEmail(person.email),
      factors: rows,
      effects: effectsOf(t, locals),
      factor,
      generation,
      csrf,
    };
  },
};

/** What happens, in sentences. */
function effectsOf(t: Translator, { person, factors, factor, isMailed }: RemovalLocals): string[] {
  const isLast = factor === ALL || methodsOf(factors).length === 1;
  const isLeft = hasWay(person, ({ kind, signsIn, isFactor }) => signsIn && !isFactor && kind !== "email");
  return [
    ...(isLast ? [] : [t("console.remove.effect.one")]),
    ...(isLast && isLeft ? [t("console.remove.effect.last")] : []),
    ...(isLast && !isLeft ? [t("console.remove.effect.noPassword")] : []),
    t("console.remove.effect.sessions"),
    isMailed ? t("console.remove.effect.mail") : t("console.remove.effect.noMail"),
    t("console.remove.effect.audit"),
  ];
}
