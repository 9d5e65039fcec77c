/**
 * Metrics of the Node.js process. All services in a process share them, also one after the other when a configuration is
 * reloaded: prom-client measures the event loop with a timer that nothing ends.
 */
import type { Registry } from "prom-client";

/** Makes it for the first caller, and returns the same to all others. */
function once<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** The registry with the usual metrics, `process_…` and `nodejs_…`. */
export const processMetrics: () => Promise<Registry> = once(async () => {
  const { collectDefaultMetrics, Registry } = await import("prom-client");
  const register = new Registry();
  collectDefaultMetrics({ register });
  return register;
});
