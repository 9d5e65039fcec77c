/** The step that runs oidc-provider and turns its answer into ours; nothing is committed here. */
import type { Unit } from "../adapters/oidc/unit-of-work.ts";
import { describedError, documentedCode } from "../lib/provider/responses.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Exchange } from "./exchange.ts";
import { createProtocolRunner, type ProtocolAnswer, type ProtocolInput } from "./protocol-run.ts";

/** Runs the library and puts its answer on the response, or throws the error that it found. */
export type Protocol = (exchange: Exchange, input: ProtocolInput) => Promise<ProtocolAnswer>;

function problemWith(error: string, description: unknown): { error: string; description: string } {
  return { error, description: describedError(error, description) };
}

/** The library's error, whether it rendered it as JSON or handed it over for a page. */
function problemOf({
  state,
  body,
  status,
}: ProtocolAnswer): { error: string; description: string } | undefined {
  if (state.problem) return problemWith(state.problem.error, state.problem.error_description);
  if (status < 400) return undefined;
  const { error, error_description: description } = (body ?? {}) as {
    error?: unknown;
    error_description?: unknown;
  };
  return problemWith(typeof error === "string" ? error : "invalid_request", description);
}

/** What the library says of a client whose secret is wrong. */
const WRONG_SECRET = "client authentication failed";

/** Whoever has tried too many secrets gets and learns nothing, whatever the answer would be. */
async function allowedClient({ state }: ProtocolAnswer, unit: Unit | undefined): Promise<void> {
  const { allowed, retryAfter } = (await state.verdict) ?? { allowed: true, retryAfter: 0 };
  if (allowed) return;
  const refusal = new EndpointError(401, "invalid_client", WRONG_SECRET, { retryAfter });
  // With a failure nothing is committed; other refusals may end a family.
  if (unit !== undefined) unit.failure = refusal;
  throw refusal;
}

export function createProtocolStep({ currentProvider, sessionCookie, units }: CompatDependencies): Protocol {
  const run = createProtocolRunner(currentProvider, sessionCookie);
  return async (exchange, input) => {
    const answer = await run(exchange, input);
    await allowedClient(answer, units.current());
    const failure = units.current()?.failure;
    // What a store or a condition said was hidden by the library's own error handling.
    if (failure !== undefined) throw failure;
    if (answer.status >= 500)
      throw new Error(`oidc-provider answered ${answer.status} at ${exchange.endpoint}`);
    const problem = problemOf(answer);
    if (problem) {
      const { retryAfter } = answer.state;
      const status = answer.status === 404 ? 400 : answer.status;
      throw new EndpointError(
        status,
        documentedCode(problem.error, problem.description),
        problem.description,
        retryAfter === undefined ? {} : { retryAfter },
      );
    }
    exchange.ctx.status = answer.status;
    if (answer.body !== undefined && answer.body !== null) exchange.ctx.body = answer.body;
    exchange.ctx.status = answer.status;
    return answer;
  };
}
