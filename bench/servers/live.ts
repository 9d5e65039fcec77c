/** How a process of the benchmarks reports that it is ready, and stops. */

/**
 * Prints `says` as one line of JSON.
 * @param close called once, before the process ends.
 */
export function live(says: Readonly<Record<string, string>>, close: () => Promise<void>): void {
  let closing: Promise<void> | undefined;
  const stop = (): void => void (closing ??= close().then(() => process.exit(0)));
  process.once("SIGTERM", stop);
  // The parent has ended, so nothing else would end this process.
  process.stdin.resume().once("end", stop);
  console.log(JSON.stringify(says));
}
