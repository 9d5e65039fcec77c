/**
 * The search for people. What is typed is personal data: it comes in the body of a POST, and stands sealed in the address of the
 * result, which only this operator can open in this sign-in (decisions.md, What the console shows).
 */
import type { Account } from "../../../accounts/operations/accounts.ts";
import type { Page } from "../../../accounts/operations/operation.ts";
import { lowerCase, normalName, readName, trimmed } from "../../../accounts/names.ts";
import { roleOf } from "../../../config/operators.ts";
import { InvalidArgument, NotFound, SignInError, StorageUnavailable } from "../../../core/errors.ts";
import type { Form } from "../../../interactions/forms.ts";
import { AUTHENTICATOR_APP } from "../../../records/factors/factor-kinds.ts";
import { MAX_WRONG_CODES } from "../../../accounts/ways/ways.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import { refusalText } from "../derived/words.ts";
import { memberLabel, shortened } from "../derived/values.ts";
import { nameOf } from "../entries.ts";
import {
  type ConsoleAnswer,
  type ConsolePage,
  type ConsoleRequest,
  fromList,
  segmentOf,
} from "../request.ts";
import { type Cell, member, type Table, text, time } from "../tables.ts";
import { calledOf, type PeopleParts } from "./person.ts";

/** What the term is sealed for. */
const TERM = "search";
/** People on a page, for those whose reading is limited: so that a search costs little. */
const PAGE = { few: 20, many: 50 };
/** What was opened lately, on the page without a search. */
const RECENT = 5;
/** Records of the audit in which that is looked for. */
const LOOKED_AT = 100;
const MAX_TYPED = 300;

const FILTERS = ["state", "service", "portal"] as const;

/** What the states of a person mean to the operation, as the rows say them. */
const STATES: Readonly<Record<string, Readonly<Record<string, boolean>>>> = {
  active: { disabled: false, email_verified: true },
  unconfirmed: { disabled: false, email_verified: false },
  disabled: { disabled: true },
};

/** The form of the frame. */
export const searchPage: ConsolePage = {
  path: "/search",
  role: "viewer",
  get: async () => ({ kind: "go", to: "/people" }),
  async post(request, form: Form) {
    const typed = trimmed(form.get("q") ?? "").slice(0, MAX_TYPED);
    if (typed === "") return { kind: "go", to: "/people" };
    const exact = await named(request, typed);
    if (exact !== undefined) return { kind: "go", to: `/people/${segmentOf(exact.sub)}` };
    return { kind: "go", to: `/people?${new URLSearchParams({ q: request.seal(TERM, typed) })}` };
  },
};

/** The one who is named exactly. What is wrong with the term is said by the page of the result. */
async function named({ perform }: ConsoleRequest, typed: string): Promise<Account | undefined> {
  try {
    const { result } = await perform("accounts", "list", { input: { search: typed, limit: 1 } });
    const [found] = (result as Page<Account>).items;
    return found !== undefined && isNamed(found, typed) ? found : undefined;
  } catch (error) {
    if (error instanceof InvalidArgument || isOfSearch(error)) return undefined;
    throw error;
  }
}

function isNamed({ sub, user_id, email, username }: Account, typed: string): boolean {
  const name = readName(typed);
  if (name === undefined) return false;
  const names = [
    sub,
    String(user_id),
    normalName(email),
    ...(username === null ? [] : [normalName(username)]),
  ];
  return names.includes(name);
}

const isOfSearch = (error: unknown): error is SignInError =>
  error instanceof SignInError &&
  !(error instanceof StorageUnavailable) &&
  ["search_too_wide", "search_incomplete", "search_required"].includes(error.code);

