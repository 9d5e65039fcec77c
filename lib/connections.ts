/** When a request was under way: for the first one of a connection, since the connection was accepted. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "./clock.ts";

export interface Connections {
  /** When the request that has just come may have begun, on the clock of these connections. */
  underWaySince(req: IncomingMessage): number;
  /** Stops listening. */
  close(): void;
}

interface Connection {
  readonly acceptedAt: number;
  requests: number;
}

/**
 * Milliseconds between a connection and its first request that count: a connection that was opened long ago and
 * kept for a stolen code says nothing.
 */
const LONGEST_OPENING = 1_000;

/**
 * Requests that a client sends together arrive on connections of their own, the last ones after the first is
 * answered: only the time at which their connections were accepted shows that they belong together.
 * @param clock only goes on: `monotonic`.
 */
export function watchConnections(clock: Clock): Connections {
  const connections = new WeakMap<Socket, Connection>();

  function onConnection(message: unknown): void {
    const { socket } = message as { socket: Socket };
    connections.set(socket, { acceptedAt: clock.now(), requests: 0 });
  }

  function onRequest(message: unknown): void {
    const connection = connections.get((message as { socket: Socket }).socket);
    if (connection) connection.requests += 1;
  }

  subscribe("net.server.socket", onConnection);
  subscribe("http.server.request.start", onRequest);
  return {
    underWaySince(req) {
      const now = clock.now();
      const connection = connections.get(req.socket);
      if (connection === undefined || connection.requests > 1) return now;
      return Math.max(connection.acceptedAt, now - LONGEST_OPENING);
    },
    close() {
      unsubscribe("net.server.socket", onConnection);
      unsubscribe("http.server.request.start", onRequest);
    },
  };
}
