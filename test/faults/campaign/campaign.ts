/** The whole campaign: one round for each kind of queue. While one settles, the next one begins. */
import { join } from "node:path";
import type { CampaignOptions } from "./options.ts";
import type { Outcomes } from "./report.ts";
import { Round } from "./round.ts";

/** Milliseconds that are reserved for starting, and for the leases of killed processes to end. */
const REST = 60_000;
/** Milliseconds between two lines of progress. */
const TELLING = 5000;

export interface Surroundings {
  readonly folder: string;
  readonly signal: AbortSignal;
  /** Receives a line of progress now and then. */
  readonly tell: (line: string) => void;
}

/** @throws when it can't be carried out, or `signal` is aborted; all processes are ended then, too. */
export async function campaign(
  { storage, queues, versions, seed, users, changes, milliseconds }: CampaignOptions,
  { folder, signal, tell }: Surroundings,
): Promise<Outcomes> {
  const began = performance.now();
  const rounds: Round[] = [];
  const telling = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000);
    for (const [index, round] of rounds.entries()) {
      const { asked, posts, kills, stops } = round.progress();
      tell(
        `${seconds} s  ${queues[index]}: ${asked} of ${changes} changes, ${kills} kills, ${stops} stops, ${posts} POSTs`,
      );
    }
  }, TELLING);
  try {
    const settling: ReturnType<Round["settle"]>[] = [];
    for (const queue of queues) {
      const options = { storage, queue, versions, seed, users, changes, signal, folder: join(folder, queue) };
      const round = await Round.open({ ...options, milliseconds: (milliseconds - REST) / queues.length });
      rounds.push(round);
      await round.act();
      const settled = round.settle();
      settling.push(settled);
      // Awaited below, after the next rounds. Until then, this keeps a failure from being unhandled.
      settled.catch(() => undefined);
    }
    const outcomes = await Promise.all(settling);
    return new Map(outcomes.map((outcome, index) => [queues[index]!, outcome]));
  } finally {
    clearInterval(telling);
    await Promise.all(rounds.map((round) => round.close()));
  }
}
