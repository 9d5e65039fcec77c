/** Receivers as they are at the moment of an attempt, so that a change applies to what waits. */
import type { DirectoryStore } from "../adapters/directory.ts";
import { findReceiver, signingSecrets } from "../lib/domain/receivers.ts";
import type { Sealer } from "../lib/sealing.ts";
import type { AttemptTarget } from "./attempt.ts";

export interface TargetDeps {
  readonly directory: Pick<DirectoryStore, "findEntry">;
  readonly sealer: Sealer;
}

/**
 * `undefined` when there is no such receiver, or none any more.
 * @throws SignInError `keys` when no key opens its credentials.
 */
export async function findTarget(deps: TargetDeps, receiver: string): Promise<AttemptTarget | undefined> {
  const found = await findReceiver(deps, receiver);
  if (found === undefined) return undefined;
  const { url, client_id, client_secret, signing_secret } = found;
  return { url, client_id, client_secret, signing_secrets: signingSecrets(signing_secret) };
}
