/** SIGTERM and Ctrl+C. */
import { constants } from "node:os";

/** Within this time, two signals count as one: on Ctrl+C, the terminal and npm both send it. */
const SAME_SIGNAL_MS = 500;

const NPM_CHECK_INTERVAL_MS = 250;

/**
 * Sends SIGTERM to this process when npm has ended. npm forwards SIGTERM only to the shell between npm and this process,
 * and the shell ends without forwarding it.
 */
export function endWithNpm(): void {
  const shell = process.ppid;
  const check = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(check);
    process.kill(process.pid, "SIGTERM");
  }, NPM_CHECK_INTERVAL_MS);
  check.unref();
}

/** Calls `stop` at the first signal. A second one ends the process immediately. */
export function onStopSignal(stop: () => void): void {
  let since: number | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (since === undefined) {
        since = performance.now();
        stop();
      } else if (performance.now() - since > SAME_SIGNAL_MS) process.exit(128 + constants.signals[signal]);
    });
  }
}
