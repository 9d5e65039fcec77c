/** The step `login`: a name and a password, or a passkey. An unknown name and a wrong password get the same answer after the same time. */
import { signInWithPasskey, suggesting, withPasskey } from "./passkey-sign-in.ts";
import { checkPassword } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const login: Step = {
  isOpen: ({ prompt }) => prompt !== "consent",
  fields(signIn) {
    const { loginHint = "", state } = signIn;
    const { username = loginHint } = state;
    const autocomplete = suggesting("username", signIn, "login");
    return [
      { name: "username", type: "text", autocomplete, required: true, value: username },
      { name: "password", type: "password", autocomplete: "current-password", required: true },
    ];
  },
  ...withPasskey("login"),
  ways: () => ["forgot-password", "register"],
  submit: (entry, services) =>
    entry.action === "passkey"
      ? signInWithPasskey(entry, services, "login")
      : checkPassword(entry, services, {
          username: entry.values.get("username") ?? "",
          password: entry.values.get("password") ?? "",
          fields: ["username", "password"],
        }),
};
