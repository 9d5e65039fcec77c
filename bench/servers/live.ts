/** How every process of the benchmarks says that it is ready, and ends when it is told to. */

/** Prints what it says as one line of JSON. @param close called once, before the process ends. */
export function live(says: Readonly<Record<string, string>>, close: () => Promise<void>): void {
  let closing: Promise<void> | undefined;
  const stop = (): void => void (closing ??= close().then(() => process.exit(0)));
  process.once("SIGTERM", stop);
  // The parent is gone: nobody is left to end this process.
  process.stdin.resume().once("end", stop);
  console.log(JSON.stringify(says));
}
