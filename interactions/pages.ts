/** The pages that people see: views, texts and theme combined. */
import { waitText } from "./look/moments.ts";
import { createHash } from "node:crypto";
import type { InteractionSettings } from "../config/configuration.ts";
import { isHelpLink, isPageLink } from "../config/value-forms.ts";
import { ConfigurationError } from "../core/errors.ts";
import { type LocalsOfPersonPages, personViews } from "./account/views.ts";
import {
  type DeliveriesLocals,
  deliveriesView,
  type DeliveryLocals,
  deliveryView,
  type ReceiversLocals,
  receiversView,
} from "./console/console-views.ts";
import {
  chooseLocale,
  type LanguageHints,
  languageLinks,
  languageName,
  type LanguageWishes,
  repeatableQuery,
} from "./look/language.ts";
import type {
  ConfirmLocals,
  ErrorLocals,
  LastPageLocals,
  LoggedOutLocals,
  LogoutLocals,
  PageLocals,
  StartAgainLocals,
  StepLocals,
} from "./page-locals.ts";
import { firstLetter, letterIcon } from "../core/pictures.ts";
import { type LocalsOfPages, samplePages } from "./sample-pages.ts";
import { readTexts, type Translator } from "../core/texts.ts";
import { readTheme, type Theme } from "./look/theme.ts";
import { describeStep, type StepDescription } from "./steps/description.ts";
import type { PresentStep } from "./steps/step.ts";
import { stepLocals } from "./steps/views.ts";
import { type Locals, readViews, renderProblem } from "./look/views.ts";

/** Settings of the pages; see `interactions` in the configuration. */
export type PageSettings = Pick<InteractionSettings, "locales" | "views" | "copy" | "theme"> &
  Partial<Pick<InteractionSettings, "links">>;

/** Each function renders the HTML of one page. For status and headers, see `createAnswers`. */
export interface Pages {
  /** CSP source of the `<style>` element that every page has: `sha256-…`. */
  readonly styleHash: string;
  /**
   * The language of this page and its language switch. Call it once for a page: if the person has followed a link of the
   * switch, it sets a cookie.
   */
  visit(ctx: LanguageWishes, visit?: Visit): PageLocals;
  /** A step of a running sign-in. */
  step(locals: StepLocals): Promise<string>;
  /** A link in mail that confirms nothing here. */
  confirm(locals: ConfirmLocals): Promise<string>;
  /** A step in the words of a language. */
  describe(step: PresentStep, locale: string): StepDescription;
  /** Who is signed in, and links to the other pages of the account. */
  account(locals: LocalsOfPersonPages["account"]): Promise<string>;
  accountProfile(locals: LocalsOfPersonPages["accountProfile"]): Promise<string>;
  accountEmail(locals: LocalsOfPersonPages["accountEmail"]): Promise<string>;
  accountNewEmail(locals: LocalsOfPersonPages["accountNewEmail"]): Promise<string>;
  accountPassword(locals: LocalsOfPersonPages["accountPassword"]): Promise<string>;
  accountSessions(locals: LocalsOfPersonPages["accountSessions"]): Promise<string>;
  accountServices(locals: LocalsOfPersonPages["accountServices"]): Promise<string>;
  accountDelete(locals: LocalsOfPersonPages["accountDelete"]): Promise<string>;
  /** The delivery console: the list. */
  deliveries(locals: DeliveriesLocals): Promise<string>;
  /** The delivery console: one delivery. */
  delivery(locals: DeliveryLocals): Promise<string>;
  /** The delivery console: the receivers. */
  receivers(locals: ReceiversLocals): Promise<string>;
  /** Asks whether to sign out. */
  logout(locals: LogoutLocals): Promise<string>;
  /** After signing out without an address to return to. */
  loggedOut(locals: LoggedOutLocals): Promise<string>;
  error(locals: ErrorLocals): Promise<string>;
  startAgain(locals: StartAgainLocals): Promise<string>;
  /** The 503 page. */
  unavailable(locals: LastPageLocals): Promise<string>;
}

/** What {@link Pages.visit} should know of the request. */
export interface Visit extends LanguageHints {
  /** Whether a GET of this address shows the page again. Default: the request is one. */
  readonly isRepeatable?: boolean;
}

const DEFAULT_WAIT = 60;

