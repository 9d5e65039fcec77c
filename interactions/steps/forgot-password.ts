/** The step `forgot-password`: asks for mail with a code and a link. Every name gets the same answer after the same time. */
import { shownEmail, trimmed } from "../../accounts/names.ts";
import { askedAt, type Step } from "./step.ts";

/** No account has a longer name. */
const MAX_USERNAME_CHARACTERS = 256;

export const forgotPassword: Step = {
  isOpen: ({ prompt }, { resets }) => prompt !== "consent" && resets,
  fields: ({ loginHint = "", account }) => [
    {
      name: "username",
      type: "text",
      autocomplete: "username",
      required: true,
      value: account === undefined ? loginHint : shownEmail(account.email),
    },
  ],
  actions: () => ["submit"],
  alternatives: () => ["login"],
  async submit(entry, services) {
    const { signIn, values } = entry;
    const { passwordResets } = services.people;
    if (passwordResets === undefined) return { kind: "gone" };
    const login = values.get("username") ?? "";
    const result = await passwordResets.start(signIn.uid, login, askedAt(entry, services));
    if (result.kind === "limited") return result;
    const username = trimmed(login).slice(0, MAX_USERNAME_CHARACTERS);
    return { kind: "next", state: { step: "new-password", username } };
  },
};
