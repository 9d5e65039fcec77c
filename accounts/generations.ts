/**
 * Generations: counters on the account that decide which sessions, codes and tokens are still valid. A
 * session or grant carries the values that were current when it was made; it is refused when one of them differs.
 */
import type { AccountRecord } from "../records/directory/directory.ts";
import { isDocumentId } from "../records/directory/document-kinds.ts";
import { ownValue, withEntry } from "../core/untrusted-keys.ts";

/** The values of one account at one client of one service. */
export interface Generations {
  readonly sessions: number;
  readonly tokens: number;
  /** 0 until tokens at this service are revoked for the first time. */
  readonly service: number;
  /** 0 until tokens of this client are revoked for the first time. */
  readonly client: number;
}

/**
 * The values that a session, grant, code or token has to carry to be valid.
 * @param service the client's service; `null` for the internal account client.
 */
export function generationsOf(record: AccountRecord, clientId: string, service: string | null): Generations {
  return {
    sessions: record.sessions_generation,
    tokens: record.tokens_generation,
    service: service === null ? 0 : generationAt(record.service_generations, service),
    client: isDocumentId(clientId)
      ? (ownValue(record.consents, clientId)?.document?.begun ?? NOT_ALLOWED)
      : generationAt(record.client_generations, clientId),
  };
}

/** Of a client that nobody has registered: without the consent of the person nothing of it is valid. */
const NOT_ALLOWED = -1;

/** The value of one key; 0 until it is raised for the first time. */
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

/** The keys that were raised between two states. */
export function raisedKeys(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
): string[] {
  return Object.keys(after).filter((key) => generationAt(after, key) !== generationAt(before, key));
}