/** The texts of the last page. */
const AFTER = {
  "signed out": (t: Translator) => ({ heading: t("loggedOut.title"), text: t("loggedOut.text") }),
  stayed: (t: Translator) => ({ heading: t("stayed.title"), text: t("stayed.text") }),
  deleted: (t: Translator) => ({ heading: t("deleted.title"), text: t("deleted.text") }),
};

/** The texts of the page that a link in mail leads to. */
const CONFIRM_TEXTS: Readonly<
  Record<ConfirmLocals["kind"], (t: Translator, email: string) => { heading: string; text: string }>
> = {
  elsewhere: (t) => ({ heading: t("confirm-email.title"), text: t("confirm-email.elsewhere") }),
  gone: (t) => ({ heading: t("confirm-email.gone.title"), text: t("confirm-email.gone") }),
  taken: (t) => ({ heading: t("undo.taken.title"), text: t("undo.taken") }),
  undo: (t, email) => ({ heading: t("undo.title"), text: t("undo.text", { email }) }),
};

/** Renders each page. */
type Html = { readonly [Page in keyof LocalsOfPages]: (locals: LocalsOfPages[Page]) => string };

/**
 * Reads and compiles everything once; rendering a page reads nothing from disk. If a team has views of its own, every
 * page is rendered with sample data first.
 * @throws ConfigurationError naming every missing text, wrong theme value, missing folder, and view that is misnamed, does
 * not compile or does not render.
 */
export function createPages(settings: PageSettings): Pages {
  const [first, ...others] = settings.locales;
  if (first === undefined) throw new ConfigurationError(["config.interactions.locales: must not be empty"]);
  const texts = readTexts(settings.locales, settings.copy);
  const theme = readTheme(settings.theme);
  const views = readViews(settings.views, theme.css);
  const links = settings.links ?? {};
  const problems = [...texts.problems, ...theme.problems, ...linkProblems(links), ...views.problems];
  if (problems.length > 0) throw new ConfigurationError(problems);

  const names = new Map(settings.locales.map((locale) => [locale, languageName(locale)]));
  const frames = new Map(
    [...texts.translators].map(([locale, t]) => [locale, { t, locals: frame(t, locale, { theme, links }) }]),
  );
  const frameOf = (locale: string): { readonly t: Translator; readonly locals: Locals } => {
    const found = frames.get(locale);
    if (found !== undefined) return found;
    throw new TypeError(`locale: ${locale} is not one of ${settings.locales.join(", ")}`);
  };
  const page = (view: string, { locale, here }: PageLocals, build: (t: Translator) => Locals): string => {
    const { t, locals } = frameOf(locale);
    const languages = languageLinks(names, locale, here);
    return views.render(view, { ...locals, languages, ...build(t) });
  };
  const person = <Page extends keyof LocalsOfPersonPages>(
    name: Page,
    locals: LocalsOfPersonPages[Page],
  ): string => {
    const [view, build] = personViews[name];
    return page(view, locals, (t) => build(t, locals));
  };
  const html: Html = {
    step: ({ step, ...visit }) =>
      page(step.name, visit, (t) => stepLocals(t, describeStep(step, visit.locale, t), step)),
    account: (locals) => person("account", locals),
    accountProfile: (locals) => person("accountProfile", locals),
    accountEmail: (locals) => person("accountEmail", locals),
    accountNewEmail: (locals) => person("accountNewEmail", locals),
    accountPassword: (locals) => person("accountPassword", locals),
    accountSessions: (locals) => person("accountSessions", locals),
    accountServices: (locals) => person("accountServices", locals),
    accountDelete: (locals) => person("accountDelete", locals),
    deliveries: (locals) => page("deliveries", locals, (t) => deliveriesView(t, locals)),
    delivery: (locals) => page("delivery", locals, (t) => deliveryView(t, locals)),
    receivers: (locals) => page("receivers", locals, (t) => receiversView(t, locals)),
    logout: ({ action, xsrf, ...visit }) =>
      page("logout", visit, (t) => ({ heading: t("logout.title"), action, xsrf })),
    loggedOut: ({ after = "signed out", ...visit }) => page("logged-out", visit, AFTER[after]),
    error: (locals) => page("error", locals, (t) => errorLocals(t, locals)),
    startAgain: ({ accountUrl, action = "", ...visit }) =>
      page("start-again", visit, (t) => ({ heading: t("startAgain.title"), accountUrl, action })),
    confirm: ({ accountUrl, kind, form, ...visit }) =>
      page("confirm", visit, (t) => ({
        ...CONFIRM_TEXTS[kind](t, form?.email ?? ""),
        accountUrl,
        action: form?.action ?? "",
        csrf: form?.csrf ?? "",
      })),
    unavailable: ({ accountUrl, ...visit }) =>
      page("unavailable", visit, (t) => ({ heading: t("unavailable.title"), accountUrl })),
  };
  // The tests of this package render the built-in views in every state.
  const tested = settings.views.length === 0 ? [] : settings.locales;
  const broken = tested.flatMap((locale) => brokenPages(html, locale));
  if (broken.length > 0) throw new ConfigurationError([...new Set(broken)]);
  return {
    styleHash: `sha256-${createHash("sha256").update(views.style).digest("base64")}`,
    visit(ctx, { isRepeatable, ...hints } = {}) {
      const locale = chooseLocale([first, ...others], ctx, hints);
      const here = others.length === 0 ? undefined : repeatableQuery(ctx, isRepeatable);
      return { locale, ...(here !== undefined && { here }) };
    },
    step: async (locals) => html.step(locals),
    confirm: async (locals) => html.confirm(locals),
    describe: (step, locale) => describeStep(step, locale, frameOf(locale).t),
    account: async (locals) => html.account(locals),
    accountProfile: async (locals) => html.accountProfile(locals),
    accountEmail: async (locals) => html.accountEmail(locals),
    accountNewEmail: async (locals) => html.accountNewEmail(locals),
    accountPassword: async (locals) => html.accountPassword(locals),
    accountSessions: async (locals) => html.accountSessions(locals),
    accountServices: async (locals) => html.accountServices(locals),
    accountDelete: async (locals) => html.accountDelete(locals),
    deliveries: async (locals) => html.deliveries(locals),
    delivery: async (locals) => html.delivery(locals),
    receivers: async (locals) => html.receivers(locals),
    logout: async (locals) => html.logout(locals),
    loggedOut: async (locals) => html.loggedOut(locals),
    error: async (locals) => html.error(locals),
    startAgain: async (locals) => html.startAgain(locals),
    unavailable: async (locals) => html.unavailable(locals),
  };
}

