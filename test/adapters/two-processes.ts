/**
 * Stores in another process, called by messages, so that concurrent processes are tested like everything else. Every
 * message carries the time, so that both processes follow the clock of the test.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";

type Method = Exclude<keyof RecordStore, "watch" | "copy">;

export interface Call {
  readonly id: number;
  /** The number of the store. */
  readonly store: number;
  readonly method: Method | "open";
  readonly args: readonly unknown[];
  /** By the clock of the test. */
  readonly now: number;
}

export interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: object;
}

const PROGRAM = join(import.meta.dirname, "store-process.ts");

export class StoreProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<never>>();
  #calls = 0;
  #stores = 0;

  constructor() {
    // Structured clones keep lone surrogates and `undefined`.
    this.#child = fork(PROGRAM, { serialization: "advanced", stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.#child.on("message", ({ id, value, error }: Reply) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(value as never);
      else waiting?.reject(Object.assign(new Error("in the other process"), error));
    });
    this.#child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the other process has ended"));
    });
  }

  async open(address: string, clock: Clock): Promise<RecordStore> {
    const number = (this.#stores += 1);
    const call =
      (method: Call["method"]) =>
      (...args: readonly unknown[]): Promise<never> =>
        this.#send({ store: number, method, args, now: clock.now() });
    await call("open")(address);
    return {
      get: call("get"),
      list: call("list"),
      scan: call("scan"),
      count: call("count"),
      commit: call("commit"),
      next: call("next"),
      sweep: call("sweep"),
      ping: call("ping"),
      close: call("close"),
    };
  }

  #send(call: Omit<Call, "id">): Promise<never> {
    const id = (this.#calls += 1);
    const waiting = Promise.withResolvers<never>();
    if (!this.#child.connected) return Promise.reject(new Error("the other process has ended"));
    this.#waiting.set(id, waiting);
    this.#child.send({ id, ...call } satisfies Call);
    return waiting.promise;
  }

  /** Kills it wherever it is. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
