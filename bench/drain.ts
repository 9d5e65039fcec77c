/** How fast a full queue is emptied. */
import { ask, type Notifying } from "./notifying-sides.ts";
import type { Row } from "./result.ts";
import type { Sample } from "./rounds.ts";
import { machineTime } from "./servers/commands.ts";
import type { Side } from "./side.ts";

/** Fills a queue without sending anything, and then releases it. */
export interface Backlog {
  readonly fill: () => Promise<unknown>;
  readonly release: () => Promise<unknown>;
  /** CPU time of the process that delivers. */
  readonly cpuTime: () => number;
}

/**
 * Fills the queue, releases it, and waits for all arrivals.
 * @returns arrivals per second, from the first to the last one after the release.
 */
export async function drain(
  receiver: Side,
  { fill, release, cpuTime }: Backlog,
  count: number,
): Promise<Sample> {
  await ask(receiver, "reset");
  await fill();
  const from = machineTime();
  const before = cpuTime();
  await release();
  const { perSecond, different } = (await ask(receiver, "arrived", { count, from })) as {
    readonly perSecond: number;
    readonly different: number;
  };
  if (different !== count) throw new Error(`${different} of ${count} notifications came`);
  return { perSecond, answered: count, cpu: cpuTime() - before };
}

/** As many users as notifications are wanted. Each is changed once per round. */
export async function changedUsers({ app, worker = app }: Notifying, count: number): Promise<Backlog> {
  const receiver = "service:1";
  await ask(app, "users", { group: "users", services: 1, count });
  return {
    async fill() {
      await ask(app, "pause", { receiver });
      await ask(app, "change", { group: "users", times: 1 });
    },
    release: () => ask(app, "resume", { receiver }),
    cpuTime: () => worker.cpuTime(),
  };
}

/** The maximum resident memory of each worker that is a separate process. */
export function memoryRow(against: string, all: readonly Notifying[]): Row {
  const sizes = all.flatMap(({ worker }) => (worker === undefined ? [] : [worker.peakMemory()]));
  return {
    work: "memory of a worker, most",
    against,
    value: Math.max(...sizes),
    unit: "MB",
    target: 150,
    raw: `${sizes.map(Math.round).join(", ")} MB`,
  };
}
