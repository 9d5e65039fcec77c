/**
 * Generations: counters on the account that decide at once which sessions, codes and tokens still count.
 * A session or grant carries the values that were read at authentication; any other value is refused.
 */
import type { AccountRecord } from "../directory/directory.ts";
import { ownValue, withEntry } from "./own-entries.ts";

/** The values of one account at one client of one service. */
export interface Generations {
  readonly sessions: number;
  readonly tokens: number;
  /** 0 for a service where nothing has been ended yet. */
  readonly service: number;
  /** 0 for a client where nothing has been ended yet. */
  readonly client: number;
}

/**
 * What a session, grant, code or token has to carry to count.
 * @param service the client's service; `null` for the internal account client.
 */
export function generationsOf(record: AccountRecord, clientId: string, service: string | null): Generations {
  return {
    sessions: record.sessions_generation,
    tokens: record.tokens_generation,
    service: service === null ? 0 : generationAt(record.service_generations, service),
    client: generationAt(record.client_generations, clientId),
  };
}

/** The number of one key: 0 until it was raised for the first time. */
export function generationAt(generations: Readonly<Record<string, number>>, key: string): number {
  return ownValue(generations, key) ?? 0;
}

/** The generations with those of `keys` raised. */
export function raised(
  generations: Readonly<Record<string, number>>,
  keys: readonly string[],
): Readonly<Record<string, number>> {
  return keys.reduce((all, key) => withEntry(all, key, generationAt(all, key) + 1), generations);
}
