/** What all servers of the benchmarks do alike: listen on a free port, say so, end when they are told to. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { live } from "./live.ts";

/** The one argument. */
export function options(): {
  readonly file: string;
  readonly parallel?: number;
  /** What a password hash costs; left out: the default. */
  readonly cost?: { readonly memory: number; readonly passes: number };
  /** Where the short-lived artifacts are; left out: in the file. */
  readonly redis?: string;
  /** Where everything else is; left out: in the file. */
  readonly storage?: string;
  /** The address that clients know; left out: its own. */
  readonly url?: string;
} {
  return { file: ":memory:", ...(JSON.parse(process.argv[2] ?? "{}") as object) };
}

/**
 * Listens, builds the application for the address, and prints one line of JSON.
 * @param build gets the base URL; what it says beside the handler is printed with it.
 */
export async function serve(
  build: (base: string) => Promise<{
    readonly handle: RequestListener;
    readonly says?: Readonly<Record<string, string>>;
    readonly close?: () => Promise<void>;
  }>,
): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { handle, says = {}, close } = await build(base);
  server.on("request", handle);
  live({ base, ...says }, async () => {
    server.close();
    server.closeAllConnections();
    await close?.();
  });
}
