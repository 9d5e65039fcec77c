/** Runs the examples as processes. */
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** A running process. */
export interface Running {
  readonly pid: number;
  /** Its output so far, standard output and standard error. */
  output(): string;
  /** Resolves when the output matches. Rejects if the process ends before. */
  until(pattern: RegExp): Promise<RegExpExecArray>;
  /** The exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Sends a signal and resolves like {@link Running.ended}. */
  stop(signal?: NodeJS.Signals): Promise<number | string>;
}

export interface Start {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Default: a new folder, which is removed afterwards. */
  readonly cwd?: string;
}

/** What a process gets of the environment: where programs are, and where Node keeps the modules that it has compiled. */
export function bareEnvironment(): Record<string, string> {
  const { PATH = "", NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) };
}

/** Starts a script of the repository, such as `cli/main.ts`. */
export function start(script: string, { args = [], ...options }: Start = {}): Running {
  return startProgram(process.execPath, { ...options, args: [join(ROOT, script), ...args] });
}

/** Starts any program. */
export function startProgram(program: string, { args = [], env = {}, cwd }: Start = {}): Running {
  const folder = cwd ?? newFolder();
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...bareEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const listeners = new Set<() => void>();
  for (const output of [child.stdout, child.stderr]) {
    output.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      for (const listener of listeners) listener();
    });
  }
  const ended = new Promise<number | string>((resolve) => {
    child.once("close", (code, signal) => {
      if (cwd === undefined) rmSync(folder, { recursive: true, force: true });
      resolve(signal ?? code ?? -1);
    });
  });
  return {
    pid: child.pid ?? 0,
    output: () => text,
    ended,
    until(pattern) {
      return new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(text);
          if (found === null) return;
          listeners.delete(look);
          resolve(found);
        };
        listeners.add(look);
        look();
        void ended.then((how) => reject(new Error(`ended with ${how} before ${pattern.source}:\n${text}`)));
      });
    },
    stop(signal = "SIGTERM") {
      child.kill(signal);
      return ended;
    },
  };
}

/** Creates a folder. The caller removes it. */
export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "sign-in-example-"));
}

/** Below the ports that systems give to connections, which could take one before it is used here. */
const PORTS = { from: 12_000, below: 32_000 };

/**
 * Finds consecutive ports at which nobody listens, and reserves them until this process ends: it keeps the UDP ports of
 * the same numbers, so that other processes that look here find other ports.
 * @returns the first one.
 */
export async function freePorts(count = 1): Promise<number> {
  const first = randomInt(PORTS.from, PORTS.below - count);
  for (let port = first; port < first + count; port += 1)
    if (!(await isReserved(port)) || !(await isFree(port))) return freePorts(count);
  return first;
}

/** Takes the UDP port. */
function isReserved(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4").once("error", () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => {
      socket.unref();
      resolve(true);
    });
  });
}

/** Listens on the port for a moment. */
function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => void server.close(() => resolve(true)));
  });
}