/** Addresses that a page must not link to, such as `javascript:`. */
function linkProblems(links: InteractionSettings["links"]): readonly string[] {
  return Object.entries(links).flatMap(([name, address]) => {
    const isLink = name === "help" ? isHelpLink : isPageLink;
    return isLink(address) ? [] : [`config.interactions.links.${name}: must be an https address`];
  });
}

/** What every page of a language shows around its content. */
function frame(
  t: Translator,
  locale: string,
  { theme, links }: { readonly theme: Theme; readonly links: InteractionSettings["links"] },
): Locals {
  const service = theme.name ?? t("service.name");
  const letter = firstLetter(service, locale);
  return {
    t,
    locale,
    service,
    letter,
    logo: theme.logo ?? "",
    favicon: theme.favicon ?? letterIcon(letter, theme.icon),
    links: Object.entries(links).map(([name, address]) => ({
      label: t(`link.${name}`),
      href: address.replaceAll("{locale}", locale),
    })),
    problems: [],
    back: "",
    clientLogo: "",
    wide: false,
  };
}

/** The problems of the views; a partial may break many pages. */
function brokenPages(html: Html, locale: string): readonly string[] {
  return samplePages(locale, "Sample").flatMap((sample) => {
    try {
      sample.with(html);
      return [];
    } catch (error) {
      return [`config.interactions.views: ${renderProblem(error)}`];
    }
  });
}

function errorLocals(
  t: Translator,
  { accountUrl, error, description = "", retryAfter = DEFAULT_WAIT }: ErrorLocals,
): Locals {
  const key = t.has(`error.${error}`) && !PLAIN_KEYS.has(error) ? `error.${error}` : "error.other";
  const text = t(key, { wait: waitText(t.locale, retryAfter) });
  return { heading: t("error.title"), text, accountUrl, error, description };
}

/** Keys under `error.` that belong to no code. */
const PLAIN_KEYS: ReadonlySet<string> = new Set(["title", "other", "details", "code"]);
