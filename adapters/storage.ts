/**
 * The storage contract. A backend is one folder beside this file that implements it; the shared suite
 * in `lib/testing/contract` says the same as the comments here, as tests that every backend passes.
 *
 * Promises of every method, whatever the backend:
 * - a fault of the store (unreachable, time-out, locked for too long) rejects with `StorageUnavailable`;
 * - "not there" is `undefined`, never an error;
 * - what goes in and comes out are copies: changing an object afterwards changes nothing that is stored;
 * - a string of any length and any characters, NUL included, is a valid key that finds only itself.
 */
import type { ArtifactStore } from "./artifacts.ts";
import type { DeliveryStore } from "./deliveries.ts";
import type { DirectoryStore } from "./directory.ts";
import type { RateLimiterFactory } from "./rate-limits.ts";

/** A server or file behind a storage. */
export interface StoragePart {
  /** What it keeps: `storage`, or `artifacts` where those are kept elsewhere. */
  readonly name: string;
  /** One cheap round trip. Rejects with `StorageUnavailable` when there is no answer. */
  ping(): Promise<void>;
}

/** Everything that the service keeps, in its parts; each part may live in a backend of its own. */
export interface Storage {
  readonly directory: DirectoryStore;
  readonly artifacts: ArtifactStore;
  readonly deliveries: DeliveryStore;
  /** Makes limiters whose points all processes that have this storage share, if several can have it at once. */
  readonly rateLimits: RateLimiterFactory;
  /**
   * A request has arrived; resolves when it may go on. A store inside the process may wait for the rest of what this
   * turn of the event loop brings, so that all of it shares one look; others have nothing to wait for. Never rejects.
   */
  arrived(): Promise<void>;
  /** What it is made of, for health: at least `storage`. */
  readonly parts: readonly StoragePart[];
  /** Finishes what was begun and lets go of files and connections. Safe to call twice. */
  close(): Promise<void>;
}
