/** Receivers of notifications. Their credentials are sealed in the storage and opened to send. */
import { z } from "zod";
import { described } from "../config/documented-schema.ts";
import { isSigningSecret, SIGNING_SECRET_FORM } from "../config/value-forms.ts";
import type { EntryKind, ReceiverRecord } from "../records/directory/directory.ts";
import { exactly, ruled, whenValid } from "./arguments.ts";
import { NOTIFICATION_TYPES } from "../receiver/notification.ts";
import { receiverAddressProblem, textProblem } from "./text-rules.ts";
import { receiverContext } from "../records/directory/directory-kinds.ts";
import { InvalidArgument, SignInError } from "../core/errors.ts";
import { isObjectName } from "../core/untrusted-keys.ts";
import type { Sealer } from "../core/sealing.ts";

const notificationTypes = z
  .array(z.enum(NOTIFICATION_TYPES, { error: `must be one of ${NOTIFICATION_TYPES.join(", ")}` }), {
    error: "must be a list of notification types",
  })
  .refine((all) => new Set(all).size === all.length, { error: "must not have a type twice" })
  .readonly();

/** RFC 7617 section 2: no control characters, and the colon ends the user-id. */
const credential = ruled(textProblem);

const shape = {
  /** Where notifications are sent; its address is checked at every connection, see `notifications.allowedReceivers`. */
  url: described(ruled(receiverAddressProblem), {
    form: "an absolute http or https URL without user, password and fragment",
  }),
  /** User name of the Basic credentials that the receiver expects. */
  client_id: described(
    ruled((text) => textProblem(text) ?? (text.includes(":") ? "must not have a colon" : undefined)),
    { form: "a text of 1 to 256 characters without a colon" },
  ),
  /** Password of the Basic credentials that the receiver expects. */
  client_secret: described(credential, { form: "a text of 1 to 256 characters" }),
  /** The notifications that it receives. */
  types: described(notificationTypes, {
    form: `a list of different entries, each one of ${NOTIFICATION_TYPES.map((type) => `\`${type}\``).join(", ")}`,
  }),
  /**
   * Signs notifications (Standard Webhooks); during a rotation both secrets, the new one first. Default: none: notifications
   * are not signed.
   */
  signing_secret: described(ruled(signingSecretProblem).optional(), {
    form: SIGNING_SECRET_FORM,
  }),
};

const configured = exactly(shape);

/** A receiver as it is configured. */
export interface ReceiverSettings extends Readonly<z.input<typeof configured>> {}
export const receiverSettings: z.ZodType<ReceiverSettings, ReceiverSettings> = configured;

const seeded = exactly({
  ...shape,
  /**
   * Password of the Basic credentials that the receiver expects. `null`: not in this file. A receiver keeps its secrets while the origin
   * of `url` stays; another one waits until they are set.
   */
  client_secret: described(shape.client_secret.nullable(), {
    form: "a text of 1 to 256 characters, or `null`",
  }),
}).superRefine(
  ({ client_secret, signing_secret }, context) => {
    if (client_secret === null && signing_secret !== undefined)
      context.addIssue({
        code: "custom",
        path: ["signing_secret"],
        message: "must not be set when client_secret is null",
      });
  },
  whenValid("client_secret", "signing_secret"),
);

/** A receiver as a seed takes it: its secrets may be elsewhere. */
export interface SeededReceiver extends Readonly<z.input<typeof seeded>> {}
export const seededReceiver: z.ZodType<SeededReceiver, SeededReceiver> = seeded;

const changed = exactly({
  ...shape,
  /** Default: stays, as long as the origin of `url` does. */
  client_secret: shape.client_secret.optional(),
  /** Default: stays, as long as the origin of `url` does. `null`: notifications are no longer signed. */
  signing_secret: shape.signing_secret.nullable(),
});

/** A receiver as an update takes it: nobody can read the secrets, so they may be left out. */
export interface ReceiverChanges extends Readonly<z.input<typeof changed>> {}
export const receiverChanges: z.ZodType<ReceiverChanges, ReceiverChanges> = changed;

function signingSecretProblem(text: string): string | undefined {
  return isSigningSecret(text) ? undefined : `must be ${SIGNING_SECRET_FORM.replaceAll("`", "")}`;
}

/** A receiver as the directory shows it: without its secrets. */
export interface ShownReceiver {
  readonly url: string;
  readonly client_id: string;
  readonly types: readonly string[];
}

/** Where a receiver is configured: at an entry of the directory, or in `events.receivers` of the configuration. */
export type ReceiverPlace = EntryKind | "events";

const PLACES: readonly ReceiverPlace[] = ["service", "group", "portal", "events"];

/** `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. */
export function receiverName(kind: ReceiverPlace, key: string): string {
  return `${kind}:${key}`;
}

/** Where a receiver is configured, and its key there. */
export interface ReceiverName {
  readonly kind: ReceiverPlace;
  readonly key: string;
}

/** What a receiver's name stands for; `undefined` if it is not one. */
export function parseReceiverName(name: string): ReceiverName | undefined {
  const [, place, key] = /^([a-z]+):([A-Za-z0-9_-]{1,64})$/u.exec(name) ?? [];
  const kind = PLACES.find((each) => each === place);
  return kind === undefined || key === undefined || isObjectName(key) ? undefined : { kind, key };
}

/** The receiver with its credentials sealed; without them, it is stored as one whose credentials are lost. */
export function sealReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  receiver: SeededReceiver,
): ReceiverRecord {
  const { url, client_id, client_secret, types, signing_secret } = receiver;
  if (client_secret === null) return { url, client_id, types, sealed: null };
  const secrets = { client_secret, ...(signing_secret === undefined ? {} : { signing_secret }) };
  return { url, client_id, types, sealed: sealer.seal(receiverContext(kind, key), JSON.stringify(secrets)) };
}

