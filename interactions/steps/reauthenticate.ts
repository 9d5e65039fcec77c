/**
 * The step `reauthenticate`: what the person who is signed in can sign in with, before something that needs a recent sign-in. A
 * person with nothing, because passkeys have been turned off, can only choose a new password by mail.
 */
import { withWays } from "./sign-in-ways.ts";
import type { Step } from "./step.ts";

export const reauthenticate: Step = {
  isOpen: ({ prompt, account }) => prompt === "login" && account !== undefined,
  ...withWays("reauthenticate"),
  ways: () => ["forgot-password", "login"],
};
