/** Receivers of notifications: how their credentials are kept, and opened again to send. */
import type { DirectoryStore, EntryKind, ReceiverRecord } from "../directory/directory.ts";
import type { NotificationType } from "../../notifier/plan.ts";
import { SignInError } from "../errors.ts";
import { isObjectName } from "../untrusted-keys.ts";
import type { Sealer } from "../sealing.ts";

/** A receiver as it is configured. */
export interface ReceiverSettings {
  /** http or https, without user name and fragment. Whether it may be connected to is checked when something is sent. */
  readonly url: string;
  /** The Basic credentials prepared for the receiver: printable text, no colon in `client_id`. */
  readonly client_id: string;
  readonly client_secret: string;
  /** The notifications that it gets. */
  readonly types: readonly NotificationType[];
  /**
   * `whsec_` and the Base64 of 24 to 64 bytes. During a rotation two of them, the new one first, with a space
   * between them. Without one notifications carry no signature.
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

/** The entry that a receiver's name means; `undefined` when it is no such name. */
export function parseReceiverName(
  name: string,
): { readonly kind: EntryKind; readonly key: string } | undefined {
  const [, kind, key] = /^(service|group|portal):([A-Za-z0-9_-]{1,64})$/u.exec(name) ?? [];
  if (key === undefined || isObjectName(key)) return undefined;
  return { kind: kind === "service" || kind === "group" ? kind : "portal", key };
}

function context(kind: EntryKind, key: string): string {
  return `receiver ${receiverName(kind, key)}`;
}

/** The secrets with which a receiver's notifications are signed; none without a setting. */
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
  return { url, client_id, types, sealed: sealer.seal(context(kind, key), JSON.stringify(secrets)) };
}

/** A receiver with its credentials, as they are needed to send. */
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
  const { url, client_id, types } = receiver;
  const secrets = JSON.parse(sealer.open(context(kind, key), receiver.sealed)) as {
    readonly client_secret: string;
    readonly signing_secret?: string;
  };
  return { url, client_id, types, ...secrets };
}

/**
 * The receiver of this name with its credentials; `undefined` when there is none, or none any more.
 * @throws SignInError `keys` when no key opens the credentials.
 */
export async function findReceiver(
  deps: { readonly directory: Pick<DirectoryStore, "findEntry">; readonly sealer: Sealer },
  name: string,
): Promise<OpenedReceiver | undefined> {
  const place = parseReceiverName(name);
  if (place === undefined) return undefined;
  const entry = await deps.directory.findEntry(place.kind, place.key);
  if (entry === undefined || entry.receiver === null) return undefined;
  return openReceiver(deps.sealer, place.kind, place.key, entry.receiver);
}

/** Whether the kept receiver is the one that is configured; credentials that no key opens are another one. */
export function sameReceiver(
  sealer: Sealer,
  kind: EntryKind,
  key: string,
  kept: ReceiverRecord | null,
  settings: ReceiverSettings | undefined,
): boolean {
  if (kept === null || settings === undefined) return kept === null && settings === undefined;
  try {
    const { url, client_id, client_secret, types, signing_secret } = openReceiver(sealer, kind, key, kept);
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
