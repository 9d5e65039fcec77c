/** Codes, tokens, grants, sessions and interactions: what oidc-provider keeps, and what the service adds to it. */

/** JSON that oidc-provider wants kept for an artifact. */
export type Payload = Record<string, unknown>;

/**
 * One artifact. `key` is a hash of the secret that the client or browser holds, so a copy of the store opens nothing.
 */
export interface Artifact {
  /** The model's name in oidc-provider, such as `AccessToken` or `Session`. */
  readonly model: string;
  /** Unique together with `model`. */
  readonly key: string;
  readonly payload: Payload;
  /** Milliseconds since the epoch; from then on the artifact is not found any more. */
  readonly expiresAt: number;
  /** Milliseconds since the epoch: set once, by the request that used the code or refresh token. */
  readonly consumedAt?: number;
  /** Kept beside a consumed refresh token: the sealed answer of the request that consumed it. */
  readonly replay?: string;
  /** Milliseconds since the epoch; from then on `replay` is not found any more. */
  readonly replayUntil?: number;
  /** The family: the key of the grant from which this artifact descends. */
  readonly grantKey?: string;
  /** A session's public identifier. */
  readonly uid?: string;
  readonly accountId?: string;
  readonly clientId?: string;
}

/** An artifact as it was read. Frozen, or a copy that nobody else has. */
export interface StoredArtifact extends Artifact {
  /** The condition of the next write. */
  readonly version: string;
  /** By the store's own clock: when the request that consumed it is known, or counts, as answered. */
  readonly answeredAt?: number;
}

/** Which grants and sessions of an account are meant. */
export interface ArtifactFilter {
  readonly accountId: string;
  /** Only of these clients; default: of any client and of none. */
  readonly clientIds?: readonly string[];
  /** Default: both. */
  readonly models?: readonly ("Grant" | "Session")[];
}

/** Milliseconds after which the request that consumed an artifact counts as answered: none is worked at for longer. */
export const ANSWERED_WITHIN = 5_000;
