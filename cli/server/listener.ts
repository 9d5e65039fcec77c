/** Listens on a port, and closes it after the last response. */
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { CommandFailure } from "../program/command-failure.ts";

export interface Listener {
  /** The port, also if 0 was requested. */
  readonly port: number;
  /** Starts to handle requests. Before that, they get 503. */
  serve(answer: RequestListener): void;
  /** New connections get this certificate. Only for a listener that speaks TLS. */
  renew(certificate: Certificate): void;
  /** Accepts no more connections. Resolves when the running requests are done, within `drainMs`. */
  stop(drainMs: number): Promise<void>;
}

/** Between two attempts to close idle connections while the server stops. */
const SWEEP_INTERVAL_MS = 50;

/** Time in which the headers of a request may still arrive when the server stops. */
const HEADERS_GRACE_MS = 1000;

const starting: RequestListener = (_request, response) => {
  response.writeHead(503, { "content-type": "application/json", "retry-after": "1" });
  response.end(JSON.stringify({ error: "temporarily_unavailable", error_description: "starting" }));
};

/** Tracks the running requests of each connection. */
function watchConnections(server: Server | TlsServer): {
  /** Cuts connections without a request. */
  cutSilent(): void;
  /** Lets each connection end with its present request, or after its next one. */
  endEach(): void;
} {
  const running = new Map<Socket, Set<ServerResponse>>();
  let isEnding = false;
  server.on("connection", (socket) => {
    running.set(socket, new Set());
    socket.once("close", () => running.delete(socket));
  });
  server.prependListener("request", ({ socket }, response) => {
    if (isEnding) response.shouldKeepAlive = false;
    running.get(socket)?.add(response);
    response.once("close", () => running.get(socket)?.delete(response));
  });
  return {
    // For Node.js, a new connection is busy until its first headers have arrived. Browsers open some in advance, and a
    // server that stops would wait for them.
    cutSilent() {
      for (const [socket, responses] of running) if (responses.size === 0) socket.destroy();
    },
    // Otherwise a client that always has another request would use its connection forever.
    endEach() {
      isEnding = true;
      for (const responses of running.values())
        for (const response of responses) response.shouldKeepAlive = false;
    },
  };
}

/** PEM texts: a certificate with its chain, and its private key. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** How to change a port and its address, for error messages. */
export interface PortWords {
  readonly choose: string;
  readonly host: string;
}

const SERVICE_PORT: PortWords = {
  choose: "choose another one with --port N or the environment variable PORT",
  host: "--host, HOST or host in the configuration",
};

/**
 * @param host An address or name. `undefined` listens on all addresses.
 * @param certificate speaks TLS. Default: plain HTTP.
 * @throws CommandFailure if the port isn't available.
 */
export async function listen(
  port: number,
  host: string | undefined,
  words: PortWords = SERVICE_PORT,
  certificate?: Certificate,
): Promise<Listener> {
  let answer = starting;
  const handle: RequestListener = (request, response) => answer(request, response);
  const tls = certificate && createTlsServer({ ...certificate, minVersion: "TLSv1.2" }, handle);
  const server: Server | TlsServer = tls ?? createServer(handle);
  const connections = watchConnections(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(notFree(error, { port, host, words })));
    server.listen({ port, ...(host !== undefined && { host }) }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    serve(listener) {
      answer = listener;
    },
    renew: (renewed) => tls?.setSecureContext({ ...renewed, minVersion: "TLSv1.2" }),
    stop: (drainMs) =>
      new Promise((resolve) => {
        const startedAt = performance.now();
        connections.endEach();
        const sweep = setInterval(() => {
          server.closeIdleConnections();
          if (performance.now() - startedAt > HEADERS_GRACE_MS) connections.cutSilent();
        }, SWEEP_INTERVAL_MS);
        const end = setTimeout(() => server.closeAllConnections(), drainMs);
        server.close(() => {
          clearInterval(sweep);
          clearTimeout(end);
          resolve();
        });
      }),
  };
}

/**
 * Checks that the port is available, without keeping it. A process that isn't ready accepts no connections, so that a
 * proxy uses another process.
 * @throws CommandFailure if the port isn't available.
 */
export async function requirePort(port: number, host: string | undefined, words?: PortWords): Promise<void> {
  await (await listen(port, host, words)).stop(0);
}

/** Why a port can't be opened, in a sentence. */
export function notFree(
  cause: NodeJS.ErrnoException,
  {
    port,
    host,
    words,
  }: { readonly port: number; readonly host: string | undefined; readonly words: PortWords },
): CommandFailure {
  const sentences: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is in use: ${words.choose}.`,
    EACCES: `This user may not listen on port ${port}: ${words.choose}.`,
    EADDRNOTAVAIL: `The address ${host} (${words.host}) does not belong to this machine.`,
    ENOTFOUND: `The name ${host} (${words.host}) can't be resolved.`,
  };
  const sentence = sentences[cause.code ?? ""] ?? `Port ${port} can't be opened: ${cause.code}.`;
  return new CommandFailure(sentence, { cause });
}
