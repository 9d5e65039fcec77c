/** Everything that a person does with the help of mail: register, choose a new password, change the address. */
import { isClearSmtp } from "../../config/value-forms.ts";
import type { Identities } from "../identities/identities.ts";
import { createLinking, type Linking } from "../identities/linking.ts";
import { type AddressChanges, createAddressChanges } from "./address-changes.ts";
import type { Confirmations } from "./confirmations.ts";
import { createPasswordResets, type PasswordResets } from "./password-resets.ts";
import { createRegistrations, type Registrations } from "./registrations.ts";
import { dotlessDomains } from "../providers.ts";
import type { PeopleServices } from "./requests.ts";
import { createSignInCodes, type SignInCodes } from "./sign-in-codes.ts";

/** Which members exist depends on the configuration. Pages must not offer what is missing. */
export interface People {
  readonly confirmations: Confirmations;
  /** Missing without `interactions.registration`, and without mail. */
  readonly registrations?: Registrations;
  /** Missing without `signIn.emailCode`, and without mail. */
  readonly signInCodes?: SignInCodes;
  /** The same where nobody can sign in so: for somebody whose provider does not prove a recent sign-in, and who has nothing else. */
  readonly freshCodes?: SignInCodes;
  /** Missing without mail. */
  readonly passwordResets?: PasswordResets;
  /** Missing without mail. */
  readonly addressChanges?: AddressChanges;
  /** Missing without mail. */
  readonly linking?: Linking;
}

export function createPeople(services: PeopleServices, identities: Identities): People {
  const { configuration, confirmations, onWarning } = services;
  const { mail, mailer, signIn, profile } = configuration;
  const { registration } = configuration.interactions;
  if (mail === undefined && mailer === undefined) {
    if (signIn.emailCode) onWarning("signIn.emailCode is off: the codes come by mail, and `mail` is not set");
    if (registration !== false)
      onWarning(
        "interactions.registration is off: people confirm their address by mail, and `mail` is not set",
      );
    return { confirmations };
  }
  if (
    mailer === undefined &&
    mail !== undefined &&
    "url" in mail &&
    mail.allowClearText &&
    isClearSmtp(mail.url)
  )
    onWarning(
      "mail.allowClearText is on: reset links and the mail server's password can be read on the way to it",
    );
  const settings = registration === true ? {} : registration;
  const codes = createSignInCodes(services);
  return {
    confirmations,
    ...(settings !== false && {
      registrations: createRegistrations(services, settings),
    }),
    ...(signIn.emailCode && profile !== "strict" && { signInCodes: codes }),
    freshCodes: codes,
    linking: createLinking(services, identities),
    passwordResets: createPasswordResets(services),
    addressChanges: createAddressChanges(services, dotlessDomains(configuration)),
  };
}
