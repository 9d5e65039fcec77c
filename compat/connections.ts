/** When a request began. For the first request of a connection, that is when the connection was accepted. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../core/clock.ts";

export interface Connections {
  /** The earliest time at which this request may have begun, by the clock of `watchConnections`. */
  underWaySince(req: IncomingMessage): number;
  /** Stops listening. */
  close(): void;
}

interface Connection {
  readonly acceptedAt: number;
  requests: number;
}

/**
 * A request counts from the opening of its connection at most this far back. Otherwise an attacker could open a
 * connection early, and use it later with a stolen code.
 */
const MAX_OPENING_MS = 1_000;

/**
 * Parallel requests of one client arrive on separate connections, and the last ones may arrive after the first one is
 * answered. Only the times at which their connections were accepted show that they were sent together.
 * @param clock a monotonic clock.
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
      return Math.max(connection.acceptedAt, now - MAX_OPENING_MS);
    },
    close() {
      unsubscribe("net.server.socket", onConnection);
      unsubscribe("http.server.request.start", onRequest);
    },
  };
}
