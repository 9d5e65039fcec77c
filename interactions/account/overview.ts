/** The first page: who is signed in, what the account holds now, and the way to all other pages. */
import { isOperator } from "../../config/operators.ts";
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { moments } from "../look/moments.ts";
import { signOut } from "./delete.ts";
import type { PersonPage } from "./person-pages.ts";
import { HOME, type PersonLocals, type PersonView, personView } from "./person-view.ts";
import { methodsText } from "./sign-in-methods.ts";
import { connectedServices } from "./services.ts";

/** `account`: a row for each page, with what is set there now. */
interface OverviewLocals extends PersonLocals {
  readonly account: Pick<AccountRecord, "sub" | "email_verified" | "username" | "ways">;
  /** In how many browsers the person is signed in, and whether there are more. */
  readonly browsers: number;
  readonly hasMoreBrowsers?: boolean;
  /** The names of the connected services. */
  readonly services: readonly string[];
  /** Whether codes by mail sign in to the account. Default: no. */
  readonly emailCode?: boolean;
  /** Path of the console, for operators. */
  readonly console?: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** How many services the row names. Of more, it gives only the number. */
const MAX_NAMES = 3;

/** The text in the row of a page; `false`: the person should look at it. */
type Value = readonly [text: string, well?: false];

export const overviewView: PersonView<OverviewLocals> = personView({
  name: "overview",
  view: "account",
  takes: { submit: [] },
  members: {
    sub: z.string(),
    settings: z
      .array(
        section({
          page: z.string(),
          href: z.string(),
          label: z.string(),
          value: z.string().describe("What is set there, in words."),
          well: z.boolean().describe("`false`: the person should look at it."),
        }),
      )
      .readonly(),
  },
  content: (t, locals) => ({
    title: t("account.title"),
    actions: [{ name: "submit", label: t("account.signOut"), look: "second" }],
    members: {
      sub: locals.account.sub,
      settings: rowsOf(t, locals),
    },
  }),
  locals(t, locals) {
    const rows = rowsOf(t, locals);
    return {
      layout: "account home",
      // It is the first page.
      back: "",
      sub: locals.account.sub,
      rows: rows.filter(({ page }) => page !== "delete"),
      danger: rows.filter(({ page }) => page === "delete"),
    };
  },
});

/** A row for each page, and for operators one for the console. */
function rowsOf(t: Translator, locals: OverviewLocals) {
  const { navigation, console: href } = locals;
  const values = valuesOf(t, locals);
  const rows = navigation.flatMap(({ page, href: to }) => {
    const [value, well = true] = values[page] ?? [];
    return value === undefined ? [] : [{ page, href: to, label: t(`account.${page}`), value, well }];
  });
  if (href === undefined) return rows;
  const value = t("account.console.hint");
  return [...rows, { page: "console", href, label: t("account.console"), value, well: true }];
}

/** By page. */
function valuesOf(t: Translator, locals: OverviewLocals): Readonly<Record<string, Value | undefined>> {
  const { person, account, browsers, hasMoreBrowsers = false, services, emailCode = false, now } = locals;
  const names = [person.name, account.username].filter(Boolean);
  return {
    profile: [names.length === 0 ? t("account.profile.hint") : names.join(" · ")],
    email: account.email_verified ? [person.email] : [t("account.email.unconfirmed", person), false],
    password: [passwordValue(t, account, now)],
    methods: [methodsText(t, account, { emailCode })],
    sessions: [browsersText(t, browsers, hasMoreBrowsers)],
    services: [servicesValue(t, services)],
    delete: [t("account.delete.hint")],
  };
}

function browsersText(t: Translator, browsers: number, hasMore: boolean): string {
  if (hasMore) return t("account.sessions.many", { browsers });
  return browsers > 1 ? t("account.sessions.count", { browsers }) : t("account.sessions.one");
}

function passwordValue(t: Translator, { ways }: OverviewLocals["account"], now: number): string {
  const { hash = null, changed_at: at } = ways.password ?? {};
  if (hash === null) return t("account.password.none");
  if (at === undefined) return t("account.password.hint");
  const { relative: when } = moments({ locale: t.locale, now })(at * 1000);
  return t("account.password.changed", { when });
}

function servicesValue(t: Translator, names: readonly string[]): string {
  if (names.length === 0) return t("services.none");
  const shown = names.length > MAX_NAMES ? names.slice(0, MAX_NAMES - 1) : names;
  const more = names.length - shown.length;
  const list = more === 0 ? shown : [...shown, t("account.services.more", { more })];
  return new Intl.ListFormat(t.locale).format(list);
}

/** Its form signs out. */
export const overviewPage: PersonPage = {
  path: HOME,
  navigation: "home",
  isUnlimited: true,
  views: [overviewView],
  async show(
    { locals, person: { account }, show },
    { sessions, storage: { directory }, clock, console, configuration, people },
  ) {
    const [found, services] = await Promise.all([
      sessions.list(account),
      connectedServices(account, await directory.listClients(), directory),
    ]);
    return show(overviewView, {
      ...locals,
      account,
      browsers: found.sessions.length,
      hasMoreBrowsers: found.next !== undefined,
      services: services.map(({ name }) => name),
      emailCode: people.signInCodes?.isFor(account) ?? false,
      now: clock.now(),
      ...(console !== undefined &&
        isOperator(configuration, account.sub) && { console: locals.base + console }),
    });
  },
  submit: signOut,
};
