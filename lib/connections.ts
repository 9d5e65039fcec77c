/** When a request was under way: for the first one of a connection, since the connection was accepted. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "./clock.ts";

export interface Connections {
  /**
   * Milliseconds since the epoch from which on the request may have been under way.
   * @param startedAt when it reached the service.
   */
  underWaySince(req: IncomingMessage, startedAt: number): number;
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
    underWaySince(req, startedAt) {
      const connection = connections.get(req.socket);
      if (connection === undefined || connection.requests > 1) return startedAt;
      return Math.max(connection.acceptedAt, startedAt - LONGEST_OPENING);
    },
    close() {
      unsubscribe("net.server.socket", onConnection);
      unsubscribe("http.server.request.start", onRequest);
    },
  };
}
