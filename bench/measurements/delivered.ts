/** Signed notifications delivered per second, from the queue to the receiver, compared with a bare BullMQ worker. */
import { join } from "node:path";
import { type Backlog, changedUsers, drain, memoryRow } from "../drain.ts";
import { ask, type Kind, KINDS, type Notifying, onStage } from "../notifying-sides.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { inTurns, rate as rateOf, WARM } from "../rounds.ts";

const AGAINST = "bare BullMQ worker, http.request";

/** The ratio that each kind must reach. */
const TARGETS: Readonly<Record<Kind, number>> = { embedded: 1, worker: 1, bullmq: 0.9 };

export const delivered: Measurement = {
  name: "delivered",
  run: (effort, folder) =>
    onStage(folder, async ({ receiver, notifying, bare }) => {
      const count = 2 * effort.requests;
      const receivers = { 1: "/take/1" };
      const theirs = await bare();
      const queues: Record<string, Backlog> = {
        bare: {
          fill: () => ask(theirs, "fill", { count }),
          release: () => ask(theirs, "release"),
          cpuTime: () => theirs.cpuTime(),
        },
      };
      const sides: Notifying[] = [];
      for (const kind of KINDS) {
        const side = await notifying({ kind, file: join(folder, `${kind}.db`), receivers });
        queues[kind] = await changedUsers(side, count);
        sides.push(side);
      }
      const rounds = Object.entries(queues).map(([name, queue]) => [
        name,
        rateOf(() => drain(receiver, queue, count)),
      ]);
      const { bare: theirRate = Number.NaN, ...rates } = await inTurns(
        effort,
        Object.fromEntries(rounds),
        WARM,
      );
      const rows = KINDS.map((kind): Row => {
        const rate = rates[kind] ?? Number.NaN;
        return {
          work: `delivered, ${kind}`,
          against: AGAINST,
          value: rate / theirRate,
          unit: "×",
          target: TARGETS[kind],
          raw: `${perSecond(rate)} to ${perSecond(theirRate)}`,
        };
      });
      return [...rows, memoryRow("delivering", sides)];
    }),
};
