/** Where the person is signed in, where the second factor is not asked for, and ending both. */
import type { AccountInternals } from "../../accounts/account.ts";
import type { RememberedBrowser, RememberedBrowsers } from "../../accounts/factors/remembered-browsers.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignInSession, SignInSessions } from "../../provider/sessions/sessions.ts";
import { shortenedAddress } from "../../records/audit/origin.ts";
import { browserName, deviceOf } from "../look/browsers.ts";
import { moments } from "../look/moments.ts";
import type { Page } from "../page.ts";
import { personLocals, type PersonLocals, type PersonPage } from "./person-pages.ts";

const PATH = "/account/sessions";

/** One browser, and whether this request comes from it. */
interface ShownSession {
  readonly session: SignInSession;
  readonly isThis: boolean;
}

/** `account-sessions`: the browsers, a form for each other one, and a form for all others. */
interface SessionsLocals extends PersonLocals {
  readonly sessions: readonly ShownSession[];
  /** Where the second factor is not asked for. */
  readonly remembered: readonly RememberedBrowser[];
  /** The addresses of the first page, on the others, and of the next one. */
  readonly first?: string;
  readonly next?: string;
  /** The network of this request, in the form of those of the sessions. */
  readonly network: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export const sessionsView: Page<SessionsLocals> = {
  view: "account-sessions",
  locals(t, locals) {
    const moment = moments({ ...locals, locale: t.locale });
    return {
      ...personLocals(t, locals, t("account.sessions")),
      sessions: locals.sessions.map(({ session, isThis }) => ({
        uid: session.uid,
        isThis,
        device: deviceOf(session),
        name: browserName(t, session),
        network: isThis ? "" : networkText(t, session.address, locals.network),
        firstUse: moment(session.firstUse * 1000),
        lastUse: moment(session.lastUse * 1000),
      })),
      remembered: locals.remembered.map((browser) => ({
        id: browser.id,
        device: deviceOf(browser),
        name: browserName(t, browser),
        since: moment(browser.added_at * 1000),
        until: moment(browser.expires_at * 1000),
      })),
      others: locals.sessions.some(({ isThis }) => !isThis) || locals.first !== undefined,
      first: locals.first ?? "",
      next: locals.next ?? "",
    };
  },
};

/** An address means nothing to people, but whether it is this network does. Empty if that is not known. */
function networkText(t: Translator, last: string | undefined, now: string | undefined): string {
  if (last === undefined || now === undefined) return "";
  return last === now ? t("sessions.thisNetwork") : t("sessions.otherNetwork");
}

export interface SessionsPageParts {
  readonly accounts: Pick<AccountInternals, "endOtherSessions">;
  readonly sessions: SignInSessions;
  readonly rememberedBrowsers: Pick<RememberedBrowsers, "list" | "end">;
  readonly clock: Clock;
}

/** A form sends `session`, the `uid` of one to end, `remembered`, the id of a browser to forget, or `action` = `others`. */
export function sessionsPage({
  accounts,
  sessions,
  rememberedBrowsers,
  clock,
}: SessionsPageParts): PersonPage {
  return {
    path: PATH,
    place: "sessions",
    async show({ ctx, locals, person, after, nextPage, send }) {
      const now = clock.now();
      const network = shortenedAddress(ctx.exchange.address);
      const [found, own, remembered] = await Promise.all([
        sessions.list(person.account, after),
        after === undefined ? sessions.find(person.account, person.session) : undefined,
        after === undefined ? rememberedBrowsers.list(person.account) : [],
      ]);
      const others = found.sessions.filter(({ uid }) => uid !== person.session);
      send(sessionsView, {
        ...locals,
        sessions: [
          ...(own === undefined ? [] : [{ session: own, isThis: true }]),
          ...others.map((session) => ({ session, isThis: false })),
        ],
        ...(after !== undefined && { first: locals.base + PATH }),
        ...(found.next !== undefined && { next: nextPage(found.next) }),
        remembered,
        network,
        now,
      });
    },
    async submit(visit, form) {
      const { person, caller } = visit;
      const { account, session } = person;
      if (form.get("action") === "others") {
        const { sub, sessions_generation: generation } = account;
        const ended = await accounts.endOtherSessions(sub, { keepSession: session, generation }, caller);
        if (ended !== undefined) await sessions.keep(session, ended.sessions_generation);
        return visit.done(PATH, "sessions", { ...person, account: { ...account, ...generationOf(ended) } });
      }
      const forgotten = form.get("remembered");
      if (forgotten !== undefined) {
        await rememberedBrowsers.end(account.sub, forgotten, caller);
        return visit.done(PATH, "remembered");
      }
      const uid = form.get("session") ?? "";
      // This one is ended by signing out.
      if (uid !== session) await sessions.end(account.sub, uid, { caller, reason: "ended" });
      return visit.done(PATH, "session");
    },
  };
}

function generationOf(ended: { readonly sessions_generation: number } | undefined): {
  readonly sessions_generation?: number;
} {
  return ended === undefined ? {} : { sessions_generation: ended.sessions_generation };
}
