/** The password: a new one, after a recent sign-in. */
import type { AccountInternals, Accounts } from "../../accounts/account.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { InvalidPassword } from "../../core/errors.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { Pages } from "../pages.ts";
import type { PersonPage, PersonVisit } from "./person-pages.ts";

const PATH = "/account/password";

export interface PasswordPageParts {
  readonly pages: Pick<Pages, "accountPassword">;
  readonly accounts: Pick<Accounts & AccountInternals, "setPassword" | "record">;
  readonly devices: Pick<DeviceCookies, "write">;
  readonly sessions: Pick<SignInSessions, "keep">;
  /** How many characters a password has. */
  readonly length: { readonly min: number; readonly max: number };
}

export function passwordPage({ pages, accounts, devices, sessions, length }: PasswordPageParts): PersonPage {
  function shown({ locals, person, send }: PersonVisit, problem?: string): Promise<void> {
    const { username, email } = person.account;
    const html = pages.accountPassword({
      ...locals,
      ...length,
      username: username ?? email,
      ...(problem !== undefined && { problem }),
    });
    return send(html, problem === undefined ? 200 : 400);
  }

  return {
    path: PATH,
    needs: "recent sign-in",
    show: (visit) => shown(visit),
    async submit(visit, form) {
      const { ctx, person, caller } = visit;
      const { account, session } = person;
      try {
        const options = { ...byCaller(caller), keepSession: session };
        const { sessions_generation } = await accounts.setPassword(
          account.sub,
          form.get("password") ?? "",
          options,
        );
        await sessions.keep(session, sessions_generation);
        // The change ended the device cookies of the account. This browser is the owner's, so it stays known.
        const record = await accounts.record(account.sub);
        if (record !== undefined) devices.write(ctx, record);
        const now = { ...person, account: { ...account, sessions_generation } };
        return visit.done("/account", "password", now);
      } catch (error) {
        if (error instanceof InvalidPassword) return shown(visit, error.problem);
        throw error;
      }
    },
  };
}
