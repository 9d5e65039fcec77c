/** Shared by all servers of the benchmarks: listen on a free port, report it, and stop. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { live } from "./live.ts";

/** The argument of the process. */
export function options(): {
  readonly file: string;
  readonly parallel?: number;
  /** The cost of a password hash. Default: that of the service. */
  readonly cost?: { readonly memory: number; readonly passes: number };
  /** Where the artifacts are stored. Default: in the file. */
  readonly redis?: string;
  /** Where everything else is stored. Default: in the file. */
  readonly storage?: string;
  /** Whether the only signing key is one for ES256. Default: the keys that the service makes. */
  readonly ecdsa?: boolean;
  /** The name of this machine in its own address. There are no passkeys for the default, `127.0.0.1`. */
  readonly host?: "localhost";
  /** The public address. Default: its own. */
  readonly url?: string;
} {
  return { file: ":memory:", ...(JSON.parse(process.argv[2] ?? "{}") as object) };
}

/**
 * Listens, builds the application for the address, and prints one line of JSON.
 * @param build gets the base URL. What it returns besides the handler is printed too.
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
  const base = `http://${options().host ?? "127.0.0.1"}:${(server.address() as AddressInfo).port}`;
  const { handle, says = {}, close } = await build(base);
  server.on("request", handle);
  live({ base, ...says }, async () => {
    server.close();
    server.closeAllConnections();
    await close?.();
  });
}
