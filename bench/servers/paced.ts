/** Work at a steady pace, whatever the work before has come to. */
import { setTimeout as pause } from "node:timers/promises";
import { machineTime } from "./commands.ts";

/** Milliseconds between two looks at what is to be begun by now. */
const TICK = 5;

/** A user, and when the work for this one was done. */
export type Done = readonly [user: string, done: number];

/** Begins `perSecond` of the users in a second, in their order, until all are done. */
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
