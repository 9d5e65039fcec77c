/**
 * Milliseconds for which a place stays with one receiver that takes one delivery after the other: then others have
 * their turn. Going on costs less than coming back.
 */
export const TURN = 250;

/** What says when to look for deliveries that are due. The records are the truth; a wake-up that is lost only delays. */
export interface Scheduler {
  /** Something may be due. */
  wake(): void;
  /** Begins to deliver. */
  start(): void;
  /** Begins nothing more. What runs goes on: that is the runner's. */
  stop(): Promise<void>;
  /** Lets go of everything, once nothing runs any more. */
  close(): Promise<void>;
  /** Whether the last look succeeded. */
  readonly ok: boolean;
}
