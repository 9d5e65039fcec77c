/** A code from a mail, as the steps ask for it. */
import type { SignInState } from "./running-sign-in.ts";
import type { Field, Outcome, Problem } from "./step.ts";

export const codeField = {
  name: "code",
  type: "text",
  autocomplete: "one-time-code",
  required: true,
} as const satisfies Field;

export function expired(step: "register" | "provider-register" | "forgot-password"): SignInState {
  return { step, notice: "expired" };
}

/** Nothing waits for this code or link any more: the person starts again. */
export const again = (step: "register" | "forgot-password"): Outcome => ({
  kind: "next",
  state: expired(step),
});

/** What is wrong with a code from a mail. */
export const wrongCode = (tries: number): Problem => ({
  code: tries === 0 ? "no-tries" : "wrong-code",
  fields: ["code"],
  values: { tries },
});
