/**
 * Transactions that a fault of the network has cut off. What was sent may still be carried out, by a server that was
 * paused and wakes up; then the transaction is open, nobody goes on with it, and it holds what it wrote until the
 * server ends it after a minute. So it is ended from here as soon as the server answers again.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, MongoClient, ServerSessionId } from "mongodb";

/** Milliseconds before the first try and between two. */
const PAUSE = 500;
/** Milliseconds after which the server ends such transactions by itself. */
const LIFETIME = 60_000;
/** The first one that succeeds may have come before what was to be ended. */
const SUCCESSES = 2;

/** The abandoned transactions of one client. */
export class Abandoned {
  readonly #client: MongoClient;
  readonly #sessions = new Map<ServerSessionId, { readonly since: number; left: number }>();
  #isRunning = false;
  #isStopped = false;

  constructor(client: MongoClient) {
    this.#client = client;
  }

  /** @param session that is used no more. */
  add({ id }: ClientSession): void {
    if (id === undefined || this.#isStopped) return;
    this.#sessions.set(id, { since: performance.now(), left: SUCCESSES });
    if (!this.#isRunning) void this.#run();
  }

  /** Lets go of all. */
  stop(): void {
    this.#isStopped = true;
    this.#sessions.clear();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#sessions.size > 0) {
      await pause(PAUSE, undefined, { ref: false });
      await this.#tryOnce([...this.#sessions.keys()]);
    }
    this.#isRunning = false;
  }

  async #tryOnce(ids: readonly ServerSessionId[]): Promise<void> {
    if (ids.length === 0) return;
    const isEnded = await this.#client
      .db("admin")
      .command({ killSessions: ids })
      .then(
        () => true,
        () => false,
      );
    const now = performance.now();
    for (const id of ids) {
      const session = this.#sessions.get(id);
      if (session === undefined) continue;
      if (isEnded) session.left -= 1;
      if (session.left === 0 || now - session.since > LIFETIME) this.#sessions.delete(id);
    }
  }
}
