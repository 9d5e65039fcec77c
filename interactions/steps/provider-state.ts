/** What a running sign-in keeps of a provider: that somebody has left for it, who came back, and what may be linked. Plain JSON. */
import type { LinkingRefusal, StartedLinking } from "../../accounts/identities/linking.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";

/** A provider that somebody has left for. */
export interface LeftFor {
  readonly key: string;
  /** The step that the person left. */
  readonly from: "login" | "reauthenticate";
  /** `provider-problem`: why nobody came in. */
  readonly problem?: ProviderProblem;
  /** `not-among`: the domains that it lets in, as far as they are configured. */
  readonly organizations?: readonly string[];
}

/**
 * Why nobody came in by a provider. `slow`: it has not answered; `unusable`: its answer can't be used; `not-here`: the account
 * there opens none here, and none can be made; `not-among`: it is none of those that this service lets in; `of-another`: it is
 * linked to another account.
 */
export const PROVIDER_PROBLEMS = ["slow", "unusable", "not-here", "not-among", "of-another"] as const;
export type ProviderProblem = (typeof PROVIDER_PROBLEMS)[number];
/** Somebody who came back from a provider, and whom nobody knows yet. */
export interface Newcomer extends UpstreamIdentity {
  /** When the person left for it, in milliseconds since the epoch. */
  readonly leftAt: number;
}

/** What `provider-known` offers. A disabled account has the same. */
export interface KnownAddress {
  /** The kinds of the account's ways to sign in. */
  readonly ways: readonly string[];
  /** It signs in with this provider and by nothing else: a code to its mailbox comes first. */
  readonly only?: true;
}

/** An identity that is being linked. */
export interface LinkingState extends StartedLinking {
  readonly identity: Newcomer;
  /** The account, as the page shows it. */
  readonly owner: { readonly name: string; readonly email: string };
  /** It can't be linked: the page says why. */
  readonly refused?: LinkingRefusal;
}
