/** Codes, tokens, grants, sessions and interactions: short-lived, written in one batch for each request. */

import { setTimeout as pause } from "node:timers/promises";

/** JSON that oidc-provider wants kept for an artifact; opaque to the store. */
export type Payload = Record<string, unknown>;

/**
 * One stored artifact. `key` is a hash of the secret that the client or browser holds, so a copy of the
 * store opens nothing.
 */
export interface Artifact {
  /** The model's name in oidc-provider, such as `AccessToken` or `Session`. */
  readonly model: string;
  /** Unique together with `model`. */
  readonly key: string;
  readonly payload: Payload;
  /** Milliseconds since the epoch; from then on the artifact is not found any more. */
  readonly expiresAt: number;
  /** Set once by a `consume`, in milliseconds since the epoch. Survives a later `put`. */
  readonly consumedAt?: number;
  /** Kept beside a consumed refresh token: the sealed answer of the request that consumed it. */
  readonly replay?: string;
  /** Milliseconds since the epoch; from then on `replay` is not found any more, and it is deleted soon after. */
  readonly replayUntil?: number;
  /** The family: the key of the grant from which this artifact descends. */
  readonly grantKey?: string;
  /** A session's public identifier. */
  readonly uid?: string;
  readonly accountId?: string;
  readonly clientId?: string;
}

/** One write of a batch, with the condition that it carries. */
export type ArtifactWrite =
  /** Inserts or replaces; indexes follow the new value. Keeps `consumedAt` and `replay` of what is there. */
  | { readonly kind: "put"; readonly artifact: Artifact }
  /**
   * Replaces what is there and not expired. Condition: it is. With `merge`, the entries of that member of the
   * payload (an object) are added to those that are there: what another request added meanwhile stays. `read` is what
   * `find` gave to the writer, who has all entries of it: a store that sees that it is still so need not merge.
   */
  | {
      readonly kind: "update";
      readonly artifact: Artifact;
      readonly merge?: string;
      readonly read?: Artifact;
    }
  /** Marks as consumed; the mark lives as long as the artifact. Condition: it is there, not expired and not consumed. */
  | {
      readonly kind: "consume";
      readonly model: string;
      readonly key: string;
      readonly at: number;
      readonly replay?: string;
      readonly replayUntil?: number;
    }
  /** Deletes. With `mustExist`, condition: it is there and not expired. */
  | { readonly kind: "remove"; readonly model: string; readonly key: string; readonly mustExist: boolean }
  /** Condition only: the artifact is there and not expired. It conflicts with a concurrent removal. */
  | { readonly kind: "require"; readonly model: string; readonly key: string }
  /** Deletes a family: the grant and every artifact with this `grantKey`. */
  | { readonly kind: "revoke"; readonly grantKey: string };

/** What one request writes: all of it, or nothing when a condition fails. */
export interface ArtifactBatch {
  /** Unique for each batch; a store that can lose an acknowledgement remembers it and asks again. */
  readonly id: string;
  /** Milliseconds since the epoch; a batch that has not begun by then is refused with `StorageUnavailable`. */
  readonly deadline: number;
  /** Applied in this order; a later write sees the earlier ones. */
  readonly writes: readonly ArtifactWrite[];
}

/** Which artifacts of an account are meant. */
export interface ArtifactFilter {
  readonly accountId: string;
  /** Only artifacts of these clients; default: of any client and of none. */
  readonly clientIds?: readonly string[];
  /** Only these models; default: all. */
  readonly models?: readonly string[];
}

/**
 * Milliseconds after which the request that consumed an artifact counts as answered, whatever it said: no request is
 * worked at for longer.
 */
export const ANSWERED_WITHIN = 5_000;

/** Milliseconds for which a note may be on its way to a store that is on another machine. */
const ON_ITS_WAY = 100;

/**
 * `sinceAnswer` for a store whose `markAnswered` sends the note without waiting for it, which would cost each exchange a
 * round trip: when there is no note, looks again when one that was sent before has come.
 */
export async function whenNoted(look: () => Promise<number | undefined>): Promise<number | undefined> {
  const asked = performance.now();
  const first = await look();
  if (first === undefined || first >= 0) return first;
  await pause(ON_ITS_WAY);
  const later = performance.now() - asked;
  const second = await look();
  return second === undefined ? undefined : second - later;
}

export interface ArtifactStore {
  /** The artifact, consumed or not; `undefined` when it is missing or expired. */
  find(model: string, key: string): Promise<Artifact | undefined>;
  /** The artifact as `find` gives it, with the grant of its family: together where the store can, else one after the other. */
  findWithGrant(
    model: string,
    key: string,
  ): Promise<{ readonly artifact: Artifact; readonly grant: Artifact | undefined } | undefined>;
  /** The artifact of this model with this `uid`. */
  findByUid(model: string, uid: string): Promise<Artifact | undefined>;
  /**
   * Writes the batch atomically and durably.
   * @throws ConditionFailed when a condition does not hold; nothing is written.
   * @throws StorageUnavailable when it is not known to be written; the same batch may be sent again.
   */
  commit(batch: ArtifactBatch): Promise<void>;
  /**
   * Notes that the request that consumed the artifact is answered now, by the store's own clock, or a little earlier where
   * that is not known exactly. Resolves when the answer may leave: a `sinceAnswer` of any process that begins later knows
   * of it. The first note counts. It may be forgotten when the machine loses power.
   */
  markAnswered(model: string, key: string): Promise<void>;
  /**
   * Milliseconds by the store's own clock, whatever that of the service says, from the answer of the request that consumed
   * the artifact until this call; from {@link ANSWERED_WITHIN} after the consumption when that is not noted, so negative at
   * first. Never less than the true time, however coarse that clock is. `undefined` when it is not known: the artifact is
   * missing, was not consumed, or was copied from another store.
   */
  sinceAnswer(model: string, key: string): Promise<number | undefined>;
  /** All artifacts that match and have not expired, at most 1,000, the oldest first. */
  listByAccount(filter: ArtifactFilter): Promise<Artifact[]>;
  /** Removes all artifacts that match; returns how many. */
  removeByAccount(filter: ArtifactFilter): Promise<number>;
  /** Removes all artifacts of a client; returns how many. */
  removeByClient(clientId: string): Promise<number>;
  /** Deletes at most `limit` expired artifacts; returns how many. Stores that expire by themselves return 0. */
  purgeExpired(limit: number): Promise<number>;
}
