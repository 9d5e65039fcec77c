/** Client secrets: taken a point for, read in both ways of Basic, compared in constant time. */
import { Provider, type Client } from "oidc-provider";
import { ANONYMOUS } from "../audit/audit-event.ts";
import { formDecoded } from "./basic-readings.ts";
import { protocolCaller } from "./caller.ts";
import { clientRecord } from "./clients.ts";
import type { ProtocolDependencies, ProtocolState } from "./dependencies.ts";
import { noteLimited } from "./limits.ts";
import type { SecretCheck } from "./patches.ts";

/** Grants that write nothing before the answer is known to be good: their work need not wait for a verdict. */
const WAITING: ReadonlySet<unknown> = new Set(["authorization_code", "refresh_token"]);

/** Limited attempts leave `retryAfter` in the state of the context, or the verdict that the answer waits for. */
export function secretCheck({ clients, limits, audit }: ProtocolDependencies): SecretCheck {
  return async (client: Client, presented: string) => {
    const ctx = Provider.ctx;
    const record = clientRecord(client);
    const state = (ctx?.state ?? {}) as Partial<ProtocolState> & { retryAfter?: number };
    const readings = [presented];
    const decoded = ctx?.headers.authorization === undefined ? undefined : formDecoded(presented);
    if (decoded !== undefined) readings.push(decoded);
    let matches = false;
    const check = (): boolean => {
      matches = readings.some((reading) => clients.secretMatches(record, reading));
      return matches;
    };
    const verdict = limits
      .clientSecret({ client: record.client_id, address: state.address ?? "" }, check)
      .then((attempt) => {
        if (attempt.allowed && matches) return attempt;
        const { client_id: subject } = record;
        const caller = ctx === undefined ? { actor: ANONYMOUS } : protocolCaller(ctx, ANONYMOUS);
        const event = { ...caller, action: "client.authentication", subject } as const;
        if (attempt.allowed) audit.note({ ...event, outcome: "failure", reason: "credentials" });
        else noteLimited(audit, event, attempt);
        return attempt;
      });
    if (matches && WAITING.has(ctx?.oidc.params?.["grant_type"])) {
      // A fault is met by who waits for it.
      verdict.catch(() => undefined);
      state.verdict = verdict;
      return true;
    }
    const { allowed, retryAfter } = await verdict;
    if (!allowed) state.retryAfter = retryAfter;
    return allowed && matches;
  };
}
