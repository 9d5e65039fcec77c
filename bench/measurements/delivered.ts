/** Notifications delivered in a second, from the queue to the receiver, signed, beside a bare BullMQ worker. */
import { join } from "node:path";
import { changedUsers, drain, memoryRow } from "../drain.ts";
import { ask, type Kind, onStage } from "../notifying-sides.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { inTurns } from "../rounds.ts";

const AGAINST = "bare BullMQ worker, http.request";

export const delivered: Measurement = {
  name: "delivered",
  run: (effort, folder) =>
    onStage(folder, async ({ receiver, notifying, bare }) => {
      const count = 2 * effort.requests;
      const receivers = { 1: "/take/1" };
      const embedded = await notifying({ kind: "embedded", file: join(folder, "embedded.db"), receivers });
      const bullmq = await notifying({ kind: "bullmq", file: join(folder, "bullmq.db"), receivers });
      const theirs = await bare();
      const users = {
        embedded: await changedUsers(embedded, count),
        bullmq: await changedUsers(bullmq, count),
      };
      const jobs = {
        fill: () => ask(theirs, "fill", { count }),
        release: () => ask(theirs, "release"),
      };
      const rates = await inTurns(effort, {
        bare: () => drain(receiver, jobs, count),
        embedded: () => drain(receiver, users.embedded, count),
        bullmq: () => drain(receiver, users.bullmq, count),
      });
      const row = (kind: Kind, target: number): Row => ({
        work: `delivered, ${kind}`,
        against: AGAINST,
        value: rates[kind] / rates.bare,
        unit: "×",
        target,
        raw: `${perSecond(rates[kind])} to ${perSecond(rates.bare)}`,
      });
      return [
        row("embedded", 1),
        row("bullmq", 0.9),
        memoryRow("embedded and BullMQ, delivering", [embedded.worker, bullmq.worker]),
      ];
    }),
};
