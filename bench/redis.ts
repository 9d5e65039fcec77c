/** A Redis for the benchmarks, on a free port. */
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { type Core, pinned } from "./side.ts";

export interface BenchRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** A free port on this machine. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}

/**
 * Starts redis-server, which writes nothing to disk.
 * @param folder for its files.
 * @param core to run on. On the core of the load, Redis takes nothing from a server, as if it ran on another machine.
 */
export async function startRedis(folder: string, core: Core): Promise<BenchRedis> {
  const port = await freePort();
  const where = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const how = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"];
  const [command = "", ...parameters] = pinned(core, ["redis-server", ...where, ...how]);
  const child = spawn(command, parameters, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.once("error", () => reject(new Error("redis-server is not installed")));
    void ended.then(() => reject(new Error("redis-server ended before it was ready")));
    child.stdout.on("data", (text: Buffer) => {
      if (text.includes("Ready to accept connections")) resolve();
    });
  });
  return {
    port,
    pid: child.pid ?? 0,
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
