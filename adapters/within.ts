/** Waiting for an answer no longer than it is of use. */

/**
 * Waits for `work` so many milliseconds; then it goes on unheard.
 * @param late what is thrown at the end of the time.
 */
export async function within<T>(milliseconds: number, work: Promise<T>, late: () => Error): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), Math.max(0, milliseconds));
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
