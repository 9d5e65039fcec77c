/** The pages that people see: views, texts and theme combined. */
import { hash } from "node:crypto";
import ejs from "ejs";
import { attributeTexts } from "../accounts/field-texts.ts";
import type { AccountSettings } from "../config/attributes.ts";
import { isHelpLink, isPageLink } from "../config/value-forms.ts";
import { ConfigurationError } from "../core/errors.ts";
import { securityHeaders } from "../core/security-headers.ts";
import { readTexts, type Translator } from "../core/texts.ts";
import { createAnswers } from "./answers.ts";
import { chooseLocale, languageLinks, languageName, repeatableQuery } from "./look/language.ts";
import { firstLetter, letterIcon } from "../core/pictures.ts";
import { readTheme, type Theme } from "./look/theme.ts";
import { type Locals, readViews, renderProblem } from "./look/views.ts";
import type { Page, Pages, SendOptions, Visit, VisitHints } from "./page.ts";
import { samples } from "./samples/samples.ts";
import type { InteractionSettings } from "../config/pages.ts";

/** Where the script is, below each base URL. */
const SCRIPT_PATH = "/pages.js";

/** Settings of the pages; see `interactions` in the configuration. */
export type PageSettings = Pick<InteractionSettings, "locales" | "views" | "copy" | "theme"> &
  Partial<Pick<InteractionSettings, "links">> & {
    /** Of the configuration: what the pages call its attributes. Default: none. */
    readonly accounts?: AccountSettings;
  };

/**
 * Reads and compiles everything once; rendering a page reads nothing from disk. If a team has views of its own, every
 * page is rendered with sample data first.
 * @throws ConfigurationError naming every missing text, wrong theme value, missing folder, and view that is misnamed, does
 * not compile or does not render.
 */
export function createPages(settings: PageSettings): Pages {
  const [first, ...others] = settings.locales;
  if (first === undefined) throw new ConfigurationError(["config.interactions.locales: must not be empty"]);
  const texts = readTexts(settings.locales, settings.copy, attributeTexts(settings.accounts));
  const theme = readTheme(settings.theme);
  const views = readViews(settings.views, theme.css);
  const links = settings.links ?? {};
  const problems = [...texts.problems, ...theme.problems, ...linkProblems(links), ...views.problems];
  if (problems.length > 0) throw new ConfigurationError(problems);

  const names = new Map(settings.locales.map((locale) => [locale, languageName(locale)]));
  const frames = new Map(
    [...texts.translators].map(([locale, translator]) => {
      const t = withName(translator, theme.name);
      return [locale, { t, locals: frame(t, locale, { theme, links }) }];
    }),
  );
  const frameOf = (locale: string): { readonly t: Translator; readonly locals: Locals } => {
    const found = frames.get(locale);
    if (found !== undefined) return found;
    throw new TypeError(`locale: ${locale} is not one of ${settings.locales.join(", ")}`);
  };
  const scriptFile = { text: views.script, digest: hash("sha256", views.script, "hex").slice(0, 16) };

  function rendered<Data>(
    page: Page<Data>,
    { locale, here, script = "" }: Visit,
    data: NoInfer<Data>,
  ): { readonly html: string; readonly layout: string } {
    const { t, locals } = frameOf(locale);
    const languages = languageLinks(names, locale, here);
    const all: Locals = { ...locals, script, languages, ...page.locals(t, data) };
    return { html: views.render(page.view, all), layout: String(all["layout"]) };
  }

  const renderer: Pick<Pages, "visit" | "render" | "send"> = {
    visit(ctx, { isRepeatable, ...hints }: VisitHints = {}) {
      const locale = chooseLocale([first, ...others], ctx, hints);
      const here = others.length === 0 ? undefined : repeatableQuery(ctx, isRepeatable);
      return { locale, ...(here !== undefined && { here }) };
    },
    render: (page, visit, data) => rendered(page, visit, data).html,
    send(ctx, page, data, { status = 200, retryAfter, script, visit, ...hints }: SendOptions = {}) {
      const { secure, url } = ctx.exchange.deployment;
      const address = url + SCRIPT_PATH;
      const seen = visit ?? renderer.visit(ctx, hints);
      const { html, layout } = rendered(
        page,
        { ...seen, script: `${new URL(address).pathname}?${scriptFile.digest}` },
        data,
      );
      ctx.status = status;
      ctx.type = "text/html; charset=utf-8";
      ctx.body = script === undefined ? html : html.replace("</body>", `<script>${script}</script></body>`);
      const hashes = script === undefined ? [] : [`'sha256-${hash("sha256", script, "base64")}'`];
      securityHeaders(ctx, { styleHash: views.styleHash(layout), secure, scripts: [address, ...hashes] });
      if (retryAfter !== undefined) ctx.set("Retry-After", String(Math.max(1, Math.ceil(retryAfter))));
    },
  };
  const pages: Pages = {
    ...renderer,
    ...createAnswers(renderer),
    styleHash: (layout = "") => views.styleHash(layout),
    security(ctx) {
      const { secure } = ctx.exchange.deployment;
      securityHeaders(ctx, { styleHash: views.styleHash(""), secure, libraryScript: true });
    },
    script: scriptFile,
    translator: (locale) => frameOf(locale).t,
  };
  // The tests of this package render the built-in views in every state.
  const tested = settings.views.length === 0 ? [] : settings.locales;
  const broken = tested.flatMap((locale) => brokenPages(pages, locale));
  if (broken.length > 0) throw new ConfigurationError([...new Set(broken)]);
  return pages;
}

