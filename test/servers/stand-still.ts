/** Pausing a process for certain: the signal alone is a request, and on a busy machine a thread may go on for a while. */
import { readdirSync, readFileSync } from "node:fs";

/** Stopped, or at its end. */
const isStill = (stat: string): boolean => "TtZX".includes(stat.charAt(stat.lastIndexOf(")") + 2));

/** Sends SIGSTOP and returns when none of its threads runs any more, or when it has ended. */
export function standStill(pid: number): void {
  process.kill(pid, "SIGSTOP");
  const tasks = `/proc/${pid}/task`;
  const runs = (): boolean =>
    readdirSync(tasks).some((task) => !isStill(readFileSync(`${tasks}/${task}/stat`, "utf8")));
  try {
    while (runs());
  } catch {
    // A thread or the process has ended meanwhile; the rest has got the signal.
  }
}
