/** The checks of `doctor`, and their findings. */

/** Something that is wrong. None of the texts contains a secret. */
export interface Finding {
  /** `problem`: something does not work, or is not safe. `warning`: it may be intended. */
  readonly level: "warning" | "problem";
  /** What is wrong: one sentence. */
  readonly what: string;
  /** Why it matters: one sentence. */
  readonly why: string;
  /** What to do: one sentence. */
  readonly fix: string;
  /** Set if the server does not answer, so that other checks could not be made. */
  readonly isUnreachable?: true;
}

/** A check of one thing. */
export interface Check<S> {
  /** One word or two with a hyphen. */
  readonly id: string;
  /** What is checked: a phrase. */
  readonly title: string;
  /** @returns nothing if all is well. */
  readonly run: (subject: S) => Promise<readonly Finding[]>;
}

/** The message of an error as a sentence. The name of a key stays as it is. */
export function sentence(message: string): string {
  const first = /^\w+\./u.test(message) ? message.slice(0, 1) : message.slice(0, 1).toUpperCase();
  return `${first}${message.slice(1)}${message.endsWith(".") ? "" : "."}`;
}
