/** Processes of their own that serve the same storage. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { beforeAll } from "@jest/globals";
import { atEnd } from "../closing.ts";
import type { DeploymentsInput } from "../../config/input.ts";
import type { StorageConfig } from "../servers/storage.ts";

/** What the processes are started with. It goes to them as JSON. */
export interface ProcessConfig extends StorageConfig {
  readonly deployments: DeploymentsInput;
}

export interface Processes {
  /** On which 127.0.0.1 is served. */
  readonly ports: readonly number[];
  /** Ends all processes. @returns their exit codes. */
  readonly end: () => Promise<readonly (number | null)[]>;
}

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** Starts them at the same moment. */
export async function startProcesses(count: number, config: ProcessConfig): Promise<Processes> {
  const program = join(import.meta.dirname, "child.ts");
  const children: readonly Child[] = Array.from({ length: count }, () =>
    spawn(process.execPath, [program, JSON.stringify(config)], { stdio: ["pipe", "pipe", "inherit"] }),
  );
  const exits = Promise.all(
    children.map(async (child): Promise<number | null> => {
      const [code] = (await once(child, "exit")) as [number | null];
      return code;
    }),
  );
  const end = (): Promise<readonly (number | null)[]> => {
    for (const child of children) child.stdin.end();
    return exits;
  };
  try {
    const outputs = children.map((child) => createInterface({ input: child.stdout })[Symbol.asyncIterator]());
    for (const output of outputs) if ((await output.next()).value !== "ready") throw new Error("not ready");
    for (const child of children) child.stdin.write("go\n");
    const ports = await Promise.all(outputs.map((output) => portOf(output)));
    return { ports, end };
  } catch (cause) {
    for (const child of children) child.kill("SIGKILL");
    throw cause;
  }
}

/** Two processes for the tests of this block. @returns base URLs of the OpenID Connect deployment at each of them. */
export function useTwoProcesses(config: () => ProcessConfig): readonly string[] {
  const bases: string[] = [];
  beforeAll(async () => {
    const { ports, end } = await startProcesses(2, config());
    atEnd(end);
    bases.push(...ports.map((port) => `http://127.0.0.1:${port}/openid`));
  }, 60_000);
  return bases;
}

/** The first line that is a number: a service may log before it listens. */
async function portOf(output: AsyncIterator<string>): Promise<number> {
  for (;;) {
    const { value, done } = await output.next();
    if (done === true) throw new Error("a process has ended");
    if (/^\d+$/.test(value)) return Number(value);
  }
}