/** Addresses that a page must not link to, such as `javascript:`. */
function linkProblems(links: InteractionSettings["links"]): readonly string[] {
  return Object.entries(links).flatMap(([name, address]) => {
    const isLink = name === "help" ? isHelpLink : isPageLink;
    return isLink(address) ? [] : [`config.interactions.links.${name}: must be an https address`];
  });
}

/** The name in the theme stands in for the text. */
function withName(t: Translator, name: string | undefined): Translator {
  if (name === undefined) return t;
  const named = (...[key, values]: Parameters<Translator>): string =>
    key === "service.name" ? name : t(key, values);
  return Object.assign(named, { has: (key: string) => t.has(key), locale: t.locale });
}

/** The frame that every page of a language has around its content. */
function frame(
  t: Translator,
  locale: string,
  { theme, links }: { readonly theme: Theme; readonly links: InteractionSettings["links"] },
): Locals {
  const service = t("service.name");
  const letter = firstLetter(service, locale);
  return {
    t,
    locale,
    service,
    letter,
    logo: theme.logo ?? "",
    logoDark: theme.logoDark ?? "",
    favicon: theme.favicon ?? letterIcon(letter, theme.icon),
    links: Object.entries(links).map(([name, address]) => ({
      label: t(`link.${name}`),
      href: address.replaceAll("{locale}", locale),
    })),
    problems: [],
    back: "",
    marked: "",
    pageIcon: "",
    client: "",
    clientLogo: "",
    lead: "",
    themeColors: theme.colors,
    layout: "",
    navigation: [],
  };
}

/** The problems of the views; a partial may break many pages. */
function brokenPages(pages: Pages, locale: string): readonly string[] {
  const checking: Pick<Pages, "render"> = {
    render(page, visit, data) {
      const html = pages.render(page, visit, data);
      const { problems = [] } = page.locals(pages.translator(visit.locale), data) as ShownProblems;
      const silent = problems.find(({ text }) => !html.includes(ejs.escapeXML(text)));
      if (silent !== undefined) throw new Error(silentProblem(page.view, silent.fields.at(-1)));
      return html;
    },
  };
  return samples().flatMap((sample) => {
    try {
      sample.render(checking, { locale, here: "" });
      return [];
    } catch (error) {
      return [`config.interactions.views: ${renderProblem(error)}`];
    }
  });
}

interface ShownProblems {
  readonly problems?: readonly { readonly fields: readonly string[]; readonly text: string }[];
}

/** Without the text, people would not learn why a form comes back. */
function silentProblem(view: string, field: string | undefined): string {
  return field === undefined
    ? `${view}.ejs shows no text when something is wrong; add include("problems")`
    : `${view}.ejs shows no text when something is wrong with ${field}; add include("field-problem", { name: "${field}" })`;
}
