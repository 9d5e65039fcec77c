/**
 * What the suite needs from a test runner. The functions of Jest and Vitest fit as they are; with `node:test`, use
 * `expect` from the package of that name.
 */

/** The checks that the suite makes, as Jest and Vitest have them. */
interface Checks<Result> {
  toBe(expected: unknown): Result;
  toBeDefined(): Result;
  toBeGreaterThan(expected: number): Result;
  toBeLessThanOrEqual(expected: number): Result;
  toBeUndefined(): Result;
  toContain(expected: unknown): Result;
  toEqual(expected: unknown): Result;
  toHaveLength(expected: number): Result;
  toHaveProperty(name: string, value?: unknown): Result;
  toMatchObject(expected: object): Result;
}

interface Checked<Result> extends Checks<Result> {
  readonly not: Checks<Result>;
}

/** What `expect` returns. */
interface Expectation extends Checked<void> {
  readonly resolves: Checked<Promise<void>>;
  readonly rejects: Checked<Promise<void>>;
}

type Body = () => void | Promise<void>;

/** The functions of a test runner: `import * as runner from "@jest/globals"`, or from `"vitest"`. */
export interface TestRunner {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly it: ((title: string, body: Body) => unknown) & {
    readonly skip: (title: string, body: Body) => unknown;
  };
  readonly beforeEach: (body: Body) => unknown;
  readonly afterEach: (body: Body) => unknown;
  readonly expect: (actual: unknown) => Expectation;
}

/** A runner that skips cases, and records which ones. */
interface Sifted {
  readonly runner: TestRunner;
  /** The names that match no case. Complete once all cases are described. */
  readonly unmet: () => string[];
}

/**
 * Skips cases that a backend can't pass. The report shows each as skipped, with its reason.
 * @param reasons by the titles that lead to the case, joined by ` > `.
 */
export function leavingOut(reasons: Readonly<Record<string, string>>, runner: TestRunner): Sifted {
  const unmet = new Set(Object.keys(reasons));
  let group: readonly string[] = [];
  const it = (title: string, body: Body): unknown => {
    const path = [...group, title].join(" > ");
    const reason = Object.hasOwn(reasons, path) ? reasons[path] : undefined;
    if (reason === undefined) return runner.it(title, body);
    unmet.delete(path);
    return runner.it.skip(`${title} (left out: ${reason})`, body);
  };
  return {
    runner: {
      ...runner,
      it: Object.assign(it, { skip: runner.it.skip }),
      describe(title, body) {
        const own = [...group, title];
        // Some runners call the body immediately, others when the groups around it are complete.
        return runner.describe(title, () => {
          const around = group;
          group = own;
          body();
          group = around;
        });
      },
    },
    unmet: () => [...unmet],
  };
}
