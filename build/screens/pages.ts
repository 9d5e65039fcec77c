/** Every page and mail with realistic data, for the contact sheet and the browser tests. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { builtInLocales } from "../../core/texts.ts";
import {
  errorPage,
  loggedOutPage,
  logoutPage,
  startAgainPage,
  unavailablePage,
} from "../../interactions/answers.ts";
import type { Pages, Visit } from "../../interactions/page.ts";
import { createPages, type PageSettings } from "../../interactions/pages.ts";
import { accountScreens } from "./account.ts";
import { consoleScreens } from "./console.ts";
import { mailScreens } from "./mails.ts";
import { ACCOUNT_URL, type Screen } from "./screen.ts";
import { signInScreens } from "./sign-in.ts";

/** A made-up language: English words, written from right to left. */
export const RIGHT_TO_LEFT = "qaa";

/** The languages of the contact sheet: the built-in ones and the made-up one. */
export const LANGUAGES: readonly string[] = [...builtInLocales(), RIGHT_TO_LEFT];

const ENGLISH = join(import.meta.dirname, "../../core/locales/en.json");

type Shown = Partial<Pick<PageSettings, "locales" | "theme">>;

/** A service with a help page, a privacy policy and terms. */
function settings({ locales = LANGUAGES, theme = {} }: Shown): PageSettings {
  const english: Record<string, string> = JSON.parse(readFileSync(ENGLISH, "utf8"));
  return {
    locales,
    views: [],
    copy: locales.includes(RIGHT_TO_LEFT) ? { [RIGHT_TO_LEFT]: { ...english, direction: "rtl" } } : {},
    theme,
    links: {
      help: "https://example.org/{locale}/help",
      privacy: "https://example.org/{locale}/privacy",
      terms: "https://example.org/{locale}/terms",
    },
  };
}

/** The pages of this service. */
export function screenPages(shown: Shown = {}): Pages {
  return createPages(settings(shown));
}

/** All mails of this service. */
export function screenMails(shown: Shown = {}): readonly Screen[] {
  return mailScreens(settings(shown));
}

const ENDED = { accountUrl: ACCOUNT_URL, host: "login.example" };

/** All pages. */
export function screens(pages: Pages): readonly Screen[] {
  return [
    ...signInScreens(pages),
    ...accountScreens(pages),
    { name: "logout", html: (visit) => pages.render(logoutPage, visit, { action: "/x", xsrf: "x" }) },
    {
      name: "logged-out",
      html: (visit) => pages.render(loggedOutPage, visit, { accountUrl: ACCOUNT_URL, after: "signed out" }),
    },
    {
      name: "start-again",
      html: (visit) => pages.render(startAgainPage, visit, { ...ENDED, action: "/i" }),
    },
    ...(["expired", "complete", "elsewhere", "no-cookies"] as const).map((reason) => ({
      name: `start-again-${reason}`,
      html: (visit: Visit) =>
        pages.render(startAgainPage, visit, {
          ...ENDED,
          reason,
          path: "/i",
          again: "sealed",
          client: { name: "News", client_uri: "https://news.example.org" },
          ...(reason === "expired" && { typed: "name" }),
        }),
    })),
    {
      name: "error",
      html: (visit) =>
        pages.render(errorPage, visit, {
          accountUrl: ACCOUNT_URL,
          error: "invalid_redirect_uri",
          description: "redirect_uri did not match any of the client's registered redirect_uris",
        }),
    },
    {
      name: "unavailable",
      html: (visit) => pages.render(unavailablePage, visit, { accountUrl: ACCOUNT_URL }),
    },
    ...consoleScreens(pages),
  ];
}
