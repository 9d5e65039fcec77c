/** Trips: somebody has left for a provider and has to come back in the same browser. */
import { hash } from "node:crypto";
import type { DeploymentKind } from "../../config/configuration.ts";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** What the trip is for. */
export type TripOwner =
  /** A sign-in that runs. `sub`: the account that signs in again, and no other. */
  | { readonly kind: "sign-in"; readonly uid: string; readonly sub?: string }
  /** An account, in one of its sessions: a provider is linked. `generation` is that of its sessions then. */
  | {
      readonly kind: "account";
      readonly sub: string;
      readonly session: string;
      readonly generation: number;
    };

/** A trip as it is stored. Times are in milliseconds since the epoch. */
export interface StoredTrip {
  /** The digest of `state`; of a trip that has ended at the account pages, that of its session. */
  readonly digest: string;
  /** The key of the provider in the configuration. */
  readonly provider: string;
  readonly deployment: DeploymentKind;
  /** The digest of the browser's own cookie. */
  readonly browser: string;
  /** The SHA-256 of the trip's cookie. */
  readonly cookie: string;
  readonly owner: TripOwner;
  /** Sealed JSON: what the provider's answer is checked with, or who has come back. */
  readonly sealed: string;
  readonly startedAt: number;
  readonly expiresAt: number;
}

/** How long a trip may take. */
export const TRIP_SECONDS = 600;

/** The digest that a trip is stored under while the person is away. */
export const tripDigest = (state: string): string => hash("sha256", `trip ${state}`, "base64url");

/** The digest that it is stored under once the person is back at the account pages: a session has one. */
export const returnedDigest = (session: string): string => hash("sha256", `returned ${session}`, "base64url");

/** The sealing context of a trip. */
export const tripContext = (digest: string): string => `trip ${digest}`;

export const TRIP: Kind<StoredTrip> = defineKind<StoredTrip>({
  name: "trip",
  holds: "a person who has left for a provider, or has come back to link an account there",
  key: "the SHA-256 of `state`, or of the session that it came back to",
  keyOf: ({ digest }) => digest,
  parent: { kind: ACCOUNT, key: ({ owner }) => owner.sub },
  expires: "ten minutes after it began",
  expiresAt: ({ expiresAt }) => expiresAt,
  sealed: ({ sealed, ...rest }, replace) => ({ ...rest, sealed: replace(tripContext(rest.digest), sealed) }),
  store: "storage",
  exported: true,
  afterRestore: "removed",
  afterReset: "removed",
  personal: "the `sub`; sealed with `keys.secrets`: who the person is at the provider",
});