export function createSearchList({ configuration, storage, hourly }: PeopleParts) {
  /** What stops these people, in a word. */
  async function hintsOf(
    { t }: ConsoleRequest,
    found: readonly Account[],
  ): Promise<ReadonlyMap<string, string>> {
    const stopped = await Promise.all(
      found.map(async ({ sub }) => {
        const app = await storage.records.find(AUTHENTICATOR_APP.ref(sub));
        return app !== undefined && app.value.wrong_codes >= MAX_WRONG_CODES;
      }),
    );
    const hint = t("admin.search.stopped");
    return new Map(found.flatMap(({ sub }, i) => (stopped[i] === true ? [[sub, hint] as const] : [])));
  }

  /** People whose pages this operator has opened lately. */
  async function recentTable(request: ConsoleRequest): Promise<Table> {
    const { t, perform, operator } = request;
    const own = operator.account.sub;
    const { result } = await perform("audit", "list", {
      input: { account: own, action: "account.viewed", limit: LOOKED_AT },
    });
    const seen = new Map<string, AuditRecord>();
    for (const record of (result as Page<AuditRecord>).items) {
      const { subject, actor } = record;
      if (actor.id !== own || subject === null || seen.has(subject) || seen.size === RECENT) continue;
      seen.set(subject, record);
    }
    const rows = await Promise.all(
      [...seen].map(async ([sub, { at }]) => {
        const account = await storage.directory.findAccount(sub);
        const cell: Cell = account === undefined ? text(t("admin.search.deleted")) : text(calledOf(account));
        const href = `/people/${segmentOf(sub)}`;
        return {
          cells: [
            { ...cell, ...(account !== undefined && { href }) },
            { value: member(request, "user_id", account?.user_id ?? "") },
            time(request, at, ""),
          ],
        };
      }),
    );
    return {
      caption: t("admin.search.recent"),
      columns: [
        { label: t("admin.member.name"), look: "name" },
        { label: t("admin.member.user_id"), look: "number" },
        { label: t("admin.search.opened") },
      ],
      rows,
      empty: t("admin.search.start"),
    };
  }

  function peopleTable(
    request: ConsoleRequest,
    found: readonly Account[],
    term: string,
    services: ReadonlyMap<string, string>,
    hints: ReadonlyMap<string, string>,
  ): Table {
    const { t, zone } = request;
    const words = wordsOf(term);
    return {
      caption: t("admin.search.title", { term: shortened(term) }),
      columns: [
        { label: t("admin.member.name"), look: "name" },
        { label: t("admin.member.email") },
        { label: t("admin.member.username") },
        { label: t("admin.member.user_id"), look: "number" },
        { label: t("admin.member.disabled"), look: "state" },
        { label: t("admin.member.services") },
        { label: t("admin.zoned", { label: t("admin.member.created_at"), zone }) },
      ],
      rows: found.map((account) => {
        const role = roleOf(configuration, account.sub);
        const hint = hints.get(account.sub);
        return {
          cells: [
            {
              value: { kind: "marked", parts: marked(calledOf(account), words) },
              href: fromList(request, `/people/${segmentOf(account.sub)}`),
              ...(hint !== undefined && { note: hint, isBad: true }),
              ...(role !== undefined && {
                tag: t("admin.search.operator", { role: t(`admin.role.${role}`) }),
              }),
            },
            { value: { kind: "marked", parts: marked(account.email, words) } },
            { value: { kind: "marked", parts: marked(account.username ?? "", words) } },
            { value: member(request, "user_id", account.user_id) },
            { value: stateOf(request, account) },
            text(someOf(Object.keys(account.services).map((key) => services.get(key) ?? key))),
            time(request, account.created_at, ""),
          ],
        };
      }),
      empty: t("admin.search.nobody", { term: shortened(term) }),
    };
  }

  return async (request: ConsoleRequest): Promise<ConsoleAnswer> => {
    const { t, query, open, perform } = request;
    const q = query.get("q") ?? "";
    const term = q === "" ? undefined : open(TERM, q);
    const base = {
      kind: "page",
      view: "console-people",
      tabTitle: nameOf(t, "people"),
      crumbs: [{ label: t("admin.section.people"), href: "/people" }],
    } as const;
    const none = {
      isBusy: false,
      left: undefined,
      all: "",
      q: "",
      filters: [],
      chips: [],
      alsoFound: [],
      problem: "",
      first: "",
      next: "",
    };
    if (term === undefined)
      return {
        ...base,
        heading: nameOf(t, "people"),
        lead: t("admin.search.lead"),
        locals: {
          ...none,
          heading2: t("admin.search.recent"),
          table: await recentTable(request),
          left: await hourly.left(request.operator.who),
        },
      };
    const given = FILTERS.flatMap((name) => {
      const value = query.get(name) ?? "";
      return value === "" ? [] : [[name, value] as const];
    });
    const [services, portals] = await Promise.all([
      entries(request, "services"),
      entries(request, "portals"),
    ]);
    const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
      const kept = new URLSearchParams({ q, ...Object.fromEntries(given), ...changes });
      kept.delete(without);
      return `/people?${kept}`;
    };
    const options = {
      state: Object.keys(STATES).map((value) => ({ value, label: t(`admin.flag.${value}`) })),
      service: optionsOf(services),
      portal: optionsOf(portals),
    };
    const shared = {
      ...none,
      isBusy: true,
      q,
      find: term,
      heading2: "",
      filters: FILTERS.filter((name) => options[name].length > 0).map((name) => ({
        name,
        label: memberLabel(t, name),
        value: query.get(name) ?? "",
        options: options[name],
      })),
      chips: given.map(([name, value]) => ({
        label: memberLabel(t, name),
        value: options[name].find((each) => each.value === value)?.label ?? value,
        href: addressWith({}, name),
      })),
      all: given.length > 1 ? `/people?${new URLSearchParams({ q })}` : "",
    };
    const heading = t("admin.search.title", { term: shortened(term) });
    const after = query.get("after") ?? undefined;
    const { state, ...others } = Object.fromEntries(given);
    const input = {
      search: term,
      ...others,
      ...(state !== undefined && Object.hasOwn(STATES, state) && STATES[state]),
      limit: isLimited(request) ? PAGE.few : PAGE.many,
      ...(after !== undefined && { after }),
    };
    try {
      const { result } = await perform("accounts", "list", { input });
      const { items, next } = result as Page<Account>;
      return {
        ...base,
        heading,
        lead: t("admin.search.lead"),
        locals: {
          ...shared,
          alsoFound: await elsewhere(request, term),
          table: peopleTable(request, items, term, services, await hintsOf(request, items)),
          left: await hourly.left(request.operator.who),
          first: after === undefined ? "" : addressWith({}),
          next: next === null ? "" : addressWith({ after: next }),
        },
      };
    } catch (error) {
      const problem =
        error instanceof InvalidArgument
          ? t("admin.search.short")
          : isOfSearch(error)
            ? refusalText(t, error.code, {})
            : undefined;
      if (problem === undefined) throw error;
      return {
        ...base,
        heading,
        status: 422,
        locals: { ...shared, table: undefined, alsoFound: await elsewhere(request, term), problem },
      };
    }
  };
}

