/** What can be wrong with what a backend keeps, and how it is put right: one row each. */

/** One thing that is wrong. */
export interface Flaw {
  /** For `repair`. May hold personal data: never shown. */
  readonly id: string;
  /** For an operator: identifiers, no personal data. */
  readonly shown: string;
}

/**
 * Finds one kind of flaw. All of it may be done beside a running service: what is put right is looked at again in the
 * same step.
 */
export interface Check {
  /** What is looked at, such as `accounts`. */
  readonly part: string;
  /** What all flaws that it finds have in common, in the plural: `sign-in names that lead to no account`. */
  readonly problem: string;
  /** At most so many flaws. @throws StorageUnavailable when it can't be looked at. */
  find(limit: number): Promise<readonly Flaw[]>;
  /**
   * Puts right what can be put right. Missing: only people can decide what is right.
   * @throws StorageUnavailable when the store refuses.
   */
  readonly repair?: (flaws: readonly Flaw[]) => Promise<void>;
}

/** What can be checked of a storage. */
export interface StorageChecks {
  /** In the order in which they are made: each can count on those before it. */
  readonly checks: readonly Check[];
  /** Lets go of files and connections. Safe to call twice. */
  close(): Promise<void>;
}

/** The sign-in names that an account has to have. */
export type NamesOf = (record: {
  readonly email: string;
  readonly username: string | null;
}) => readonly string[];
