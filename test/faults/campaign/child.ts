/** How a process of a campaign begins and ends. */
import { flushCompileCache } from "node:module";
import { SignInError } from "../../../lib/errors.ts";

/** Exit code of a process that could not start because Redis or the storage was away: it is no crash. */
export const NOT_NOW = 75;

/** What the process does until it is told to end. */
export interface Work {
  close(): Promise<void>;
}

/** Nobody is left behind when the campaign itself is killed. */
function abandoned(): void {
  process.exit(1);
}

async function end(work: Work): Promise<void> {
  await work.close();
  process.off("disconnect", abandoned);
  process.disconnect();
}

/** Says `ready` when the work has begun; ends it at SIGTERM. Then nothing may keep the process alive. */
export async function live(begin: () => Promise<Work>): Promise<void> {
  process.once("disconnect", abandoned);
  try {
    const work = await begin();
    process.once("SIGTERM", () => void end(work));
    process.send?.("ready");
    // One that is killed would never write it.
    flushCompileCache();
  } catch (error) {
    console.error(error);
    process.exit(error instanceof SignInError && error.code === "storage_unavailable" ? NOT_NOW : 1);
  }
}