/** Whether the operator may read only so many accounts an hour. */
const isLimited = ({ operator }: ConsoleRequest): boolean => operator.who.role !== "administrator";

function stateOf({ t }: ConsoleRequest, { disabled, email_verified }: Account) {
  if (disabled) return { kind: "badge", text: t("admin.flag.disabled"), tone: "bad" } as const;
  if (!email_verified) return { kind: "badge", text: t("admin.flag.unconfirmed"), tone: "warning" } as const;
  return { kind: "quiet", text: t("admin.flag.active") } as const;
}

/** Three of them, and how many more there are. */
function someOf(names: readonly string[]): string {
  const shown = names.slice(0, 3).join(", ");
  return names.length > 3 ? `${shown}, +${names.length - 3}` : shown;
}

const optionsOf = (names: ReadonlyMap<string, string>) =>
  [...names].map(([value, name]) => ({ value, label: `${name} (${value})` }));

/** The names of the services or the portals, by key. */
async function entries(
  { perform }: ConsoleRequest,
  noun: "services" | "portals",
): Promise<ReadonlyMap<string, string>> {
  const { result } = await perform(noun, "list", { input: { limit: 200 } });
  const { items } = result as Page<{ readonly key: string; readonly name: string }>;
  return new Map(items.map(({ key, name }) => [key, name]));
}

/** What else has exactly this identifier. */
const ELSEWHERE = ["clients", "services", "deliveries"] as const;

async function elsewhere({ t, perform, opens }: ConsoleRequest, term: string) {
  if (!/^[\w.~:-]{1,128}$/u.test(term)) return [];
  const found = await Promise.all(
    ELSEWHERE.filter(opens).map(async (noun) => {
      try {
        const { result } = await perform(noun, "find", { target: [term] });
        return result === undefined ? [] : [noun];
      } catch (error) {
        if (error instanceof NotFound || error instanceof InvalidArgument) return [];
        throw error;
      }
    }),
  );
  return found.flat().map((noun) => ({
    label: t("admin.search.also", { what: t(`admin.one.${noun}`) }),
    name: term,
    href: `/${noun}/${segmentOf(term)}`,
  }));
}

/** Where words begin, as the search has it. */
const WORDS = /[^\s.\-_+@]+/gu;

const wordsOf = (term: string): readonly string[] =>
  lowerCase(term.toWellFormed(), "NFKC")
    .split(/[\s.\-_+@]+/u)
    .filter((word) => word !== "");

/** A text with the beginnings of its words marked that were searched for. */
export function marked(
  whole: string,
  words: readonly string[],
): readonly { readonly text: string; readonly isMatch: boolean }[] {
  const shown = shortened(whole);
  const parts: { text: string; isMatch: boolean }[] = [];
  let at = 0;
  for (const { 0: word, index } of shown.matchAll(WORDS)) {
    const match = words.find((each) => lowerCase(word, "NFKC").startsWith(each));
    if (match === undefined) continue;
    // Lower case may have another length: then the whole word is marked.
    const begin = word.slice(0, match.length);
    const hit = lowerCase(begin, "NFKC") === match ? begin : word;
    if (index > at) parts.push({ text: shown.slice(at, index), isMatch: false });
    parts.push({ text: hit, isMatch: true });
    at = index + hit.length;
  }
  if (at < shown.length) parts.push({ text: shown.slice(at), isMatch: false });
  return parts;
}