/** A receiver with its credentials. */
export interface OpenedReceiver extends ShownReceiver {
  readonly client_secret: string;
  readonly signing_secret?: string;
}

/** @throws SignInError `unusable_secrets` when no key opens the credentials. */
export function openReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  receiver: ReceiverRecord,
): OpenedReceiver {
  const { url, client_id, types, sealed } = receiver;
  if (sealed === null) throw new SignInError("unusable_secrets", "its credentials are lost: set them again");
  const secrets = JSON.parse(sealer.open(receiverContext(kind, key), sealed)) as {
    readonly client_secret: string;
    readonly signing_secret?: string;
  };
  return { url, client_id, types, ...secrets };
}

/** The stored receiver; `undefined` if there is none, or no key opens its credentials. */
function readable(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  stored: ReceiverRecord | null,
): OpenedReceiver | undefined {
  try {
    return stored === null ? undefined : openReceiver(sealer, kind, key, stored);
  } catch (error) {
    if (error instanceof SignInError) return undefined;
    throw error;
  }
}

/**
 * The settings with the secrets that were left out. They stay only while the origin of the address does: otherwise, whoever
 * changes the address would get them.
 * @throws InvalidArgument naming the secrets that have to be given again.
 */
export function withSecrets(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  stored: ReceiverRecord | null,
  { client_secret, signing_secret, ...others }: ReceiverChanges,
): ReceiverSettings {
  const before = readable(sealer, kind, key, stored);
  const isKept = before !== undefined && new URL(before.url).origin === new URL(others.url).origin;
  const password = client_secret ?? (isKept ? before.client_secret : undefined);
  const isUnsigned = signing_secret === undefined && !isKept && before?.signing_secret !== undefined;
  if (password === undefined || isUnsigned) {
    const missing = [
      ...(password === undefined ? ["client_secret"] : []),
      ...(isUnsigned ? ["signing_secret"] : []),
    ];
    const message = before === undefined ? "is required" : "is required, because url has another origin";
    throw new InvalidArgument(...missing.map((name) => ({ path: `${kind}.receiver.${name}`, message })));
  }
  return {
    ...others,
    client_secret: password,
    signing_secret: (signing_secret === undefined ? before?.signing_secret : signing_secret) ?? undefined,
  };
}

/** The receiver of a seed, with the secrets of the stored one in place of `null` if they may stay. See {@link withSecrets}. */
export function withStoredSecrets(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  stored: ReceiverRecord | null,
  settings: SeededReceiver,
): SeededReceiver {
  if (settings.client_secret !== null) return settings;
  const before = readable(sealer, kind, key, stored);
  if (before === undefined || new URL(before.url).origin !== new URL(settings.url).origin) return settings;
  return { ...settings, client_secret: before.client_secret, signing_secret: before.signing_secret };
}

/** Whether the stored receiver equals the settings. Credentials that no key opens never do. */
export function sameReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  stored: ReceiverRecord | null,
  settings: SeededReceiver | null,
): boolean {
  if (stored === null || settings === null) return stored === settings;
  const isSame =
    stored.url === settings.url &&
    stored.client_id === settings.client_id &&
    stored.types.join(" ") === settings.types.join(" ");
  if (settings.client_secret === null) return isSame && stored.sealed === null;
  const before = readable(sealer, kind, key, stored);
  return (
    isSame &&
    before?.client_secret === settings.client_secret &&
    before.signing_secret === settings.signing_secret
  );
}
