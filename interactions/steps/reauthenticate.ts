/**
 * The step `reauthenticate`: the password or a passkey of the person who is signed in, before something that needs a
 * recent sign-in. A person with neither, because passkeys have been turned off, can only choose a new password by mail.
 */
import { signInWithPasskey, suggesting, takesPassword, withPasskey } from "./passkey-sign-in.ts";
import { checkPassword } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const reauthenticate: Step = {
  isOpen: ({ prompt, account }) => prompt === "login" && account !== undefined,
  fields: (signIn) =>
    takesPassword(signIn, "reauthenticate")
      ? [
          {
            name: "password",
            type: "password",
            autocomplete: suggesting("current-password", signIn, "reauthenticate"),
            required: true,
          },
        ]
      : [],
  ...withPasskey("reauthenticate"),
  ways: () => ["forgot-password", "login"],
  async submit(entry, services) {
    const { account } = entry.signIn;
    if (account === undefined) return { kind: "gone" };
    if (entry.action === "passkey") return signInWithPasskey(entry, services, "reauthenticate", account.sub);
    return checkPassword(entry, services, {
      username: account.email,
      password: entry.values.get("password") ?? "",
      fields: ["password"],
    });
  },
};
