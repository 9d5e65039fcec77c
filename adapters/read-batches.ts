/**
 * For stores on a server: combines all reads of one tick into one, because a statement costs a server and its driver more than the
 * records in it. A request reads in several places what it could name from the start. Requests that arrive together share
 * their reads as well: without that, userinfo on Redis falls to half the requests per second.
 */
import type { Found, RecordStore, Ref } from "./record-store.ts";

/** The largest batch: the server can work on it while the rest is still being collected. */
const MAX_REFS = 64;

interface Read {
  readonly refs: readonly Ref[];
  readonly withParents: boolean;
  readonly result: PromiseWithResolvers<(Found | undefined)[]>;
}

function withoutParent(found: Found | undefined): Found | undefined {
  if (found?.parent === undefined) return found;
  const { parent: _parent, ...record } = found;
  return record;
}

/** @param get reads from a server. */
export function batchReads(get: RecordStore["get"]): RecordStore["get"] {
  let waiting: Read[] = [];
  let size = 0;

  async function send(): Promise<void> {
    const batch = waiting;
    waiting = [];
    size = 0;
    if (batch.length === 0) return;
    const withParents = batch.some((read) => read.withParents);
    try {
      const found = await get(
        batch.flatMap(({ refs }) => refs),
        { withParents },
      );
      let at = 0;
      for (const { refs, withParents: asked, result } of batch) {
        const own = found.slice(at, (at += refs.length));
        result.resolve(asked || !withParents ? own : own.map(withoutParent));
      }
    } catch (error) {
      for (const { result } of batch) result.reject(error);
    }
  }

  return (refs, { withParents = false } = {}) => {
    const result = Promise.withResolvers<(Found | undefined)[]>();
    if (waiting.length === 0) process.nextTick(() => void send());
    waiting.push({ refs, withParents, result });
    size += refs.length;
    if (size >= MAX_REFS) void send();
    return result.promise;
  };
}
