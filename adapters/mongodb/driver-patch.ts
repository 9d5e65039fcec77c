/**
 * The only place that reaches into the driver beyond its public interface, and why: what mongodb 7.8 and 7.9 do.
 *
 * A command that does not go out at once waits until its socket is drained. A socket that is closed is never drained,
 * and does not fail either when it was closed before, or by a time limit: the command then waits for good, with its
 * connection, which is one of a hundred, and so does a client that is closed, for it says goodbye with a command.
 * Here the end of the connection ends the command.
 */
import type { EventEmitter } from "node:events";

type Write = (this: EventEmitter, ...rest: unknown[]) => Promise<void>;

/** The driver's class of connections, as far as it is patched. */
interface DriverModule {
  readonly Connection: { readonly prototype: { writeCommand: Write; [PATCHED]?: true } };
}

/** A variable, for the driver has no types for its parts. */
const CONNECTION: string = "mongodb/lib/cmap/connection.js";

const PATCHED = Symbol("what is written ends with its connection");

/** Patches the driver that is loaded; more than once is the same as once. */
export async function patchDriver(): Promise<void> {
  const { MongoNetworkError } = await import("mongodb");
  const { Connection } = (await import(CONNECTION)) as DriverModule;
  const { prototype } = Connection;
  if (prototype[PATCHED] === true) return;
  prototype[PATCHED] = true;
  const write = prototype.writeCommand;
  prototype.writeCommand = function (...rest) {
    const ended = Promise.withResolvers<never>();
    const end = (): void => ended.reject(new MongoNetworkError("the connection ended under the command"));
    this.once("close", end);
    return Promise.race([write.apply(this, rest), ended.promise]).finally(() => this.off("close", end));
  };
}
