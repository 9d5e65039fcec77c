import type { Files, Source } from "../../build/syntax.ts";

/** A tree of files as a rule sees it. */
export interface Tree {
  /** All text files, the sources among them. */
  readonly files: Files;
  readonly sources: readonly Source[];
}

/** One rule, with a small tree that breaks it: a rule that finds nothing there finds nothing anywhere. */
export interface Rule {
  /** The rule as a sentence. */
  readonly says: string;
  /** Each violation as `path:line what`, in the order of the files. */
  readonly check: (tree: Tree) => readonly string[];
  /** Violations, and beside them what looks like one and is allowed. */
  readonly planted: Readonly<Record<string, string>>;
  /** Exactly what is found there. */
  readonly finds: readonly string[];
}

const PRODUCT = /^(?:lib|adapters|config|compat|interactions|notifier|cli)\//;

/** Whether a path belongs to what is published; tests, tools, examples and benchmarks do not. */
export function isProduct(path: string): boolean {
  return PRODUCT.test(path);
}
