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

/** A time limit that stops while something else is waited for, and then begins again. */
export interface TimeLimit {
  /** Runs `work` within the limit. After that, `work` continues and its outcome is ignored. */
  hold<T>(work: () => Promise<T>): Promise<T>;
  /** Runs `work` without the limit, which begins again afterwards. */
  lift<T>(work: () => Promise<T>): Promise<T>;
}

/** @param late the error after the limit. */
export function createTimeLimit(timeoutMs: number, late: () => Error): TimeLimit {
  const { promise: end, reject } = Promise.withResolvers<never>();
  end.catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const stop = (): void => clearTimeout(timer);
  function start(): void {
    stop();
    if (!isOver) timer = setTimeout(() => reject(late()), timeoutMs);
  }
  return {
    async hold(work) {
      start();
      try {
        return await Promise.race([work(), end]);
      } finally {
        isOver = true;
        stop();
      }
    },
    async lift(work) {
      stop();
      try {
        return await work();
      } finally {
        start();
      }
    },
  };
}
