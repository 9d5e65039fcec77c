/** What SIGTERM and Ctrl+C do. */
import { constants } from "node:os";

/** Milliseconds: npm passes on a Ctrl+C that the terminal has sent to us as well, and that is one, not two. */
const SAME = 500;
/** Milliseconds after which a process that can't stop ends all the same. */
const TOO_LONG = 35_000;

/** How often a process that npm runs looks whether it still does, in milliseconds. */
const LOOK = 250;

/**
 * Sends this process SIGTERM when npm is gone: npm passes a SIGTERM on to the shell between it and us, which ends
 * without telling us.
 */
export function endWithNpm(): void {
  const shell = process.ppid;
  const look = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(look);
    process.kill(process.pid, "SIGTERM");
  }, LOOK);
  look.unref();
}

/** Runs `stop` at the first signal and exits with 0 after it; a second signal exits at once. */
export function onStopSignal(stop: () => Promise<void>): void {
  let since: number | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (since !== undefined) {
        if (performance.now() - since > SAME) process.exit(128 + constants.signals[signal]);
        return;
      }
      since = performance.now();
      setTimeout(() => process.exit(1), TOO_LONG).unref();
      void stop().then(
        () => process.exit(0),
        () => process.exit(1),
      );
    });
  }
}
