/** Processes that are started again when they end, as whatever runs a cluster does it. */
import { type ChildProcess, spawn } from "node:child_process";
import { StartFailure } from "../server/start-failure.ts";

/** How a process is started and what is to be known of it. */
export interface ChildPlan {
  /** What people call it. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The user and group as which it runs. Default: those of this process. */
  readonly as?: { readonly uid: number; readonly gid: number };
  /** What it prints when it is ready; or waits until it answers, for one that does not say so. */
  readonly ready: RegExp | (() => Promise<void>);
}

export interface Child {
  readonly name: string;
  /** Resolves when it is ready for the first time; rejects when it ends before. */
  readonly started: Promise<void>;
  /** Of the process that runs now; 0 while there is none. */
  pid(): number;
  /** Ends it for good: SIGTERM, and SIGKILL when that takes too long. */
  stop(): Promise<void>;
  /** Ends it for good, at once. */
  kill(): void;
}

/** Milliseconds until it is started again. */
const PAUSE = 1_000;
/** Milliseconds that it has to end by itself. */
const PATIENCE = 35_000;

/** Starts it once. @returns the process, and the last of what it has said. */
function begin(
  { command, args, as, ready }: ChildPlan,
  isReady: PromiseWithResolvers<void>,
): { readonly child: ChildProcess; readonly said: () => string } {
  // A group of its own: Ctrl+C of the terminal reaches this process only, which ends them in their order.
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], detached: true, ...as });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-10_000);
      if (ready instanceof RegExp && ready.test(said)) isReady.resolve();
    });
  }
  if (!(ready instanceof RegExp))
    child.once("spawn", () => void ready().then(isReady.resolve, isReady.reject));
  return { child, said: () => said };
}

/**
 * Starts it.
 * @param say gets a line for people: when it has ended, and lines that it prints itself after it is ready.
 */
export function startChild(plan: ChildPlan, say: (line: string) => void): Child {
  const { name } = plan;
  let running: ChildProcess | undefined;
  let isStopping = false;
  /** Whether it was ready once: from then on it is started again, whenever and however often it ends. */
  let hasStarted = false;
  let again: NodeJS.Timeout | undefined;

  function start(): Promise<void> {
    const isReady = Promise.withResolvers<void>();
    const { child, said } = begin(plan, isReady);
    running = child;
    const whenReady = async (): Promise<void> => {
      await isReady.promise;
      hasStarted = true;
    };
    child.once("error", ({ message }) => {
      running = undefined;
      isReady.reject(new StartFailure(`${name} can't be started: ${message}`));
    });
    child.once("exit", (code, signal) => {
      running = undefined;
      isReady.reject(new StartFailure(`${name} ended before it was ready.\n${said()}`));
      if (isStopping || !hasStarted) return;
      say(`${name} ended (${signal ?? String(code)}); starting it again`);
      again = setTimeout(
        () =>
          void start().then(
            () => say(`${name} is back, process ${running?.pid ?? 0}`),
            (error: unknown) => say(error instanceof Error ? error.message : "it did not start"),
          ),
        PAUSE,
      );
    });
    return whenReady();
  }

  async function stop(): Promise<void> {
    isStopping = true;
    clearTimeout(again);
    const child = running;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const tooLong = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
    await ended;
    clearTimeout(tooLong);
  }

  function kill(): void {
    isStopping = true;
    clearTimeout(again);
    running?.kill("SIGKILL");
  }

  return { name, started: start(), pid: () => running?.pid ?? 0, stop, kill };
}
