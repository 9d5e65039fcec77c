/** The table of steps. A row and a file make a step. */
import { consent } from "./consent.ts";
import { login } from "./login.ts";
import type { RunningSignIn, Step, StepName } from "./step.ts";

export const STEPS: Readonly<Record<StepName, Step>> = { login, consent };

/** The step that the prompt of the protocol asks for. */
export function firstStep({ prompt }: RunningSignIn): StepName {
  return prompt;
}
