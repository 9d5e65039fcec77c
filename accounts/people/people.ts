/** Everything that a person does with the help of mail: register, choose a new password, change the address. */
import type { Configuration } from "../../config/configuration.ts";
import { isClearSmtp } from "../../config/value-forms.ts";
import { type AddressChanges, createAddressChanges } from "./address-changes.ts";
import type { Confirmations } from "./confirmations.ts";
import { createPasswordResets, type PasswordResets } from "./password-resets.ts";
import { createRegistrations, type Registrations } from "./registrations.ts";
import type { PeopleOptions } from "./requests.ts";

/** Which members exist depends on the configuration. Pages must not offer what is missing. */
export interface People {
  readonly confirmations: Confirmations;
  /** Missing without `interactions.registration`, and without mail. */
  readonly registrations?: Registrations;
  /** Missing without mail. */
  readonly passwordResets?: PasswordResets;
  /** Missing without mail. */
  readonly addressChanges?: AddressChanges;
}

/** @param onWarning gets messages for the operator. */
export function createPeople(
  {
    interactions: { registration, reservedUsernames },
    mail,
    mailer,
  }: Pick<Configuration, "interactions" | "mail" | "mailer">,
  options: PeopleOptions,
  onWarning: (text: string) => void,
): People {
  const { confirmations } = options;
  if (mail === undefined && mailer === undefined) {
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
  return {
    confirmations,
    ...(settings !== false && {
      registrations: createRegistrations({ ...options, settings, reservedUsernames }),
    }),
    passwordResets: createPasswordResets(options),
    addressChanges: createAddressChanges(options, settings === false ? undefined : settings.domains),
  };
}
