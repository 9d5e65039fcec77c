/** A steady stream of notifications, far below the capacity of a worker: their delay and cost. */
import { join } from "node:path";
import { ask, type Notifying, onStage } from "../notifying-sides.ts";
import type { Measurement, Row } from "../result.ts";
import { inPairs, mediansOf, median, type Pair, ratioOf, shownInterval, WARM } from "../rounds.ts";
import type { Done } from "../servers/paced.ts";
import type { Side } from "../side.ts";

/** Notifications per second. */
const PACE = 200;

type Arrivals = readonly (readonly [receiver: string, user: string, at: number])[];

/** One round of one side. */
interface Stream {
  /** Milliseconds from the commit of a change, or the creation of the job, to the arrival of its notification. */
  readonly median: number;
  readonly p99: number;
  /** Microseconds of the worker's CPU time per notification. */
  readonly cpu: number;
}

async function stream(receiver: Side, { app, worker = app }: Notifying, seconds: number): Promise<Stream> {
  await ask(receiver, "reset");
  const before = worker.cpuTime();
  const done = (await ask(app, "pace", { group: "users", perSecond: PACE, seconds })) as readonly Done[];
  await ask(receiver, "arrived", { count: done.length });
  const cpu = ((worker.cpuTime() - before) * 1000) / done.length;
  const committed = new Map(done);
  const arrivals = (await ask(receiver, "arrivals")) as Arrivals;
  const delays = arrivals.map(([, user, at]) => at - (committed.get(user) ?? Number.NaN));
  const sorted = delays.toSorted((a, b) => a - b);
  return { median: median(delays), p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN, cpu };
}

const BULLMQ_ROWS: readonly (Required<Pick<Row, "work" | "target">> & {
  readonly figure: keyof Stream;
  readonly in: string;
})[] = [
  { work: "steady, bullmq, median delay", figure: "median", target: 2, in: "ms" },
  { work: "steady, bullmq, p99 delay", figure: "p99", target: 2, in: "ms" },
  { work: "steady, bullmq, CPU of the worker", figure: "cpu", target: 1.3, in: "µs" },
];

function bullmqRows(pairs: readonly Pair<Stream>[]): Row[] {
  return BULLMQ_ROWS.map(({ work, figure, target, in: unit }) => {
    const { ratio, interval } = ratioOf(pairs, (each) => each[figure]);
    const medians = mediansOf(pairs, (each) => each[figure]).map((each) => each.toFixed(1));
    return {
      work,
      against: "bare BullMQ worker, http.request",
      value: ratio,
      unit: "×",
      target,
      atMost: true,
      interval,
      raw: `${medians.join(" to ")} ${unit}; ${shownInterval(interval)}`,
    };
  });
}

export const steady: Measurement = {
  name: "steady",
  run: (effort, folder) =>
    onStage(folder, async ({ receiver, notifying, bareApart }) => {
      const seconds = 2 * effort.seconds;
      const start = async (kind: "worker" | "bullmq"): Promise<() => Promise<Stream>> => {
        const file = join(folder, `${kind}.db`);
        const side = await notifying({ kind, file, receivers: { 1: "/take/1" } });
        await ask(side.app, "users", { group: "users", services: "1", count: PACE * seconds });
        return () => stream(receiver, side, seconds);
      };
      const alone = await start("worker");
      const theirs = await bareApart();
      const rounds = 2 * effort.rounds;
      const delays: Stream[] = [];
      const warm = performance.now() + WARM * 1000;
      while (performance.now() < warm) await alone();
      for (let round = 0; round < effort.rounds; round += 1) delays.push(await alone());
      const pairs = await inPairs(
        { rounds },
        { here: await start("bullmq"), other: () => stream(receiver, theirs, seconds) },
        WARM,
      );
      const p99 = median(delays.map((each) => each.p99));
      return [
        {
          work: "steady, worker, median delay",
          against: `${PACE} a second, a worker of its own on SQLite`,
          value: median(delays.map((each) => each.median)),
          unit: "ms",
          target: 100,
          raw: `p99 ${p99.toFixed(1)} ms`,
        },
        ...bullmqRows(pairs),
      ];
    }),
};
