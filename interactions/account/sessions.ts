/** Where the person is signed in, and ending that. */
import type { AccountInternals } from "../../accounts/account.ts";
import type { Clock } from "../../core/clock.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { Pages } from "../pages.ts";
import type { PersonPage } from "./person-pages.ts";

const PATH = "/account/sessions";

export interface SessionsPageParts {
  readonly pages: Pick<Pages, "accountSessions">;
  readonly accounts: Pick<AccountInternals, "endOtherSessions">;
  readonly sessions: SignInSessions;
  readonly clock: Clock;
}

/** A form sends `session`, the `uid` of one to end, or `action` = `others`. */
export function sessionsPage({ pages, accounts, sessions, clock }: SessionsPageParts): PersonPage {
  return {
    path: PATH,
    async show({ locals, person, send }) {
      const now = clock.now();
      const found = await sessions.list(person.account);
      const shown = found.map((session) => ({
        session,
        isThis: session.uid === person.session,
      }));
      const first = shown.toSorted((one, other) => Number(other.isThis) - Number(one.isThis));
      await send(pages.accountSessions({ ...locals, sessions: first, now }));
    },
    async submit(visit, form) {
      const { person, caller } = visit;
      const { account, session } = person;
      if (form.get("action") === "others") {
        const ended = await accounts.endOtherSessions(account.sub, session, caller);
        if (ended !== undefined) await sessions.keep(session, ended.sessions_generation);
        return visit.done(PATH, "sessions", { ...person, account: { ...account, ...generationOf(ended) } });
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
