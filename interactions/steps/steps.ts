/** The table of steps. To add a step, add a row. */
import { confirmEmail } from "./confirm-email.ts";
import { consent } from "./consent.ts";
import { continueAs } from "./continue.ts";
import { emailCode } from "./email-code.ts";
import { enrol, enrolConfirm, recoveryCodes } from "./enrol.ts";
import { forgotPassword } from "./forgot-password.ts";
import { invitation } from "./invitation.ts";
import { hintedProvider, login, reauthenticate } from "./login.ts";
import { newPassword } from "./new-password.ts";
import { offerPasskey } from "./offer-passkey.ts";
import { providerKnown } from "./provider-known.ts";
import { providerConfirm, providerLink } from "./provider-link.ts";
import { providerRegister } from "./provider-register.ts";
import { register } from "./register.ts";
import { reviewMethods } from "./review-methods.ts";
import { secondFactor } from "./second-factor.ts";
import { providerFresh } from "./provider-fresh.ts";
import { providerProblem } from "./provider.ts";
import type { RunningSignIn, StepName } from "./running-sign-in.ts";
import type { Offers, Step } from "./step.ts";
import { terms } from "./terms.ts";

export const STEPS: Readonly<Record<StepName, Step>> = {
  login,
  provider: hintedProvider,
  reauthenticate,
  "email-code": emailCode,
  "second-factor": secondFactor,
  "provider-problem": providerProblem,
  "provider-fresh": providerFresh,
  "offer-passkey": offerPasskey,
  "enrol-confirm": enrolConfirm,
  enrol,
  "recovery-codes": recoveryCodes,
  "review-methods": reviewMethods,
  register,
  "confirm-email": confirmEmail,
  invitation,
  "provider-register": providerRegister,
  "provider-known": providerKnown,
  "provider-confirm": providerConfirm,
  "provider-link": providerLink,
  "forgot-password": forgotPassword,
  "new-password": newPassword,
  terms,
  consent,
  continue: continueAs,
};

/** The step that a sign-in begins with. */
export function firstStep(signIn: RunningSignIn, offers: Offers): StepName {
  if (signIn.prompt === "consent" || signIn.prompt === "continue") return signIn.prompt;
  if (signIn.operatorsOnly) return "login";
  if (signIn.prompt === "create" && offers.registration !== undefined) return "register";
  if (signIn.invited) return "invitation";
  if (signIn.account !== undefined) return "reauthenticate";
  return signIn.hinted === undefined ? "login" : "provider";
}
