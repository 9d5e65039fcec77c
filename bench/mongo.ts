/**
 * A MongoDB for the benchmarks, or a substitute on which round trips can be counted, but which says nothing about
 * speed.
 */
import { startChild } from "../examples/cluster/children.ts";
import { mongoStore, untilWritable } from "../examples/cluster/stores.ts";

export interface BenchMongo {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

/** @throws CommandFailure if none is installed. */
export async function startMongo(port: number, folder: string): Promise<BenchMongo> {
  const {
    plans: [plan],
    url,
  } = mongoStore(port, folder);
  const child = startChild(plan, console.error);
  try {
    await child.started;
    await untilWritable(url);
  } catch (error) {
    await child.stop();
    throw error;
  }
  return { url, port, stop: () => child.stop() };
}
