/** Receivers as they are at the moment of an attempt, so that a change applies to what waits. */
import type { DirectoryStore, ReceiverRecord } from "../lib/directory/directory.ts";
import { openReceiver, parseReceiverName, signingSecrets } from "../lib/domain/receivers.ts";
import { SignInError } from "../lib/errors.ts";
import type { Sealer } from "../lib/sealing.ts";
import type { AttemptTarget } from "./attempt.ts";

/** For operators to read: why nothing can be sent to a receiver, until a key that opens is there again. */
export const UNOPENED = "no key of keys.secrets opens its credentials";

/** Whether it is said by `FindTarget` that no key opens the credentials. */
export function isUnopened(error: unknown): boolean {
  return error instanceof SignInError && error.code === "keys";
}

export interface TargetDeps {
  readonly directory: Pick<DirectoryStore, "findEntry">;
  readonly sealer: Sealer;
}

/**
 * `undefined` when there is no such receiver, or none any more.
 * @throws SignInError `keys` when no key opens its credentials.
 */
export type FindTarget = (receiver: string) => Promise<AttemptTarget | undefined>;

function isSame(one: ReceiverRecord, other: ReceiverRecord): boolean {
  return one.sealed === other.sealed && one.url === other.url && one.client_id === other.client_id;
}

/** Looks a receiver up each time, and opens its credentials when they are others than the last time. */
export function createTargets({ directory, sealer }: TargetDeps): FindTarget {
  const opened = new Map<string, { readonly record: ReceiverRecord; readonly target: AttemptTarget }>();

  return async function findTarget(receiver) {
    const place = parseReceiverName(receiver);
    const entry = place && (await directory.findEntry(place.kind, place.key));
    const record = entry?.receiver ?? undefined;
    if (place === undefined || record === undefined) {
      opened.delete(receiver);
      return undefined;
    }
    const last = opened.get(receiver);
    if (last !== undefined && isSame(last.record, record)) return last.target;
    const { url, client_id, client_secret, signing_secret } = openReceiver(
      sealer,
      place.kind,
      place.key,
      record,
    );
    const target = { url, client_id, client_secret, signing_secrets: signingSecrets(signing_secret) };
    opened.set(receiver, { record, target });
    return target;
  };
}
