/** Ending a connection, whatever it is doing. */
import type { EventEmitter } from "node:events";
import type { Redis } from "ioredis";

/** What the driver keeps of a connection that broke, to send it again. */
interface Unanswered {
  shift(): { readonly command: { reject(error: Error): void } } | undefined;
}

/** By these words BullMQ knows that there is no connection any more. */
const CLOSED = "Connection is closed.";

/**
 * A connection that is ended in the moment in which its certificate is refused fails more than once. The driver listens
 * to the first error of a stream only, and the next one would end the process.
 *
 * What waited for an answer when a connection broke is to be sent again by the next one. If that is ended before it is
 * ready, the driver (ioredis 6.0) forgets about it, and whoever asked would wait for good.
 */
export function endQuietly(client: Redis): void {
  const disconnect = client.disconnect.bind(client);
  client.disconnect = (reconnect) => {
    const stream: EventEmitter | undefined = Reflect.get(client, "stream");
    stream?.on("error", () => undefined);
    disconnect(reconnect);
  };
  client.on("end", () => {
    const left: Unanswered | null | undefined = Reflect.get(client, "prevCommandQueue");
    for (let next = left?.shift(); next !== undefined; next = left?.shift()) {
      next.command.reject(new Error(CLOSED));
    }
  });
}
