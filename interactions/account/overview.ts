/** The first page: who is signed in, what the account holds now, and the way to all other pages. */
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { Page } from "../page.ts";
import { signOut, type SignOutParts } from "./delete.ts";
import { HOME, personLocals, type PersonLocals, type PersonPage } from "./person-pages.ts";
import { methodsText } from "./sign-in-methods.ts";
import { connectedServices, type ServicesPageParts } from "./services.ts";

/** `account`: a row for each page, with what is set there now. */
interface OverviewLocals extends PersonLocals {
  readonly account: Pick<AccountRecord, "sub" | "email_verified" | "username" | "ways">;
  /** In how many browsers the person is signed in, and whether there are more. */
  readonly browsers: number;
  readonly hasMoreBrowsers?: boolean;
  /** The names of the connected services. */
  readonly services: readonly string[];
  /** Path of the console, for operators. */
  readonly console?: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** How many services the row names. Of more, it gives only the number. */
const MAX_NAMES = 3;

/** The text in the row of a page; `false`: the person should look at it. */
type Value = readonly [text: string, isWell?: false];

export const overviewView: Page<OverviewLocals> = {
  view: "account",
  locals(t, locals) {
    const { account, console: consolePath } = locals;
    const values = valuesOf(t, locals);
    const rows = locals.places.flatMap(({ page, href }): Locals[] => {
      const [value, isWell = true] = values[page] ?? [];
      return value === undefined ? [] : [{ page, href, label: t(`account.${page}`), value, isWell }];
    });
    const console = {
      page: "console",
      href: consolePath,
      label: t("account.console"),
      value: t("account.console.hint"),
      isWell: true,
    };
    return {
      ...personLocals(t, locals, t("account.title")),
      layout: "account home",
      // It is the first page.
      back: "",
      sub: account.sub,
      rows: [
        ...rows.filter(({ page }) => page !== "delete"),
        ...(consolePath === undefined ? [] : [console]),
      ],
      danger: rows.filter(({ page }) => page === "delete"),
    };
  },
};

/** By page. */
function valuesOf(t: Translator, locals: OverviewLocals): Readonly<Record<string, Value | undefined>> {
  const { person, account, browsers, hasMoreBrowsers = false, services, now } = locals;
  const names = [person.name, account.username].filter(Boolean);
  return {
    profile: [names.length === 0 ? t("account.profile.hint") : names.join(" · ")],
    email: account.email_verified ? [person.email] : [t("account.email.unconfirmed", person), false],
    password: [passwordValue(t, account, now)],
    methods: [methodsText(t, account)],
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

export interface OverviewPageParts extends SignOutParts, Pick<ServicesPageParts, "directory"> {
  readonly sessions: Pick<SignInSessions, "list" | "end">;
  readonly clock: Clock;
}

/**
 * Its form signs out.
 * @param console its path below the base URL, and the `sub` of everybody who may use it.
 */
export function overviewPage(
  parts: OverviewPageParts,
  console: { readonly path: string; readonly operators: readonly string[] } | undefined,
): PersonPage {
  const { sessions, directory, clock } = parts;
  return {
    path: HOME,
    place: "home",
    isUnlimited: true,
    async show({ locals, person: { account }, send }) {
      const [found, services] = await Promise.all([
        sessions.list(account),
        connectedServices(account, await directory.listClients(), directory),
      ]);
      send(overviewView, {
        ...locals,
        account,
        browsers: found.sessions.length,
        hasMoreBrowsers: found.next !== undefined,
        services: services.map(({ name }) => name),
        now: clock.now(),
        ...(console?.operators.includes(account.sub) && { console: locals.base + console.path }),
      });
    },
    submit: signOut(parts),
  };
}
