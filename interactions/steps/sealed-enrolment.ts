/** An enrolment in the state of a sign-in, sealed: it holds the secret of a new app. */
import type { Enrolment, NewAccountEnrolment } from "../../accounts/factors/enrolment.ts";
import type { RunningSignIn, StepServices } from "./step.ts";

const contextOf = (uid: string): string => `enrolment ${uid}`;

/** The step `enrol`'s part of the state. */
export function sealedEnrolment(
  { uid }: Pick<RunningSignIn, "uid">,
  { sealer }: Pick<StepServices, "sealer">,
  enrolment: Enrolment | NewAccountEnrolment,
): string {
  return sealer.seal(contextOf(uid), JSON.stringify(enrolment));
}

/** The enrolment in the state of a sign-in; `undefined` if there is none, or it can't be read any more. */
export function openedEnrolment(
  { uid, state }: Pick<RunningSignIn, "uid" | "state">,
  { sealer }: Pick<StepServices, "sealer">,
): RunningSignIn["enrolment"] {
  if (state.enrolment === undefined) return undefined;
  try {
    return JSON.parse(sealer.open(contextOf(uid), state.enrolment)) as RunningSignIn["enrolment"];
  } catch {
    // Its key was removed.
    return undefined;
  }
}
