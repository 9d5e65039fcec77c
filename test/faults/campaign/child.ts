/** The life of a process in a campaign. */
import { flushCompileCache } from "node:module";
import { SignInError } from "../../../core/errors.ts";

/** Exit code of a process that failed to start because Redis or the storage was unavailable. This is not a crash. */
export const NOT_NOW = 75;

/** The storage answers nothing, or `storage promoted` has not finished. */
const isPassing = (error: unknown): boolean =>
  error instanceof SignInError &&
  (error.code === "storage_unavailable" || error.message.includes("`storage promoted` again"));

/** What the process does until SIGTERM. */
export interface Work {
  close(): Promise<void>;
}

/** Ends the process when the campaign itself is killed. */
function abandoned(): void {
  process.exit(1);
}

async function end(work: Work): Promise<void> {
  await work.close();
  process.off("disconnect", abandoned);
  process.disconnect();
}

/** Sends `ready` when the work has begun, and closes it at SIGTERM. Nothing may keep the process alive after that. */
export async function live(begin: () => Promise<Work>): Promise<void> {
  process.once("disconnect", abandoned);
  try {
    const work = await begin();
    process.once("SIGTERM", () => void end(work));
    process.send?.("ready");
    // A killed process would never write it.
    flushCompileCache();
  } catch (error) {
    console.error(error);
    process.exit(isPassing(error) ? NOT_NOW : 1);
  }
}
