/** Waits for `work` for a limited time. After that, `work` continues and its outcome is ignored. */
export async function withTimeout<T>(timeoutMs: number, work: Promise<T>, late: () => Error): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  // Not AbortSignal.timeout(): its timer does not keep the process alive, and can't be cleared.
  const timer = setTimeout(() => reject(late()), Math.max(0, timeoutMs));
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
