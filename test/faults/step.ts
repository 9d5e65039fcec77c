/** A step of a flow: how it is prepared, its one request, and what a good answer looks like. */
import type { Stage } from "./stage.ts";
import type { Wire } from "./person.ts";

/** A step that is ready to be taken, and can be taken again if a fault made it fail. */
export interface Ready {
  readonly wire: Wire;
  /** Checks the answer once the store works again; throws if it is wrong. */
  readonly good: (response: Response) => void | Promise<void>;
}

export interface Step {
  readonly name: string;
  /** Whether a person's browser makes the request, which may ask for a page. */
  readonly page?: true;
  /** Creates a new situation each time, so that a step can be prepared again after it was taken. */
  readonly prepare: (stage: Stage) => Promise<Ready>;
  /**
   * Tables that change although the request fails: a user's assignment and consent are account changes, with
   * their audit, and never wait for the end of a request (they are idempotent).
   */
  readonly ownCommits?: readonly string[];
  /** Calls after everything is committed: a fault there does not change the answer. */
  readonly afterCommit?: readonly string[];
  /** Set if the step makes no call to a store. */
  readonly storeless?: true;
}

/** What an assignment or a consent writes. */
export const ACCOUNT_TABLES = ["account", "audit"] as const;
