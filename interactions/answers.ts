/** The pages without a next step of their own, as endpoints, oidc-provider and host applications send them. */
import { securityHeaders } from "../core/security-headers.ts";
import { waitText } from "./look/moments.ts";
import type { Translator } from "../core/texts.ts";
import type { EndedReason, ErrorAnswer, StartAgainAnswer } from "../provider/pages.ts";
import type { Answers, Page, PageContext, Pages, ShownEnd } from "./page.ts";

/** `logout`: a form with the hidden field `xsrf` and two buttons, one of which sends `logout` = `yes`. */
export const logoutPage: Page<{ readonly action: string; readonly xsrf: string }> = {
  view: "logout",
  locals: (t, form) => ({ heading: t("logout.title"), layout: "end", ...form }),
};

/** `unavailable`, `error` and `start-again`: the account page, so that there is always a link to follow. */
interface LastPage {
  readonly accountUrl: string;
  /** Names the request in the log. Default: none. */
  readonly requestId?: string | undefined;
}

/** `logged-out`: what the person has done. */
export const loggedOutPage: Page<LastPage & { readonly after: "signed out" | "stayed" | "deleted" }> = {
  view: "logged-out",
  locals(t, { accountUrl, after }) {
    const common = { layout: "end", accountUrl };
    if (after === "stayed")
      return { ...common, heading: t("stayed.title"), text: t("stayed.text"), next: t("account.link") };
    if (after === "deleted")
      return { ...common, heading: t("deleted.title"), text: t("deleted.text"), next: t("deleted.link") };
    return {
      ...common,
      heading: t("loggedOut.title"),
      text: t("loggedOut.text"),
      next: t("loggedOut.again"),
    };
  },
};

/** `error`: a request that cannot continue and must not be redirected to the client. */
export const errorPage: Page<LastPage & Omit<ErrorAnswer, "status" | "uiLocales">> = {
  view: "error",
  locals(t, { accountUrl, requestId = "", error, description = "", retryAfter = 60 }) {
    const known = t.has(`error.${error}`) && !PLAIN_KEYS.has(error) ? `error.${error}` : "error.other";
    // The words that a step has for the same limit.
    const text = t(error === "rate_limited" ? "problem.limited.network" : known, {
      wait: waitText(t.locale, retryAfter),
    });
    const heading = t.has(`error.${error}.title`) ? t(`error.${error}.title`) : t("error.title");
    return { heading, layout: "end", text, accountUrl, requestId, error, description };
  },
};

/** Keys under `error.` that belong to no code. */
const PLAIN_KEYS: ReadonlySet<string> = new Set(["title", "other", "details", "code", "request"]);

/** `start-again`: the sign-in has ended, or can't go on from here. */
export interface EndedLocals extends LastPage, ShownEnd, Pick<StartAgainAnswer, "reason" | "action"> {
  /** The host that the person allows cookies for. */
  readonly host: string;
  /** The path of the sign-in, which the sealed request is sent to; missing if there is none. */
  readonly path?: string;
}

export const startAgainPage: Page<EndedLocals> = {
  view: "start-again",
  locals(t, shown) {
    const { accountUrl, reason, action = "", client, again = "", path } = shown;
    const name = client === undefined || client.own ? "" : client.name;
    const { client_uri: uri } = client ?? {};
    const restart = path !== undefined && {
      action: path,
      again,
      label: name !== "" && reason === "complete" ? t("ended.continue", { client: name }) : t("again.submit"),
    };
    const links = [
      ...(action === "" ? [] : [{ href: action, label: t("startAgain.link") }]),
      ...(uri === undefined || name === ""
        ? []
        : [{ href: uri, label: t("ended.client", { client: name }) }]),
    ];
    return {
      heading: reason === undefined ? t("startAgain.title") : t(`ended.${reason}.title`),
      layout: "end",
      pageIcon: reason === undefined ? "" : (END_ICONS[reason] ?? ""),
      texts: endedTexts(t, shown),
      client: name,
      clientLogo: client?.logo ?? "",
      restart,
      // Without anything else, the account: no page is a dead end.
      next:
        reason !== undefined && (links.length > 0 || again !== "")
          ? links
          : [...links, { href: accountUrl, label: t("account.link") }],
    };
  },
};

const END_ICONS: Readonly<Partial<Record<EndedReason, string>>> = {
  expired: "clock",
  "no-cookies": "cookie",
};

function endedTexts(t: Translator, { reason, typed, host }: EndedLocals): string[] {
  if (reason === undefined) return [t("startAgain.text")];
  return [
    t(`ended.${reason}`),
    ...(typed === undefined ? [] : [t(`ended.typed.${typed}`)]),
    ...(reason === "no-cookies" ? [t("ended.no-cookies.help", { host })] : []),
  ];
}

export const unavailablePage: Page<LastPage> = {
  view: "unavailable",
  locals: (t, { accountUrl, requestId = "" }) => ({
    heading: t("unavailable.title"),
    layout: "end",
    accountUrl,
    requestId,
  }),
};

/** Presses the button that signs out. */
const SIGN_OUT = "document.forms[0].elements.logout.click()";

/** Redirects with a 303: the browser continues with a GET, without the form and without a `Referer`. */
export function seeOther(
  ctx: Pick<PageContext, "status" | "set" | "exchange"> & { redirect(url: string): void },
  location: string,
): void {
  ctx.redirect(location);
  ctx.status = 303;
  securityHeaders(ctx, { secure: ctx.exchange.deployment.secure });
}

const accountUrl = (ctx: PageContext): string => `${ctx.exchange.deployment.url}/account`;

const lastPage = (ctx: PageContext): LastPage => ({
  accountUrl: accountUrl(ctx),
  requestId: ctx.exchange.requestId,
});

/** Sends these pages in the language of each browser. */
export function createAnswers(pages: Pick<Pages, "send">): Answers {
  return {
    confirmLogout(ctx, { action, xsrf, atOnce = false }) {
      pages.send(ctx, logoutPage, { action, xsrf }, atOnce ? { script: SIGN_OUT } : {});
    },
    loggedOut(ctx, { after = "signed out" } = {}) {
      pages.send(ctx, loggedOutPage, { accountUrl: accountUrl(ctx), after });
    },
    error(ctx, { status, uiLocales, ...shown }) {
      const { retryAfter } = shown;
      const options = { status, uiLocales, ...(retryAfter !== undefined && { retryAfter }) };
      pages.send(ctx, errorPage, { ...lastPage(ctx), ...shown }, options);
    },
    startAgain(ctx, { status = 400, uiLocales, ...shown } = {}) {
      const { deployment, uid } = ctx.exchange;
      const path = shown.reason !== undefined && uid !== undefined && `${deployment.path}/interaction/${uid}`;
      const { hostname: host } = new URL(deployment.url);
      const locals = { accountUrl: accountUrl(ctx), host, ...(path !== false && { path }), ...shown };
      pages.send(ctx, startAgainPage, locals, { status, uiLocales });
    },
    unavailable(ctx, retryAfter) {
      pages.send(ctx, unavailablePage, lastPage(ctx), { status: 503, retryAfter });
    },
  };
}
