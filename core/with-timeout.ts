/**
 * Waits for `work` for a limited time. After that, `work` continues and its outcome is ignored.
 * @param late what it is instead; it may throw.
 */
export async function within<T, Late>(
  timeoutMs: number,
  work: Promise<T>,
  late: () => Late,
): Promise<T | Late> {
  const { promise, resolve, reject } = Promise.withResolvers<Late>();
  // Not AbortSignal.timeout(): its timer does not keep the process alive, and can't be cleared.
  const timer = setTimeout(
    () => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    },
    Math.max(0, timeoutMs),
  );
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The same, failing with the error of `late`. */
export function withTimeout<T>(timeoutMs: number, work: Promise<T>, late: () => Error): Promise<T> {
  return within(timeoutMs, work, (): never => {
    throw late();
  });
}
