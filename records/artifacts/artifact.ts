/** Artifacts: the codes, tokens, grants, sessions and interactions of oidc-provider, with what the service adds. */

/** The JSON that oidc-provider stores. */
export type Payload = Record<string, unknown>;

/**
 * An artifact. `key` is a hash of the secret that the client or browser holds, so a copy of the store reveals no secret.
 */
export interface Artifact {
  /** The model's name in oidc-provider, such as `AccessToken` or `Session`. */
  readonly model: string;
  /** Unique together with `model`. */
  readonly key: string;
  readonly payload: Payload;
  /** Milliseconds since the epoch; from then on the artifact is not found. */
  readonly expiresAt: number;
  /** Milliseconds since the epoch: set once, by the request that used the code or refresh token. */
  readonly consumedAt?: number;
  /** Of a consumed refresh token: the sealed response of the request that consumed it. */
  readonly replay?: string;
  /** Milliseconds since the epoch; from then on `replay` is not returned. */
  readonly replayUntil?: number;
  /** The key of the grant that this artifact descends from. */
  readonly grantKey?: string;
  /** A session's public identifier; the HMAC of the code that a person types for a device. */
  readonly uid?: string;
  readonly accountId?: string;
  readonly clientId?: string;
  /** Of an interaction: the digest of the cookie of the browser in which it began. oidc-provider doesn't know it. */
  readonly browser?: string;
  /** Of an interaction: what the person has done so far. Of a device code: how it is polled. oidc-provider doesn't know it. */
  readonly state?: object;
  /** Of a grant: when its code was exchanged, or it was last used since, in milliseconds since the epoch. */
  readonly usedAt?: number;
  /** When it was consumed, by the store's clock. */
  readonly spentAt?: number;
  /** What is personal, as it is stored: see `sealed-artifact.ts`. */
  readonly sealed?: string;
  /** Of an interaction: how often the person was given more time. Beside `state`, which each step replaces. */
  readonly extensions?: number;
}

/** An artifact as it was read: frozen, or a private copy. */
export interface StoredArtifact extends Artifact {
  /** The condition of the next write. */
  readonly version: string;
}

/** Artifacts that are listed together. */
export type ArtifactQuery =
  /** Those that name an account: its sessions, in the order of their last use; grants; running sign-ins. */
  | { readonly model: "Session" | "Grant" | "Interaction"; readonly account: string }
  /** The grants of a client. */
  | { readonly model: "Grant"; readonly client: string }
  /** The grants that a client holds for an account, in the order of their last use; without those of unused codes. */
  | { readonly model: "Grant"; readonly holder: { readonly account: string; readonly client: string } };

/** Which part of a list is read. */
export interface PageOptions {
  /** `next` of the page before. */
  readonly after?: string | undefined;
  /** Default 100, at most 1,000. */
  readonly limit?: number;
  /** Default: the newest first. */
  readonly oldestFirst?: boolean;
}

export interface ArtifactPage {
  readonly artifacts: readonly StoredArtifact[];
  /** Where the next page begins; missing on the last one. */
  readonly next?: string | undefined;
}

/** Whether a person has connected the device of this device code, or refused to. */
export const isDecided = ({ payload }: Pick<Artifact, "payload">): boolean =>
  payload["accountId"] !== undefined || payload["error"] !== undefined;
