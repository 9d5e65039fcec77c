/** The step `reauthenticate`: the password of the person who is signed in, before something that needs a recent sign-in. */
import { checkPassword } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const reauthenticate: Step = {
  isOpen: ({ prompt, account }) => prompt === "login" && account !== undefined,
  fields: () => [{ name: "password", type: "password", autocomplete: "current-password", required: true }],
  actions: () => ["submit"],
  ways: ["forgot-password", "login"],
  submit: (entry, services) =>
    checkPassword(entry, services, {
      username: entry.signIn.account?.email ?? "",
      password: entry.values.get("password") ?? "",
      fields: ["password"],
    }),
};
