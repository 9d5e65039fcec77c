/** One request, one write: what the steps inside write is committed when the answer is known to be good. */
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Step } from "./exchange.ts";

/**
 * Commits also when a step inside refuses with a client's error: ending a family that was replayed is such an
 * answer. A fault commits nothing.
 */
export function atomically({ units }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { underWaySince, deadline, client, ahead } = exchange;
    await units.run({ underWaySince, deadline, client, ahead }, async (unit) => {
      let refusal: EndpointError | undefined;
      try {
        await next();
      } catch (error) {
        if (!(error instanceof EndpointError) || error.status >= 500 || error.status === 429) throw error;
        refusal = error;
      }
      if (unit.failure !== undefined) throw unit.failure;
      await unit.commit();
      if (refusal) throw refusal;
    });
  };
}
