/** The first page of a sign-in, for somebody who is not known yet and for somebody who is signed in already. */
import { withWays } from "./sign-in-ways.ts";
import type { Step } from "./step.ts";

/** The step `login`: a name and a password, or another way. An unknown name and a wrong password get the same answer after the same time. */
export const login: Step = {
  isOpen: ({ prompt }) => prompt !== "consent",
  ...withWays("login", ({ loginHint = "", state: { username = loginHint } }) => [
    { name: "username", type: "text", autocomplete: "username", required: true, value: username },
  ]),
  alternatives: () => ["forgot-password", "email-code", "register"],
};

/**
 * The step `reauthenticate`: what the person who is signed in can sign in with, before something that needs a recent sign-in. A
 * person with nothing, because passkeys have been turned off, can only choose a new password by mail.
 */
export const reauthenticate: Step = {
  isOpen: ({ prompt, account }) => prompt === "login" && account !== undefined,
  ...withWays("reauthenticate"),
  alternatives: () => ["forgot-password", "login"],
};
