/** Accounts that are read along with what names them. */
import type { AccountInternals } from "../accounts/account.ts";
import type { EndpointExchange } from "./exchange.ts";

/** How many codes, tokens and sessions are remembered. */
const MAX_OWNERS = 10_000;

/**
 * Remembers whose the codes, tokens and sessions are that this process has issued or seen, so that each of them and its
 * account are read together: one round trip to the store instead of two. An owner never changes, and is checked against
 * what was read.
 */
export class Owners {
  readonly #accounts: Pick<AccountInternals, "record">;
  /** The `sub` by the key of the artifact, the latest last. */
  readonly #subs = new Map<string, string>();

  constructor(accounts: Pick<AccountInternals, "record">) {
    this.#accounts = accounts;
  }

  add(key: string, sub: string): void {
    const [oldest] = this.#subs.keys();
    if (oldest !== undefined && this.#subs.size >= MAX_OWNERS) this.#subs.delete(oldest);
    this.#subs.set(key, sub);
  }

  of(key: string): string | undefined {
    return this.#subs.get(key);
  }

  /** Begins to read the account that the artifact belongs to, if that is known, for the look-up that follows. */
  readAhead(exchange: EndpointExchange, key: string): void {
    const sub = this.of(key);
    if (sub !== undefined) this.readAccount(exchange, sub);
  }

  /** Begins to read the account, once. */
  readAccount(exchange: EndpointExchange, sub: string): void {
    if (exchange.account?.sub === sub) return;
    const record = this.#accounts.record(sub);
    // The look-up that needs it fails with it.
    record.catch(() => undefined);
    exchange.account = { sub, record };
  }
}
