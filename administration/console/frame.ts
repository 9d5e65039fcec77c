/** The frame of the console: what stands around each of its pages. */
import type { Translator } from "../../core/texts.ts";
import type { Page } from "../../interactions/page.ts";
import { fullName } from "../../accounts/names.ts";
import type { OperatorRole } from "../../config/operators.ts";
import { nameOf, sidebar } from "./entries.ts";
import { type ConsoleView, keepingList, listAddress, type Notice, type Operator } from "./request.ts";
import type { Refusal } from "./sign-in.ts";

/** What the frame shows besides the page. */
export interface FrameData {
  /** `undefined`: nobody knows, because the storage does not answer. */
  readonly operator: Operator | undefined;
  /** The token of each form of the frame. */
  readonly tokens: { readonly find: string; readonly signOut: string };
  /** Entries of the sidebar that the operator can open. */
  readonly open: ReadonlySet<string>;
  /** The entry of the page. */
  readonly entry: string | undefined;
  readonly todo: ReadonlyMap<string, number>;
  /** Whether there is a search, and what was typed there. */
  readonly find: string | undefined;
  /** `admin.environment`. */
  readonly environment: string;
  /** The account page of the operator. */
  readonly account: string;
  /** The host of the service. */
  readonly host: string;
  /** Of the package. */
  readonly version: string;
  readonly notice: Notice | undefined;
  readonly now: number;
  readonly zone: string;
  /** Times are exact without a pointer on their row. */
  readonly isExact: boolean;
  /** The query that choosing a time zone repeats. */
  readonly kept: readonly (readonly [string, string])[];
}

/** A page of the console in its frame. */
export interface FramedData {
  readonly frame: FrameData;
  /** Makes the view in the language of the page. */
  readonly view: ConsoleView;
}

/** The page of a view. */
export const framedPage = (view: string): Page<FramedData> => ({
  view,
  locals: (t, { frame, view: shown }) => framed(t, frame, shown),
});

function framed(t: Translator, frame: FrameData, view: ConsoleView) {
  const { operator, open, entry, todo, zone, now, notice } = frame;
  const kept = new URLSearchParams(frame.kept.map((each) => [...each]));
  const way = view.crumbs ?? (entry === undefined || entry === "" ? [] : [here(t, entry)]);
  const crumbs = way.map(({ label, href }) => {
    const [path = ""] = href.split("?");
    const isList = path === `/${entry}` && Object.keys(keepingList(kept)).length > 0;
    return { label, href: isList ? listAddress(kept, path) : href };
  });
  return {
    layout: frame.isExact ? "console exact" : "console",
    heading: view.heading,
    titleText: view.tabTitle ?? view.heading,
    lead: view.lead ?? "",
    badge: view.badge,
    headActions: view.actions ?? [],
    crumbs: crumbs.at(-1)?.label === view.heading ? crumbs.slice(0, -1) : crumbs,
    sections: sidebar(t, open, entry, todo),
    environment: { name: frame.environment, label: t(`admin.environment.${frame.environment}`) },
    find: frame.find,
    tokens: frame.tokens,
    me: operator && meOf(t, operator, zone),
    zone: zoneText(t.locale, now, zone),
    zoneName: zone,
    kept: frame.kept,
    times: {
      href: `?${new URLSearchParams([...kept, ["times", frame.isExact ? "relative" : "exact"]])}`,
      label: t(frame.isExact ? "admin.times.relative" : "admin.times.exact"),
    },
    accountHref: frame.account,
    host: frame.host,
    version: frame.version,
    notice: notice && { text: noticeText(t, notice), isBad: notice.isBad === true },
    ...view.locals,
  };
}

/** Who is signed in, and what they may do. */
function meOf(t: Translator, { account, who: { role }, until }: Operator, zone: string) {
  const name = fullName(account) || account.email;
  return {
    name,
    initials: initialsOf(name),
    role: t(`admin.role.${role}`),
    may: t(`admin.may.${role}`),
    until: t("admin.until", { time: timeText(t.locale, until, zone), minutes: 30 }),
  };
}

const here = (t: Translator, entry: string) => ({ label: nameOf(t, entry), href: `/${entry}` });

function noticeText(t: Translator, { code, values }: Notice): string {
  const key = `admin.notice.${code}`;
  return t(t.has(key) ? key : `console.result.${code}`, values);
}

/** At most two letters. */
function initialsOf(name: string): string {
  const words = name.split(/\s+/).filter((word) => word !== "");
  const chosen = words.length > 1 ? [words[0], words.at(-1)] : words;
  return chosen
    .map((word) => Array.from(word ?? "")[0] ?? "")
    .join("")
    .toUpperCase();
}

/** A time of the day. @param at milliseconds since the epoch. */
export const timeText = (locale: string, at: number, zone: string): string =>
  new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", timeZone: zone }).format(at);

/** Such as "Europe/Warsaw (CET)". */
function zoneText(locale: string, now: number, zone: string): string {
  const parts = new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName: "short" }).formatToParts(now);
  const short = parts.find(({ type }) => type === "timeZoneName")?.value ?? zone;
  return short === zone ? zone : `${zone} (${short})`;
}

/** What a role can do, by its rank. `deliveries` has a page of its own beside them. */
const RANKS: readonly OperatorRole[] = ["deliveries", "viewer", "support", "administrator"];

/** Whether a role is enough for what needs another. */
export const isEnough = (role: OperatorRole, needed: OperatorRole): boolean =>
  RANKS.indexOf(role) >= RANKS.indexOf(needed);

/** Why somebody sees a page of the console without being signed in to it. */
export type Outside = Refusal | "signed-out" | "unavailable";

/** A page for people who are not signed in to the console. */
export const outsidePage: Page<{ readonly why: Outside; readonly account: string }> = {
  view: "console-outside",
  locals: (t, { why, account }) => ({
    heading: t(`admin.outside.${why}.title`),
    layout: "end",
    text: t(`admin.outside.${why}`),
    next:
      why === "no-factor"
        ? { href: account, label: t("admin.account") }
        : { href: "/", label: t(why === "unavailable" ? "admin.again" : "admin.signIn") },
  }),
};
