/** The password: a new one, after a recent sign-in. */
import type { AccountInternals } from "../../accounts/account.ts";
import { kindsOf } from "../../accounts/ways/ways.ts";
import { InvalidPassword } from "../../core/errors.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { Page } from "../page.ts";
import { personLocals, type PersonLocals, type PersonPage, type PersonVisit } from "./person-pages.ts";

const PATH = "/account/password";

/** `account-password`: a form with the new password. */
interface PasswordLocals extends PersonLocals {
  /** For password managers. */
  readonly username: string;
  readonly min: number;
  readonly max: number;
  /** Whether there is one already. */
  readonly isSet: boolean;
  /** The end of a key `problem.password.…`. */
  readonly problem?: string;
}

export const passwordView: Page<PasswordLocals> = {
  view: "account-password",
  locals(t, locals) {
    const { username, min, max, isSet, problem } = locals;
    const problems =
      problem === undefined
        ? []
        : [{ fields: ["password"], text: t(`problem.password.${problem}`, { min, max }) }];
    return {
      ...personLocals(t, locals, t("account.password"), problems),
      username,
      min,
      submit: isSet ? t("password.save") : t("password.set"),
    };
  },
};

export interface PasswordPageParts {
  readonly accounts: Pick<AccountInternals, "setOwnPassword" | "record">;
  readonly devices: Pick<DeviceCookies, "write">;
  readonly sessions: Pick<SignInSessions, "keep">;
  /** How many characters a password has. */
  readonly length: { readonly min: number; readonly max: number };
}

export function passwordPage({ accounts, devices, sessions, length }: PasswordPageParts): PersonPage {
  function shown({ locals, person, send }: PersonVisit, problem?: string): void {
    const { username, email } = person.account;
    const data = {
      ...locals,
      ...length,
      username: username ?? email,
      isSet: kindsOf(person.account).includes("password"),
      ...(problem !== undefined && { problem }),
    };
    send(passwordView, data, { status: problem === undefined ? 200 : 400 });
  }

  return {
    path: PATH,
    place: "password",
    needs: "recent sign-in",
    show: (visit) => shown(visit),
    async submit(visit, form) {
      const { ctx, person, caller } = visit;
      const { account, session } = person;
      try {
        const { sessions_generation } = await accounts.setOwnPassword(
          account.sub,
          form.get("password") ?? "",
          { keepSession: session, generation: account.sessions_generation },
          caller,
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
