/** The password: a new one, after a recent sign-in. */
import { z } from "zod";
import { kindsOf } from "../../accounts/ways/ways.ts";
import { InvalidPassword } from "../../core/errors.ts";
import type { Reply } from "../reply.ts";
import { hasOwnWays, type PersonPage, type PersonServices, type PersonVisit } from "./person-pages.ts";
import { type PersonLocals, type PersonView, personView } from "./person-view.ts";

/** `account-password`: a form with the new password. */
interface PasswordLocals extends PersonLocals {
  /** For password managers. */
  readonly username: string;
  readonly min: number;
  /** Whether there is one already. */
  readonly isSet: boolean;
}

export const passwordView: PersonView<PasswordLocals> = personView({
  name: "password",
  view: "account-password",
  takes: { submit: ["password"] },
  members: { username: z.string().describe("Whose password it is, for password managers.") },
  content: (t, { username, min, isSet }) => ({
    title: t("account.password"),
    texts: [t("password.effect")],
    fields: [
      {
        name: "password",
        type: "password",
        autocomplete: "new-password",
        required: true,
        minLength: min,
        label: t("password.new"),
        hint: t("hint.new-password", { min }),
      },
    ],
    actions: [{ name: "submit", label: isSet ? t("password.save") : t("password.set") }],
    members: { username },
  }),
  locals: (_t, { username }) => ({ username }),
});

export const passwordPage: PersonPage = {
  path: "/account/password",
  navigation: "password",
  needs: "recent sign-in",
  isFor: hasOwnWays,
  views: [passwordView],
  show: (visit, services) => shown(visit, services),
  async submit(visit, { values }, services) {
    const { accounts, sessions, devices } = services;
    const { ctx, person, caller } = visit;
    const { account, session } = person;
    try {
      const { sessions_generation } = await accounts.setOwnPassword(
        account.sub,
        values.get("password") ?? "",
        { keepSession: session, generation: account.sessions_generation },
        caller,
      );
      await sessions.keep(session, sessions_generation);
      // The change ended the device cookies of the account. This browser is the owner's, so it stays known.
      const record = await accounts.record(account.sub);
      if (record !== undefined) devices.write(ctx, record);
      return visit.done("/account", "password", sessions_generation);
    } catch (error) {
      if (error instanceof InvalidPassword) return shown(visit, services, error.problem);
      throw error;
    }
  },
};

function shown(
  { locals, person, show }: PersonVisit,
  { passwords: { length } }: PersonServices,
  problem?: string,
): Reply {
  const { username, email } = person.account;
  const data = {
    ...locals,
    min: length.min,
    username: username ?? email,
    isSet: kindsOf(person.account).includes("password"),
    problems: problem === undefined ? [] : [{ code: problem, fields: ["password"], values: { ...length } }],
  };
  return show(passwordView, data);
}
