/** A port: taken, and let go of when the last request is answered. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
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

const starting: RequestListener = (_request, response) => {
  response.writeHead(503, { "content-type": "application/json", "retry-after": "1" });
  response.end(JSON.stringify({ error: "temporarily_unavailable", error_description: "starting" }));
};

/**
 * @param host an address or name; `undefined`: all addresses.
 * @throws StartFailure when the port can't be had.
 */
export async function listen(port: number, host: string | undefined): Promise<Listener> {
  let answer = starting;
  const server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(notFree(error, port, host)));
    server.listen({ port, ...(host !== undefined && { host }) }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    serve(listener) {
      answer = listener;
    },
    stop: (patience) =>
      new Promise((resolve) => {
        const sweep = setInterval(() => server.closeIdleConnections(), SWEEP);
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

function notFree(cause: NodeJS.ErrnoException, port: number, host: string | undefined): StartFailure {
  const another = "choose another one with --port N or the environment variable PORT";
  const sentences: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is in use: ${another}.`,
    EACCES: `Port ${port} may not be used by this user: ${another}.`,
    EADDRNOTAVAIL: `The address ${host} (HOST) is not one of this machine.`,
    ENOTFOUND: `The name ${host} (HOST) is not known.`,
  };
  const sentence = sentences[cause.code ?? ""] ?? `Port ${port} can't be opened: ${cause.code}.`;
  return new StartFailure(sentence, undefined, { cause });
}
