/** A port: taken, and let go of when the last request is answered. */
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { StartFailure } from "./start-failure.ts";

/** A server that listens. */
export interface Listener {
  /** The port; a free one when 0 was asked for. */
  readonly port: number;
  /** Answers requests from now on; before that they get 503. */
  serve(answer: RequestListener): void;
  /** Takes no more connections; resolves when the running requests are answered, after `patience` milliseconds at the latest. */
  stop(patience: number): Promise<void>;
}

/** How often connections that have become idle are closed while the server stops, in milliseconds. */
const SWEEP = 50;

/** Milliseconds for a request that is on its way when the server is told to stop: until its head is there. */
const ON_ITS_WAY = 1000;

const starting: RequestListener = (_request, response) => {
  response.writeHead(503, { "content-type": "application/json", "retry-after": "1" });
  response.end(JSON.stringify({ error: "temporarily_unavailable", error_description: "starting" }));
};

/**
 * Connections on which no request is running. Node counts one as busy that was opened and has said nothing yet, or
 * only the beginning of a head: browsers open some in advance, and a server that stops would wait for them.
 */
function watchSilent(server: Server): { cut(): void } {
  const running = new Map<Socket, number>();
  server.on("connection", (socket) => {
    running.set(socket, 0);
    socket.once("close", () => running.delete(socket));
  });
  server.prependListener("request", ({ socket }, response) => {
    running.set(socket, (running.get(socket) ?? 0) + 1);
    response.once("close", () => {
      if (running.has(socket)) running.set(socket, (running.get(socket) ?? 0) - 1);
    });
  });
  return {
    cut() {
      for (const [socket, requests] of running) if (requests === 0) socket.destroy();
    },
  };
}

/** How a person changes a port and its address, for the sentence when it can't be had. */
export interface PortWords {
  readonly choose: string;
  readonly host: string;
}

const SERVICE_PORT: PortWords = {
  choose: "choose another one with --port N or the environment variable PORT",
  host: "HOST",
};

/**
 * @param host an address or name; `undefined`: all addresses.
 * @throws StartFailure when the port can't be had.
 */
export async function listen(
  port: number,
  host: string | undefined,
  words: PortWords = SERVICE_PORT,
): Promise<Listener> {
  let answer = starting;
  const server = createServer((request, response) => answer(request, response));
  const silent = watchSilent(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(notFree(error, { port, host, words })));
    server.listen({ port, ...(host !== undefined && { host }) }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    serve(listener) {
      answer = listener;
    },
    stop: (patience) =>
      new Promise((resolve) => {
        const told = performance.now();
        const sweep = setInterval(() => {
          server.closeIdleConnections();
          if (performance.now() - told > ON_ITS_WAY) silent.cut();
        }, SWEEP);
        const end = setTimeout(() => server.closeAllConnections(), patience);
        server.close(() => {
          clearInterval(sweep);
          clearTimeout(end);
          resolve();
        });
      }),
  };
}

/**
 * Looks whether the port can be had, and lets go of it: a process that is not ready takes no connection, so that a
 * proxy goes on to one that is.
 * @throws StartFailure when it can't.
 */
export async function requirePort(port: number, host: string | undefined): Promise<void> {
  await (await listen(port, host)).stop(0);
}

function notFree(
  cause: NodeJS.ErrnoException,
  {
    port,
    host,
    words,
  }: { readonly port: number; readonly host: string | undefined; readonly words: PortWords },
): StartFailure {
  const sentences: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is in use: ${words.choose}.`,
    EACCES: `Port ${port} may not be used by this user: ${words.choose}.`,
    EADDRNOTAVAIL: `The address ${host} (${words.host}) is not one of this machine.`,
    ENOTFOUND: `The name ${host} (${words.host}) is not known.`,
  };
  const sentence = sentences[cause.code ?? ""] ?? `Port ${port} can't be opened: ${cause.code}.`;
  return new StartFailure(sentence, undefined, { cause });
}
