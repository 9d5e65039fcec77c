/** The language of a page: what the client asks for, what the person chose, and what the browser prefers. */
import { type CookieRequest, type CookieResponse, readCookie, setCookie } from "../../core/cookies.ts";
import { closestLocale } from "../../core/texts.ts";

/** The parts of a Koa context that choosing a language needs. */
export interface LanguageWishes extends CookieRequest, CookieResponse {
  readonly method: string;
  readonly querystring: string;
  readonly exchange: { readonly deployment: { readonly secure: boolean } };
  acceptsLanguages(available: string[]): string | false;
}

/** Hints about the language besides the browser's headers. */
export interface LanguageHints {
  /** `ui_locales` of the request. */
  readonly uiLocales?: string | undefined;
  /** The language of the account. */
  readonly account?: string | undefined;
}

/** The configured locales; the first is the default. */
type Available = readonly [string, ...string[]];

/** The parameter of the language links. */
export const LANGUAGE_PARAMETER = "lang";
/** All services of a host share it. It holds a language and nothing else. */
const COOKIE = "sign_in_language";
/** A year. */
const LIFETIME_SECONDS = 31_536_000;
/** Longer queries are not repeated in the language links. */
const MAX_QUERY_CHARACTERS = 4_000;

/**
 * `ui_locales` of the request, then the choice in the cookie, then the account's language, then `Accept-Language`, then the
 * first configured locale. A language link on the page sets the cookie. If the client asks for a language and the person
 * then chooses another, the choice wins for as long as clients ask for the same one.
 */
export function chooseLocale(
  available: Available,
  ctx: LanguageWishes,
  { uiLocales, account }: LanguageHints = {},
): string {
  const requested = closestLocale(available, uiLocales?.split(" ") ?? []);
  const clicked = clickedLocale(available, ctx);
  if (clicked !== undefined) {
    keep(ctx, requested === undefined || requested === clicked ? clicked : `${clicked}.${requested}`);
    return clicked;
  }
  const { chosen, insteadOf } = keptChoice(available, ctx);
  if (requested !== undefined && requested !== insteadOf) return requested;
  return (
    chosen ??
    closestLocale(available, account === undefined ? [] : [account]) ??
    (ctx.acceptsLanguages([...available]) || available[0])
  );
}

/**
 * The query that a language link repeats, so that it leads to the same page; `undefined` if a GET of this address would not
 * show the page.
 * @param isRepeatable whether a GET shows the page again. Default: the request is one.
 */
export function repeatableQuery(
  ctx: Pick<LanguageWishes, "method" | "querystring">,
  isRepeatable: boolean = isGet(ctx),
): string | undefined {
  if (!isRepeatable) return undefined;
  const query = isGet(ctx) ? ctx.querystring : "";
  return query.length > MAX_QUERY_CHARACTERS ? undefined : query;
}

/** One entry of the language switch. */
export interface LanguageLink {
  readonly locale: string;
  /** In the language itself. */
  readonly name: string;
  /** Relative to the page's own address. */
  readonly href: string;
  readonly current: boolean;
}

/**
 * The links that show the same page in each language; none if there is only one language.
 * @param names the name of each available language.
 */
export function languageLinks(
  names: ReadonlyMap<string, string>,
  current: string,
  query: string | undefined,
): readonly LanguageLink[] {
  if (query === undefined || names.size < 2) return [];
  return [...names].map(([locale, name]) => {
    const parameters = new URLSearchParams(query);
    parameters.set(LANGUAGE_PARAMETER, locale);
    return { locale, name, href: `?${parameters}`, current: locale === current };
  });
}

/** The name of a language in itself, as a list entry: with a capital letter. */
export function languageName(locale: string): string {
  const name = new Intl.DisplayNames([locale], { type: "language" }).of(locale) ?? locale;
  return name.replace(/^\p{Ll}/u, (first) => first.toLocaleUpperCase(locale));
}

function isGet({ method }: Pick<LanguageWishes, "method">): boolean {
  return method === "GET" || method === "HEAD";
}

/** The language of the link that led here. */
function clickedLocale(available: Available, ctx: LanguageWishes): string | undefined {
  if (!isGet(ctx) || !ctx.querystring.includes(`${LANGUAGE_PARAMETER}=`)) return undefined;
  const tag = new URLSearchParams(ctx.querystring).get(LANGUAGE_PARAMETER);
  return available.find((locale) => locale === tag);
}

/** The choice in the cookie: `pl`, or `pl.en` for Polish although a client asked for English. */
function keptChoice(
  available: Available,
  ctx: LanguageWishes,
): { readonly chosen?: string | undefined; readonly insteadOf?: string | undefined } {
  const [tag, insteadOf] = (readCookie(ctx, COOKIE) ?? "").split(".");
  const chosen = available.find((locale) => locale === tag);
  return chosen === undefined ? {} : { chosen, insteadOf };
}

/** Keeps a choice that was made in a form, or forgets it. */
export function keepLanguage(
  ctx: Pick<LanguageWishes, "exchange" | "append">,
  locale: string | undefined,
): void {
  keep(ctx, locale ?? "");
}

function keep(ctx: Pick<LanguageWishes, "exchange" | "append">, value: string): void {
  const { secure } = ctx.exchange.deployment;
  setCookie(ctx, { name: COOKIE, value, lifetimeSeconds: value === "" ? 0 : LIFETIME_SECONDS, secure });
}
