/** Starts work at a steady pace, without waiting for earlier work. */
import { setTimeout as pause } from "node:timers/promises";
import { machineTime } from "./commands.ts";

/** Milliseconds between two checks for work to start. */
const TICK = 5;

/** A user, and when the work for the user was done. */
export type Done = readonly [user: string, done: number];

/** Starts the work for `perSecond` users per second, in order, until all are done. */
export async function paced(
  users: readonly string[],
  perSecond: number,
  work: (user: string) => Promise<unknown>,
): Promise<Done[]> {
  const done: Done[] = [];
  const under: Promise<void>[] = [];
  const start = machineTime();
  while (under.length < users.length) {
    const now = Math.min(users.length, Math.floor(((machineTime() - start) * perSecond) / 1000));
    for (const user of users.slice(under.length, now)) {
      under.push(work(user).then(() => void done.push([user, machineTime()])));
    }
    await pause(TICK);
  }
  await Promise.all(under);
  return done;
}
