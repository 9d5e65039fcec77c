/** The step `login`: a name and a password. An unknown name and a wrong password get the same answer after the same time. */
import { checkPassword } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const login: Step = {
  isOpen: ({ prompt }) => prompt !== "consent",
  fields: ({ loginHint = "", state: { username = loginHint } }) => [
    { name: "username", type: "text", autocomplete: "username", required: true, value: username },
    { name: "password", type: "password", autocomplete: "current-password", required: true },
  ],
  actions: () => ["submit"],
  ways: ["forgot-password", "register"],
  submit: (entry, services) =>
    checkPassword(entry, services, {
      username: entry.values.get("username") ?? "",
      password: entry.values.get("password") ?? "",
      fields: ["username", "password"],
    }),
};
