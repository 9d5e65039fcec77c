import type { Files, Source } from "../../build/syntax.ts";

/** A tree of files as a rule sees it. */
export interface Tree {
  /** All text files, the sources among them. */
  readonly files: Files;
  readonly sources: readonly Source[];
}

/** A rule, with a small tree that violates it. */
export interface Rule {
  /** The rule as a sentence. */
  readonly says: string;
  /** Each violation as `path:line what`, in the order of the files. */
  readonly check: (tree: Tree) => readonly string[];
  /** Violations, and similar allowed code. */
  readonly planted: Readonly<Record<string, string>>;
  /** The expected violations. */
  readonly finds: readonly string[];
}
