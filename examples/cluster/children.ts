/** Runs processes and restarts them when they end, like the supervisor of a real cluster. */
import { type ChildProcess, spawn } from "node:child_process";
import { CommandFailure } from "../../cli/program/command-failure.ts";

/** How to start a process. */
export interface ChildPlan {
  /** Name in the output. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** User and group of the process. Default: those of this process. */
  readonly as?: { readonly uid: number; readonly gid: number };
  /** The output that means ready, or a function that waits until the process is ready. */
  readonly ready: RegExp | (() => Promise<void>);
  /** What has to be done before each start. */
  readonly prepare?: () => Promise<void>;
  /** How long after its end it is started again. Default: a second. */
  readonly restartMs?: number;
}

export interface Child {
  readonly name: string;
  /** Resolves when it is first ready. Rejects if it ends before. */
  readonly started: Promise<void>;
  /** ID of the running process, or 0. */
  pid(): number;
  /** Stops it without a restart: SIGTERM, then SIGKILL if that takes too long. */
  stop(): Promise<void>;
  /** Kills it without a restart. */
  kill(): void;
}

const RESTART_DELAY_MS = 1_000;
/** From SIGTERM to SIGKILL. */
const KILL_AFTER_MS = 35_000;

/** Starts the process once. @returns The process, and the end of its output. */
function begin(
  { command, args, as, ready }: ChildPlan,
  isReady: PromiseWithResolvers<void>,
): { readonly child: ChildProcess; readonly said: () => string } {
  // Detached, so that Ctrl+C reaches only the cluster, which then stops the processes in order.
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
 * Starts a process and keeps it running.
 * @param say Prints a line when the process has ended or is back.
 */
export function startChild(plan: ChildPlan, say: (line: string) => void): Child {
  const { name } = plan;
  let running: ChildProcess | undefined;
  let isStopping = false;
  /** Whether it was ready once. Only then is it restarted. */
  let hasStarted = false;
  let again: NodeJS.Timeout | undefined;

  async function start(): Promise<void> {
    await plan.prepare?.();
    if (isStopping) throw new CommandFailure(`${name} is being stopped`);
    const isReady = Promise.withResolvers<void>();
    const { child, said } = begin(plan, isReady);
    running = child;
    child.once("error", ({ message }) => {
      running = undefined;
      isReady.reject(new CommandFailure(`${name} can't be started: ${message}`));
    });
    child.once("exit", (code, signal) => {
      running = undefined;
      isReady.reject(new CommandFailure(`${name} ended before it was ready.\n${said()}`));
      if (isStopping || !hasStarted) return;
      say(`${name} ended (${signal ?? String(code)}); restarting it`);
      again = setTimeout(
        () =>
          void start().then(
            () => say(`${name} is running again, process ${running?.pid ?? 0}`),
            (error: unknown) => say(error instanceof Error ? error.message : "it did not start"),
          ),
        plan.restartMs ?? RESTART_DELAY_MS,
      );
    });
    await isReady.promise;
    hasStarted = true;
  }

  async function stop(): Promise<void> {
    isStopping = true;
    clearTimeout(again);
    const child = running;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const tooLong = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
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
