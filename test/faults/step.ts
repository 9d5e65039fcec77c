/** A step of a flow: how it is prepared, the one request that it is, and what a good answer looks like. */
import type { Stage } from "./stage.ts";
import type { Wire } from "./person.ts";

/** A step that is ready to be taken; it can be taken again when it failed for a fault. */
export interface Ready {
  readonly wire: Wire;
  /** What the answer must be once the store is well again; throws when it is something else. */
  readonly good: (response: Response) => void | Promise<void>;
}

export interface Step {
  readonly name: string;
  /** A person's browser comes here: a page where it asks for one. */
  readonly page?: true;
  /** Makes a new situation each time, so that a taken step can be prepared again. */
  readonly prepare: (stage: Stage) => Promise<Ready>;
  /**
   * Tables that change although the request fails: a user's assignment and consent are account changes, with
   * their audit, and never wait for the end of a request (they are idempotent).
   */
  readonly ownCommits?: readonly string[];
  /** Calls that come when everything is committed: a fault there takes nothing from the answer. */
  readonly afterCommit?: readonly string[];
  /** The step asks no store at all. */
  readonly storeless?: true;
}

/** What an assignment or a consent writes. */
export const ACCOUNT_TABLES = ["account", "audit"] as const;
