/** Simulates stores on another machine. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { LOAD_CORE, pinned } from "./side.ts";

export interface Distance {
  /** The port to connect to. */
  readonly port: number;
  stop(): Promise<void>;
}

/** @param milliseconds of delay for what is sent to the port. Responses are not delayed. */
export async function startDistance(port: number, milliseconds: number): Promise<Distance> {
  const script = [
    process.execPath,
    join(import.meta.dirname, "delay.ts"),
    JSON.stringify({ port, milliseconds }),
  ];
  const [command = "", ...parameters] = pinned(LOAD_CORE, script);
  const child = spawn(command, parameters, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    void ended.then(() => reject(new Error("the distance ended before it was ready")));
  });
  return {
    port: (JSON.parse(line) as { readonly port: number }).port,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
