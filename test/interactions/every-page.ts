/** What the tests of the pages begin with. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { consolePages } from "./every-console-page.ts";
import { createPages, type Pages, type PageSettings } from "../../interactions/index.ts";

/** The folder of the pages. */
export const SOURCES: string = join(import.meta.dirname, "../../interactions");
export const LOCALES: readonly string[] = ["en", "pl"];
/** Pages with the defaults and what is given. */
export function pagesWith(settings: Partial<PageSettings> = {}): Pages {
  return createPages({ locales: LOCALES, views: [], copy: {}, theme: {}, ...settings });
}

/** Every page in every state, with the given texts in all places. */
export function allPages(pages: Pages, locale: string, text: string): Record<string, Promise<string>> {
  const form = { locale, client: text, action: text, csrf: text };
  const login = { ...form, username: text };
  return {
    login: pages.login(login),
    "login, empty": pages.login({ ...login, username: "" }),
    "login, wrong": pages.login({ ...login, problem: { kind: "wrong" } }),
    "login, missing": pages.login({
      ...login,
      problem: { kind: "missing", fields: ["username", "password"] },
    }),
    "login, limited": pages.login({ ...login, problem: { kind: "limited", retryAfter: 90 } }),
    "login, own": pages.login({ ...login, own: true }),
    account: pages.account({ locale, account: text, sub: text }),
    "account, operator": pages.account({ locale, account: text, sub: text, deliveries: text, signOut: text }),
    consent: pages.consent({ ...form, account: text, fields: ["email", text] }),
    logout: pages.logout({ locale, action: text, xsrf: text }),
    loggedOut: pages.loggedOut({ locale }),
    ...consolePages(pages, locale, text),
    error: pages.error({ locale, error: text, description: text }),
    "error, known": pages.error({ locale, error: "invalid_client" }),
    "error, limited": pages.error({ locale, error: "rate_limited", retryAfter: 30 }),
    startAgain: pages.startAgain({ locale, action: text }),
    unavailable: pages.unavailable({ locale }),
  };
}

/** The HTML of all of them. */
export async function everyPage(
  pages: Pages,
  locale: string,
  text = "harmless",
): Promise<Map<string, string>> {
  const entries = Object.entries(allPages(pages, locale, text));
  return new Map(await Promise.all(entries.map(async ([name, html]) => [name, await html] as const)));
}

/** The built-in texts of a locale. */
export function localeFile(locale: string): Record<string, string> {
  return JSON.parse(readFileSync(join(SOURCES, "locales", `${locale}.json`), "utf8"));
}
