/** A process of a campaign that restarts after every kill. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { NOT_NOW } from "./child.ts";

export interface MemberOptions {
  /** Path of its script. */
  readonly script: string;
  /** @param start counts its processes, from 0. */
  readonly args: (start: number) => readonly string[];
  /** File descriptor for its output. */
  readonly log: number;
  /** Folder for compiled code, so that it starts in half the time. */
  readonly compiled: string;
  readonly onMessage?: (message: unknown) => void;
  /** Called when the process has ended, for whatever reason. */
  readonly onGone?: () => void;
}

/** The shortest time that a process runs before it is killed, in milliseconds. */
const WORKS = 1000;
/** Milliseconds before a process that failed to start is restarted. */
const AGAIN = 200;

export class Member {
  /** How often it was killed. */
  kills = 0;
  /** How often it ended by itself. */
  crashes = 0;
  readonly #options: MemberOptions;
  #starts = 0;
  #child: ChildProcess;
  #ready = Promise.withResolvers<void>();
  #spawnedAt = 0;
  #readyAt: number | undefined;
  #killed = false;
  #ending = false;

  constructor(options: MemberOptions) {
    this.#options = options;
    this.#child = this.#spawn();
  }

  /** Whether it has started and takes messages. */
  get isReady(): boolean {
    return this.#readyAt !== undefined;
  }

  /** Whether it has run for a second, and for at least as long as it took to start. */
  get hasWorked(): boolean {
    if (this.#readyAt === undefined) return false;
    return performance.now() - this.#readyAt > Math.max(WORKS, this.#readyAt - this.#spawnedAt);
  }

  /** The id of the running process. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  send(message: object): void {
    // The process may have just ended.
    this.#child.send(message, () => undefined);
  }

  /** Sends SIGKILL. A new process takes its place. */
  kill(): void {
    if (this.#killed || this.#ending || this.#child.exitCode !== null) return;
    this.#killed = true;
    this.kills += 1;
    this.#child.kill("SIGKILL");
  }

  /** Sends SIGTERM once the process is ready. @returns The exit code, or the name of the signal that ended it. */
  async stop(): Promise<number | string> {
    while (!this.isReady && !this.#ending) await this.#ready.promise;
    this.#ending = true;
    return this.#end("SIGTERM");
  }

  /** Sends SIGKILL and starts no new process. */
  async destroy(): Promise<void> {
    this.#ending = true;
    this.#ready.resolve();
    await this.#end("SIGKILL");
  }

  async #end(signal: NodeJS.Signals): Promise<number | string> {
    const child = this.#child;
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, "exit");
      child.kill(signal);
      await gone;
    }
    return child.signalCode ?? child.exitCode ?? -1;
  }

  #spawn(): ChildProcess {
    const { script, args, log, compiled, onMessage } = this.#options;
    this.#spawnedAt = performance.now();
    const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
    const child = fork(script, args(this.#starts), { env, stdio: ["ignore", log, log, "ipc"] });
    this.#starts += 1;
    child.on("message", (message) => {
      if (message !== "ready") return onMessage?.(message);
      this.#readyAt = performance.now();
      this.#ready.resolve();
    });
    child.once("exit", (code) => void this.#gone(code));
    return child;
  }

  async #gone(code: number | null): Promise<void> {
    if (this.isReady) this.#ready = Promise.withResolvers();
    this.#readyAt = undefined;
    this.#options.onGone?.();
    if (this.#ending) return;
    if (!this.#killed && code !== NOT_NOW) this.crashes += 1;
    if (!this.#killed) await pause(AGAIN);
    if (this.#ending) return;
    this.#killed = false;
    this.#child = this.#spawn();
  }
}
