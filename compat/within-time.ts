/** A request is answered within 5 seconds, whatever it waits for. */
import { StorageUnavailable } from "../lib/errors.ts";

/**
 * Milliseconds after which a request is given up: later than its deadline, after which nothing of it is committed,
 * so that a commit that is under way can still say what became of it.
 */
const PATIENCE = 4_800;

/**
 * Waits for the work, or gives it up: then it goes on unheard, and its commit is refused.
 * @throws StorageUnavailable when it takes too long.
 */
export async function withinTime(work: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const patience = setTimeout(() => {
    late.reject(new StorageUnavailable("the request was not done in time"));
  }, PATIENCE);
  try {
    await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(patience);
  }
}
