/** How long notifications to healthy receivers wait while another receiver never responds. */
import { join } from "node:path";
import { memoryRow } from "../drain.ts";
import { ask, type Kind, KINDS, type Notifying, onStage, type Stage } from "../notifying-sides.ts";
import type { Measurement, Row } from "../result.ts";
import { type Effort, inTurns } from "../rounds.ts";
import type { Side } from "../side.ts";

/** Changes per second. All healthy receivers are notified of each. */
const PACE = 100;
const HEALTHY = ["1", "2", "3"] as const;
const RECEIVERS = { 1: "/take/1", 2: "/take/2", 3: "/take/3", hanging: "/hang" };

/** Without this, the circuit of the hanging receiver would soon be open, and it would have no effect. */
const NO_BREAKER = { breaker: { failures: 1_000 } };

type Committed = readonly (readonly [user: string, at: number])[];
type Arrivals = readonly (readonly [receiver: string, user: string, at: number])[];

function p95(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
}

/** The 95th percentile of the milliseconds from the commit of a change to the arrival of its notification. */
async function delays(receiver: Side, { app }: Notifying, seconds: number): Promise<number> {
  await ask(receiver, "reset");
  const committed = (await ask(app, "pace", { group: "users", perSecond: PACE, seconds })) as Committed;
  await ask(receiver, "arrived", { count: committed.length * HEALTHY.length });
  const arrivals = (await ask(receiver, "arrivals")) as Arrivals;
  const times = new Map(committed);
  return p95(arrivals.map(([, user, at]) => at - (times.get(user) ?? Number.NaN)));
}

interface Compared {
  readonly row: Row;
  readonly side: Notifying;
}

async function compare(stage: Stage, effort: Effort, folder: string, kind: Kind): Promise<Compared> {
  const seconds = 2 * effort.seconds;
  const start = async (name: string, services: readonly string[]): Promise<Notifying> => {
    const file = join(folder, `${name}-${kind}.db`);
    const side = await stage.notifying({ kind, file, receivers: RECEIVERS, notifications: NO_BREAKER });
    await ask(side.app, "users", { group: "users", services: services.join(), count: PACE * seconds });
    return side;
  };
  const healthy = await start("healthy", HEALTHY);
  const mixed = await start("mixed", [...HEALTHY, "hanging"]);
  const found = await inTurns(effort, {
    alone: () => delays(stage.receiver, healthy, seconds),
    beside: () => delays(stage.receiver, mixed, seconds),
  });
  const row: Row = {
    work: `p95, one hangs, ${kind}`,
    against: "p95 of the same receivers alone",
    value: found.beside / found.alone,
    unit: "×",
    target: 1.5,
    atMost: true,
    raw: `${found.beside.toFixed(1)} to ${found.alone.toFixed(1)} ms`,
  };
  return { row, side: mixed };
}

export const hanging: Measurement = {
  name: "hanging",
  run: (effort, folder) =>
    onStage(folder, async (stage) => {
      const compared: Compared[] = [];
      for (const kind of KINDS) compared.push(await compare(stage, effort, folder, kind));
      const sides = compared.map(({ side }) => side);
      return [...compared.map(({ row }) => row), memoryRow("beside one that hangs", sides)];
    }),
};
