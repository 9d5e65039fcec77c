/**
 * One batch at a time for each key: requests that arrive while a batch of their key is running go into the next one. Rate
 * limits need it for their order (a point is refunded after it was consumed), and because parallel requests for one key
 * conflict: all but one would be repeated.
 */

interface Waiting<Request, Result> {
  readonly request: Request;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export class KeyedBatches<Request, Result> {
  readonly #send: (key: string, requests: readonly Request[]) => Promise<readonly Result[]>;
  readonly #limit: number;
  /** Contains a key while one of its batches is under way. */
  readonly #waiting = new Map<string, Waiting<Request, Result>[]>();

  /**
   * @param send returns the results in the order of the requests; a missing one is `undefined`.
   * @param limit the largest batch. Default: no limit.
   */
  constructor(
    send: (key: string, requests: readonly Request[]) => Promise<readonly Result[]>,
    limit: number = Infinity,
  ) {
    this.#send = send;
    this.#limit = limit;
  }

  /** Requests of one key are sent in order. Rejects when `send` rejects. */
  add(key: string, request: Request): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const one = { request, resolve, reject };
    const others = this.#waiting.get(key);
    if (others === undefined) {
      this.#waiting.set(key, [one]);
      // Requests of one tick share a batch.
      process.nextTick(() => void this.#drain(key));
    } else others.push(one);
    return promise;
  }

  async #drain(key: string): Promise<void> {
    for (;;) {
      const batch = this.#waiting.get(key)?.splice(0, this.#limit) ?? [];
      if (batch.length === 0) break;
      try {
        const results = await this.#send(
          key,
          batch.map(({ request }) => request),
        );
        for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#waiting.delete(key);
  }
}
