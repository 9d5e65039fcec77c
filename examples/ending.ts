/** How the examples end: with a sentence and an exit code, or at a signal. */
import { exitCodeOf, sentenceOf } from "../cli/program/command-failure.ts";
import type { PortWords } from "../cli/server/listener.ts";
import { onStopSignal } from "../cli/program/stop-signals.ts";

/** How to change the port of an example. */
export const BY_VARIABLE: PortWords = {
  choose: "choose another one with the environment variable PORT",
  host: "HOST",
};

/** After this time a process exits even if it hasn't stopped. */
const EXIT_AFTER_MS = 35_000;

/** Prints the error and ends the process. */
export function endWith(error: unknown): never {
  console.error(sentenceOf(error));
  process.exit(exitCodeOf(error));
}

/** Runs `stop` at the first signal, then exits with 0. A second signal exits immediately. */
export function endOnSignal(stop: () => Promise<void>): void {
  onStopSignal(() => {
    setTimeout(() => process.exit(1), EXIT_AFTER_MS).unref();
    void stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
