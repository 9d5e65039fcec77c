/** How much the parked deliveries of a dead receiver slow down the others. */
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { changedUsers, drain, memoryRow } from "../drain.ts";
import { ask, KINDS, type Notifying, onStage, type Stage } from "../notifying-sides.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { inTurns, rate } from "../rounds.ts";

const USERS = 10_000;
const CHANGES = 10;
const PARKED = USERS * CHANGES;

/** Milliseconds between two counts of the parked deliveries. */
const LOOK = 500;

const DEAD = { dead: "/fail" };
const BOTH = { ...DEAD, 1: "/take/1" };

type Report = { readonly receiver: string; readonly parked: number };

/** Prepares a database with many parked deliveries of a receiver that was paused and then removed. */
async function park({ notifying }: Stage, file: string): Promise<void> {
  const { app } = await notifying({ kind: "embedded", file, receivers: DEAD });
  await ask(app, "users", { group: "old", services: "dead", count: USERS });
  await ask(app, "pause", { receiver: "service:dead" });
  await ask(app, "change", { group: "old", times: CHANGES });
  await ask(app, "remove", { service: "dead" });
  await app.stop();
  // At start-up, waiting deliveries of a removed receiver are parked.
  const again = await notifying({ kind: "embedded", file, receivers: {} });
  const parked = async (): Promise<number> => {
    const reports = (await ask(again.app, "receivers")) as readonly Report[];
    return reports.find(({ receiver }) => receiver === "service:dead")?.parked ?? 0;
  };
  while ((await parked()) < PARKED) await pause(LOOK);
  await again.app.stop();
}

export const parked: Measurement = {
  name: "parked",
  run: (effort, folder) =>
    onStage(folder, async (stage) => {
      const { receiver, notifying } = stage;
      const count = 2 * effort.requests;
      const source = join(folder, "parked.db");
      await park(stage, source);
      const rows: Row[] = [];
      const sides: Notifying[] = [];
      for (const kind of KINDS) {
        const file = join(folder, `parked-${kind}.db`);
        for (const ending of ["", ".keys"]) await copyFile(source + ending, file + ending);
        const full = await notifying({ kind, file, receivers: BOTH });
        const empty = await notifying({ kind, file: join(folder, `empty-${kind}.db`), receivers: BOTH });
        const [beside, without] = [await changedUsers(full, count), await changedUsers(empty, count)];
        const rates = await inTurns(effort, {
          beside: rate(() => drain(receiver, beside, count)),
          without: rate(() => drain(receiver, without, count)),
        });
        sides.push(full);
        rows.push({
          work: `100,000 parked, ${kind}`,
          against: "the same without them",
          value: rates.beside / rates.without,
          unit: "×",
          target: 0.9,
          raw: `${perSecond(rates.beside)} to ${perSecond(rates.without)}`,
        });
      }
      return [...rows, memoryRow("beside 100,000 parked", sides)];
    }),
};
