/** A process of a campaign: killed again and again, and started again each time. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { NOT_NOW } from "./child.ts";

export interface MemberOptions {
  /** Path of its script. */
  readonly script: string;
  readonly args: readonly string[];
  /** File descriptor for what it says. */
  readonly log: number;
  /** Folder for compiled code, so that it starts in half the time. */
  readonly compiled: string;
  readonly onMessage?: (message: unknown) => void;
  /** Told when the process has ended, however it did. */
  readonly onGone?: () => void;
}

/** Milliseconds for which a process works at least before it is worth killing. */
const WORKS = 1000;
/** Milliseconds before a process that could not start is started again. */
const AGAIN = 200;

export class Member {
  /** How often it was killed. */
  kills = 0;
  /** How often it ended without being told to. */
  crashes = 0;
  readonly #options: MemberOptions;
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

  /** Whether it has worked for a second, and for as long as it took to start. */
  get hasWorked(): boolean {
    if (this.#readyAt === undefined) return false;
    return performance.now() - this.#readyAt > Math.max(WORKS, this.#readyAt - this.#spawnedAt);
  }

  send(message: object): void {
    // The process may have gone in this moment.
    this.#child.send(message, () => undefined);
  }

  /** SIGKILL; another one is started. */
  kill(): void {
    if (this.#killed || this.#ending || this.#child.exitCode !== null) return;
    this.#killed = true;
    this.kills += 1;
    this.#child.kill("SIGKILL");
  }

  /** SIGTERM, once it has started. @returns the exit code or the name of the signal that ended it. */
  async stop(): Promise<number | string> {
    while (!this.isReady && !this.#ending) await this.#ready.promise;
    this.#ending = true;
    return this.#end("SIGTERM");
  }

  /** SIGKILL, and no other one is started. */
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
    const child = fork(script, args, { env, stdio: ["ignore", log, log, "ipc"] });
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
