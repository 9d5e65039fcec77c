/** Counts the round trips between a server and its stores by listening on the connection. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** One request to a store and its response, by the clock of `performance`. */
interface RoundTrip {
  readonly from: number;
  to: number;
}

export interface Tap {
  /** The port to connect to. */
  readonly port: number;
  /** The round trips since the last call. */
  take(): RoundTrip[];
  close(): void;
}

/** Milliseconds without traffic after which all work of a request is done. */
export const QUIET = 50;

/** Milliseconds for which a response is held back, so that parallel requests overlap however fast the store is. */
const KEPT_BACK = 3;

/** Receives what a client sends, in pieces of any size. */
export type Watch = (piece: Buffer) => void;

/**
 * Listens in front of a port of this machine.
 * @param watch is called for each connection. Default: the traffic is not inspected.
 */
export async function openTap(port: number, watch?: () => Watch): Promise<Tap> {
  const sockets = new Set<Socket>();
  let trips: RoundTrip[] = [];
  const server = createServer((from) => {
    const to = connect({ port, host: "127.0.0.1", noDelay: true });
    from.setNoDelay(true);
    let open: RoundTrip | undefined;
    const read = watch?.();
    from.on("data", (chunk: Buffer) => {
      read?.(chunk);
      if (open === undefined) trips.push((open = { from: performance.now(), to: Infinity }));
      to.write(chunk);
    });
    to.on("data", (chunk) => {
      setTimeout(() => {
        if (open !== undefined) open.to = performance.now();
        open = undefined;
        from.write(chunk);
      }, KEPT_BACK);
    });
    for (const [socket, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    take() {
      const taken = trips;
      trips = [];
      return taken;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * How many round trips had to wait for each other. Overlapping ones count once; those that no one waited for don't
 * count.
 */
export function inSequence(trips: readonly RoundTrip[]): number {
  let count = 0;
  let end = -Infinity;
  for (const trip of trips.filter(({ to }) => to < Infinity).toSorted((a, b) => a.to - b.to)) {
    if (trip.from < end) continue;
    count += 1;
    end = trip.to;
  }
  return count;
}
