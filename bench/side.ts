/** One side of a comparison: a server in its own process, on its own core if possible. */
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { createInterface } from "node:readline";
import { builtServer } from "./build.ts";

/** The cores of the servers and of the load. With a single core they share it. */
export const SERVER_CORE = 0;
export const LOAD_CORE = 1;

/** Whether processes can be pinned to a core on this machine. */
export function canPin(): boolean {
  return availableParallelism() > 1 && spawnSync("taskset", ["--version"]).status === 0;
}

/** The core of a process. */
export type Core = number | "any";

/** The command, pinned to a core. */
export function pinned(core: Core, command: readonly string[]): readonly string[] {
  return core === "any" || !canPin() ? command : ["taskset", "-c", String(core), ...command];
}

/** A running server. */
export interface Side {
  readonly pid: number;
  /** What the server printed when it was ready. */
  readonly ready: Readonly<Record<string, string>>;
  /** Milliseconds from the start of the process until it was ready. */
  readonly startTime: number;
  /** Resident memory now, in MB. */
  memory(): number;
  /** The maximum resident memory since the start, in MB. */
  peakMemory(): number;
  /** Milliseconds of CPU time of the process and all its threads since the start. */
  cpuTime(): number;
  /** Stops the process and waits for its end. */
  stop(): Promise<void>;
}

export interface SideOptions {
  /** Options for the server, passed as one JSON argument. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** Default: {@link SERVER_CORE}. */
  readonly core?: Core;
  /** Options of Node. Default: none. */
  readonly node?: readonly string[];
  /** The folder of another checkout of this project. Default: this one. */
  readonly checkout?: string | undefined;
}

/** Memory of a process in MB, now or the most so far. */
export function memoryOf(pid: number, figure: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${figure}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024;
}

/** Linux counts in ticks of 10 ms on every machine that Node runs on. */
const TICK = 10;

/** Milliseconds of CPU time of a process and all its threads since its start. */
export function cpuTimeOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name of the program is second, in parentheses, and may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user, system] = [fields[11], fields[12]];
  return (Number(user) + Number(system)) * TICK;
}

/** Starts the compiled `bench/servers/<name>.ts` and waits for its line of JSON. */
export async function startSide(
  name: string,
  { options = {}, core = SERVER_CORE, node = [], checkout }: SideOptions = {},
): Promise<Side> {
  const script = [process.execPath, ...node, builtServer(name, checkout), JSON.stringify(options)];
  const [command = "", ...parameters] = pinned(core, script);
  const began = performance.now();
  const child = spawn(command, parameters, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    void ended.then(() => reject(new Error(`the server ${name} ended before it was ready`)));
  });
  const pid = child.pid ?? 0;
  return {
    pid,
    ready: JSON.parse(line) as Record<string, string>,
    startTime: performance.now() - began,
    memory: () => memoryOf(pid, "VmRSS"),
    cpuTime: () => cpuTimeOf(pid),
    peakMemory: () => memoryOf(pid, "VmHWM"),
    async stop() {
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await ended;
      clearTimeout(killer);
    },
  };
}
