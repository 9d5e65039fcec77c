/** Where the person is signed in, where the second factor is not asked for, and ending both. */
import { z } from "zod";
import type { RememberedBrowser } from "../../accounts/factors/remembered-browsers.ts";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignInSession } from "../../accounts/sign-in-sessions.ts";
import { shortenedAddress } from "../../records/audit/origin.ts";
import { browserName, deviceOf } from "../look/browsers.ts";
import { moments } from "../look/moments.ts";
import type { PersonPage } from "./person-pages.ts";
import { choiceOf, listLinks, type PersonLocals, type PersonView, personView } from "./person-view.ts";

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

const seconds = z.int().describe("Seconds since the epoch.");

/** `end` ends one of the sessions, `forget` one of the remembered browsers, `others` all sessions but this one. */
export const sessionsView: PersonView<SessionsLocals> = personView({
  name: "sessions",
  view: "account-sessions",
  takes: { end: ["session"], forget: ["remembered"], others: [] },
  members: {
    sessions: z
      .array(
        section({
          id: z.string(),
          current: z.boolean().describe("Whether it is this browser. Signing out ends it."),
          label: z.string(),
          network: z.string().describe("Whether it was last used on this network. May be empty."),
          first_used_at: seconds,
          last_used_at: seconds,
        }),
      )
      .readonly(),
    remembered: z
      .array(section({ id: z.string(), label: z.string(), added_at: seconds, expires_at: seconds }))
      .readonly()
      .describe("The browsers that are not asked for the second factor."),
  },
  content(t, { sessions, remembered, network, ...locals }) {
    const options = sessions.flatMap(({ session, isThis }) =>
      isThis ? [] : [{ value: session.uid, label: browserName(t, session) }],
    );
    const browsers = remembered.map((each) => ({ value: each.id, label: browserName(t, each) }));
    return {
      title: t("account.sessions"),
      texts: [t("sessions.text")],
      fields: [
        ...choiceOf("session", t("account.sessions"), options),
        ...choiceOf("remembered", t("sessions.remembered"), browsers),
      ],
      actions: [
        ...(options.length === 0 ? [] : [{ name: "end", label: t("sessions.end") }]),
        ...(browsers.length === 0 ? [] : [{ name: "forget", label: t("sessions.remembered.end") }]),
        ...(hasOthers({ sessions, ...locals })
          ? [{ name: "others", label: t("sessions.endOthers"), look: "second" } as const]
          : []),
      ],
      links: listLinks(t, locals),
      members: {
        sessions: sessions.map(({ session, isThis }) => ({
          id: session.uid,
          current: isThis,
          label: browserName(t, session),
          network: isThis ? "" : networkText(t, session.address, network),
          first_used_at: Math.floor(session.firstUse),
          last_used_at: Math.floor(session.lastUse),
        })),
        remembered: remembered.map((each) => ({
          id: each.id,
          label: browserName(t, each),
          added_at: each.added_at,
          expires_at: each.expires_at,
        })),
      },
    };
  },
  locals(t, locals) {
    const moment = moments({ ...locals, locale: t.locale });
    return {
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
      others: hasOthers(locals),
      first: locals.first ?? "",
      next: locals.next ?? "",
    };
  },
});

const hasOthers = ({ sessions, first }: Pick<SessionsLocals, "sessions" | "first">): boolean =>
  sessions.some(({ isThis }) => !isThis) || first !== undefined;

/** An address means nothing to people, but whether it is this network does. Empty if that is not known. */
function networkText(t: Translator, last: string | undefined, now: string | undefined): string {
  if (last === undefined || now === undefined) return "";
  return last === now ? t("sessions.thisNetwork") : t("sessions.otherNetwork");
}

export const sessionsPage: PersonPage = {
  path: PATH,
  navigation: "sessions",
  views: [sessionsView],
  async show(
    { ctx, locals, person, after, nextPage, show },
    { sessions, secondFactors: { rememberedBrowsers }, clock },
  ) {
    const now = clock.now();
    const network = shortenedAddress(ctx.exchange.address);
    const [found, own, remembered] = await Promise.all([
      sessions.list(person.account, after),
      after === undefined ? sessions.find(person.account, person.session) : undefined,
      after === undefined ? rememberedBrowsers.list(person.account) : [],
    ]);
    const others = found.sessions.filter(({ uid }) => uid !== person.session);
    return show(sessionsView, {
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
  async submit(visit, { action, values }, { accounts, sessions, secondFactors: { rememberedBrowsers } }) {
    const { person, caller } = visit;
    const { account, session } = person;
    if (action === "others") {
      const { sub, sessions_generation: generation } = account;
      const ended = await accounts.endOtherSessions(sub, { keepSession: session, generation }, caller);
      if (ended !== undefined) await sessions.keep(session, ended.sessions_generation);
      return visit.done(PATH, "sessions", ended?.sessions_generation);
    }
    if (action === "forget") {
      await rememberedBrowsers.end(account.sub, values.get("remembered") ?? "", caller);
      return visit.done(PATH, "remembered");
    }
    const uid = values.get("session") ?? "";
    // This one is ended by signing out.
    if (uid !== session) await sessions.end(account.sub, uid, { caller, reason: "ended" });
    return visit.done(PATH, "session");
  },
};
