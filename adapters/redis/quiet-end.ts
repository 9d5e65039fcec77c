/** Ending a connection, whatever it is doing. */
import type { EventEmitter } from "node:events";
import type { Redis } from "ioredis";

/**
 * A connection that is ended in the moment in which its certificate is refused fails more than once. The driver listens
 * to the first error of a stream only, and the next one would end the process.
 */
export function endQuietly(client: Redis): void {
  const disconnect = client.disconnect.bind(client);
  client.disconnect = (reconnect) => {
    const stream: EventEmitter | undefined = Reflect.get(client, "stream");
    stream?.on("error", () => undefined);
    disconnect(reconnect);
  };
}
