/** Pages under `{base}/account` as endpoints: which of them there are is not decided here. */
import { EndpointError } from "./endpoint-error.ts";
import type { AccountPage, Step } from "./exchange.ts";
import { parseFields } from "./form-fields.ts";

/** The steps of a page, by method. What is malformed or repeated in the query is a 400. */
export function accountSteps({ methods }: AccountPage): Readonly<Record<string, readonly Step[]>> {
  return Object.fromEntries(
    Object.entries(methods).map(([method, answer]) => {
      const step: Step = async ({ ctx, path, uid = "" }) => {
        const query = parseFields(ctx.querystring);
        if (query.repeated().length > 0)
          throw new EndpointError(400, "invalid_request", "a parameter is repeated");
        await answer(ctx, { path, id: uid, query: new Map(query.entries()) });
      };
      return [method, [step]];
    }),
  );
}
