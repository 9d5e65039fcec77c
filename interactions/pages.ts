/** The pages that people see: views, texts and theme combined. */
import { createHash } from "node:crypto";
import type { InteractionSettings } from "../config/configuration.ts";
import { ConfigurationError } from "../lib/errors.ts";
import {
  type DeliveriesLocals,
  deliveriesView,
  type DeliveryLocals,
  deliveryView,
  type ReceiversLocals,
  receiversView,
} from "./console-views.ts";
import type {
  AccountLocals,
  ConsentLocals,
  ErrorLocals,
  LastPageLocals,
  LoggedOutLocals,
  LoginField,
  LoginLocals,
  LoginProblem,
  LogoutLocals,
  StartAgainLocals,
} from "./page-locals.ts";
import { type LocalsOfPages, samplePages } from "./sample-pages.ts";
import { chooseLocale, type LanguageWishes, readTexts, type Translator } from "../lib/texts/texts.ts";
import { readTheme } from "./theme.ts";
import { type Locals, readViews, renderProblem } from "./views.ts";

/** Settings of the pages; see `interactions` in the configuration. */
export type PageSettings = Pick<InteractionSettings, "locales" | "views" | "copy" | "theme">;

/** Each function renders the HTML of one page. For status and headers, see `createAnswers`. */
export interface Pages {
  /** CSP source of the `<style>` element that every page has: `sha256-…`. */
  readonly styleHash: string;
  /** The locale for this browser, from `ui_locales`, then `Accept-Language`, then the first configured locale. */
  localeOf(ctx: LanguageWishes, uiLocales?: string): string;
  login(locals: LoginLocals): Promise<string>;
  consent(locals: ConsentLocals): Promise<string>;
  /** Who is signed in, and links to the other account pages. */
  account(locals: AccountLocals): Promise<string>;
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

/** A problem for the views. The summary links to the first of `fields`. */
interface Problem {
  readonly fields: readonly LoginField[];
  readonly text: string;
}

const DEFAULT_WAIT = 60;

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
  const problems = [...texts.problems, ...theme.problems, ...views.problems];
  if (problems.length > 0) throw new ConfigurationError(problems);

  const page = (view: string, locale: string, build: (t: Translator, service: string) => Locals): string => {
    const t = texts.translators.get(locale);
    if (t === undefined)
      throw new TypeError(`locale: ${locale} is not one of ${settings.locales.join(", ")}`);
    const service = theme.name ?? t("service.name");
    const common = { t, locale, service, problems: [], wide: false };
    return views.render(view, { ...common, ...build(t, service) });
  };
  const html: Html = {
    login: (locals) => page("login", locals.locale, (t) => loginLocals(t, locals)),
    consent: (locals) => page("consent", locals.locale, (t) => consentLocals(t, locals)),
    account: ({ locale, account, sub, deliveries = "", signOut = "" }) =>
      page("account", locale, (t) => ({ heading: t("account.title"), account, sub, deliveries, signOut })),
    deliveries: (locals) => page("deliveries", locals.locale, (t) => deliveriesView(t, locals)),
    delivery: (locals) => page("delivery", locals.locale, (t) => deliveryView(t, locals)),
    receivers: (locals) => page("receivers", locals.locale, (t) => receiversView(t, locals)),
    logout: ({ locale, action, xsrf }) =>
      page("logout", locale, (t) => ({ heading: t("logout.title"), action, xsrf })),
    loggedOut: ({ locale, stayed = false }) =>
      page("logged-out", locale, (t) =>
        stayed
          ? { heading: t("stayed.title"), text: t("stayed.text") }
          : { heading: t("loggedOut.title"), text: t("loggedOut.text") },
      ),
    error: (locals) => page("error", locals.locale, (t) => errorLocals(t, locals)),
    startAgain: ({ locale, accountUrl, action = "" }) =>
      page("start-again", locale, (t) => ({ heading: t("startAgain.title"), accountUrl, action })),
    unavailable: ({ locale, accountUrl }) =>
      page("unavailable", locale, (t) => ({ heading: t("unavailable.title"), accountUrl })),
  };
  // The tests of this package render the built-in views in every state.
  const tested = settings.views.length === 0 ? [] : settings.locales;
  const broken = tested.flatMap((locale) => brokenPages(html, locale));
  if (broken.length > 0) throw new ConfigurationError([...new Set(broken)]);
  return {
    styleHash: `sha256-${createHash("sha256").update(views.style).digest("base64")}`,
    localeOf: (ctx, uiLocales) => chooseLocale([first, ...others], ctx, uiLocales),
    login: async (locals) => html.login(locals),
    consent: async (locals) => html.consent(locals),
    account: async (locals) => html.account(locals),
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

function loginLocals(
  t: Translator,
  { client, own = false, action, csrf, username, problem }: LoginLocals,
): Locals {
  const problems = problem === undefined ? [] : loginProblems(t, problem);
  const problemsOf = (field: LoginField): string =>
    problems.flatMap(({ fields }, i) => (fields.includes(field) ? [`problem-${i}`] : [])).join(" ");
  const heading = own ? t("login.title.account") : t("login.title", { client });
  return { heading, client, action, csrf, username, problems, problemsOf };
}

function loginProblems(t: Translator, problem: LoginProblem): Problem[] {
  if (problem.kind === "missing") {
    return problem.fields.map((field) => ({ fields: [field], text: t(`login.problem.${field}`) }));
  }
  if (problem.kind === "wrong") {
    return [{ fields: ["username", "password"], text: t("login.problem.wrong") }];
  }
  return [{ fields: [], text: t("login.problem.limited", { minutes: minutes(problem.retryAfter) }) }];
}

function consentLocals(t: Translator, { client, action, csrf, account = "", fields }: ConsentLocals): Locals {
  const labels = fields.map((field) => (t.has(`field.${field}`) ? t(`field.${field}`) : field));
  return { heading: t("consent.title", { client }), client, action, csrf, account, fields: labels };
}

function errorLocals(
  t: Translator,
  { accountUrl, error, description = "", retryAfter = DEFAULT_WAIT }: ErrorLocals,
): Locals {
  const key = t.has(`error.${error}`) && !PLAIN_KEYS.has(error) ? `error.${error}` : "error.other";
  const text = t(key, { minutes: minutes(retryAfter) });
  return { heading: t("error.title"), text, accountUrl, error, description };
}

/** Keys under `error.` that belong to no code. */
const PLAIN_KEYS: ReadonlySet<string> = new Set(["title", "other", "details", "code"]);

/** Whole minutes, rounded up: an attempt after them can succeed. */
function minutes(seconds: number): number {
  return Math.max(1, Math.ceil(seconds / 60));
}
