/** Every page and mail with realistic data, for the contact sheet and the browser tests. */
import { builtIn, builtInLocales } from "../../core/texts.ts";
import type { Pages } from "../../interactions/page.ts";
import { createPages, type PageSettings } from "../../interactions/pages.ts";
import { samples } from "../../interactions/samples/samples.ts";
import { mailScreens, type Screen } from "./mails.ts";

/** A made-up language: English words, written from right to left. */
export const RIGHT_TO_LEFT = "qaa";

/** The languages of the contact sheet: the built-in ones and the made-up one. */
export const LANGUAGES: readonly string[] = [...builtInLocales(), RIGHT_TO_LEFT];

type Shown = Partial<Pick<PageSettings, "locales" | "theme">>;

/** A service with a help page, a privacy policy and terms. */
function settings({ locales = LANGUAGES, theme = {} }: Shown): PageSettings {
  return {
    locales,
    views: [],
    copy: locales.includes(RIGHT_TO_LEFT) ? { [RIGHT_TO_LEFT]: { ...builtIn("en"), direction: "rtl" } } : {},
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

/** All pages. */
export function screens(pages: Pages): readonly Screen[] {
  return samples().map(({ name, render }) => ({ name, html: (visit) => render(pages, visit) }));
}
