/** Programs that check the files of `deploy/`, and tests that need one. */
import { describe } from "@jest/globals";
import { LINT_DOCKERFILE, locate, PROMTOOL, SYSTEMD_ANALYZE } from "../machine.mjs";

type Tool = "promtool" | "hadolint" | "systemd-analyze";

const TOOLS: Readonly<Record<Tool, readonly string[]>> = {
  promtool: PROMTOOL,
  hadolint: LINT_DOCKERFILE,
  "systemd-analyze": SYSTEMD_ANALYZE,
};

/** `describe` where the program is there. Else its tests are skipped, loudly, and in CI that is a failure. */
export function describeWith(tool: Tool, what: string, tests: (executable: string) => void): void {
  const executable = locate(TOOLS[tool]);
  if (executable !== undefined) {
    describe(what, () => tests(executable));
    return;
  }
  const sentence = `no ${tool} for the tests: see test/machine.mjs`;
  if (process.env["CI"] === "true") throw new Error(sentence);
  console.error(`!!! ${sentence}`);
  describe.skip(what, () => tests(tool));
}
