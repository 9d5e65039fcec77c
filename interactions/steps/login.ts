/** The step `login`: a name and a password, or another way. An unknown name and a wrong password get the same answer after the same time. */
import { withWays } from "./sign-in-ways.ts";
import type { Step } from "./step.ts";

export const login: Step = {
  isOpen: ({ prompt }) => prompt !== "consent",
  ...withWays("login", ({ loginHint = "", state: { username = loginHint } }) => [
    { name: "username", type: "text", autocomplete: "username", required: true, value: username },
  ]),
  ways: () => ["forgot-password", "register"],
};
