/** Receivers of notifications. Their credentials are sealed in the storage and opened to send. */
import type { EntryKind, ReceiverRecord } from "../records/directory/directory.ts";
import type { NotificationType } from "./plan.ts";
import { receiverContext } from "../records/directory/directory-kinds.ts";
import { SignInError } from "../core/errors.ts";
import { isObjectName } from "../core/untrusted-keys.ts";
import type { Sealer } from "../core/sealing.ts";

/** A receiver as it is configured. */
export interface ReceiverSettings {
  /** http or https, without user name and fragment. Its address is checked at every connection. */
  readonly url: string;
  /** User name and password of the Basic credentials: printable text, no colon in `client_id`. */
  readonly client_id: string;
  readonly client_secret: string;
  /** The notifications that it receives. */
  readonly types: readonly NotificationType[];
  /**
   * `whsec_` and the Base64 of 24 to 64 bytes; during a rotation two of them, the new one first, separated by a space.
   * Without one, notifications are not signed.
   */
  readonly signing_secret?: string | undefined;
}

/** A receiver as the directory shows it: without its secrets. */
export interface ShownReceiver {
  readonly url: string;
  readonly client_id: string;
  readonly types: readonly string[];
}

/** `service:KEY`, `group:KEY` or `portal:KEY`. */
export function receiverName(kind: EntryKind, key: string): string {
  return `${kind}:${key}`;
}

/** The entry of the directory that has a receiver. */
export interface ReceiverName {
  readonly kind: EntryKind;
  readonly key: string;
}

/** The entry that a receiver's name stands for; `undefined` if it is not one. */
export function parseReceiverName(name: string): ReceiverName | undefined {
  const [, kind, key] = /^(service|group|portal):([A-Za-z0-9_-]{1,64})$/u.exec(name) ?? [];
  if (key === undefined || isObjectName(key)) return undefined;
  return { kind: kind === "service" || kind === "group" ? kind : "portal", key };
}

/** The secrets of a `signing_secret`; none if it is not set. */
export function signingSecrets(setting: string | undefined): string[] {
  return setting === undefined ? [] : setting.split(" ");
}

/** The receiver with its credentials sealed. */
export function sealReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  receiver: ReceiverSettings,
): ReceiverRecord {
  const { url, client_id, client_secret, types, signing_secret } = receiver;
  const secrets = { client_secret, ...(signing_secret === undefined ? {} : { signing_secret }) };
  return { url, client_id, types, sealed: sealer.seal(receiverContext(kind, key), JSON.stringify(secrets)) };
}

/** A receiver with its credentials. */
export interface OpenedReceiver extends ShownReceiver {
  readonly client_secret: string;
  readonly signing_secret?: string;
}

/** @throws SignInError `keys` when no key opens the credentials. */
export function openReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  receiver: ReceiverRecord,
): OpenedReceiver {
  const { url, client_id, types, sealed } = receiver;
  if (sealed === null) throw new SignInError("keys", "its credentials are lost: set them again");
  const secrets = JSON.parse(sealer.open(receiverContext(kind, key), sealed)) as {
    readonly client_secret: string;
    readonly signing_secret?: string;
  };
  return { url, client_id, types, ...secrets };
}

/** Whether the stored receiver equals the settings. Credentials that no key opens never do. */
export function sameReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  stored: ReceiverRecord | null,
  settings: ReceiverSettings | undefined,
): boolean {
  if (stored === null || settings === undefined) return stored === null && settings === undefined;
  try {
    const { url, client_id, client_secret, types, signing_secret } = openReceiver(sealer, kind, key, stored);
    return (
      url === settings.url &&
      client_id === settings.client_id &&
      client_secret === settings.client_secret &&
      signing_secret === settings.signing_secret &&
      types.join(" ") === settings.types.join(" ")
    );
  } catch (error) {
    if (error instanceof SignInError) return false;
    throw error;
  }
}
