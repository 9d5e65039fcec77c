/**
 * Requests with an `Idempotency-Key` (decisions.md, Idempotency-Key). A record of what was done is in the commit of the change itself, so
 * after a crash there are both or neither. It says what was made, never the answer: a repeat reads that anew.
 */
import type { KeyObject } from "node:crypto";
import type { AccountServices } from "../accounts/services.ts";
import { InvalidArgument, LimitReached, SignInError } from "../core/errors.ts";
import { hmac } from "../core/sealing.ts";
import { canonicalJson } from "../core/untrusted-json.ts";
import {
  IDEMPOTENCY,
  IDEMPOTENCY_SECONDS,
  type IdempotencyRecord,
} from "../records/administration/idempotency-kinds.ts";
import type { Actor } from "../records/audit/audit-event.ts";
import type { RefTo, Transaction } from "../records/records.ts";

/** A request that names a key. */
export interface KeyedRequest {
  readonly actor: Actor;
  /** `Idempotency-Key`. */
  readonly key: string;
  /** The method and the path, in any form. */
  readonly operation: readonly string[];
  readonly input: unknown;
}

/** A request with a key, and what is known of it. */
export interface Repeatable {
  /** What an earlier request with this key has done; `undefined`: this is the first one. */
  readonly earlier: IdempotencyRecord | undefined;
  /** Puts the record into the commit of the change. @throws SignInError `idempotency_key_in_use` at the commit when another request was faster. */
  put(tx: Transaction, done: Pick<IdempotencyRecord, "state" | "status" | "made" | "held_secret">): void;
  /** The answer held no secret after all: a repeat may have it. */
  heldNoSecret(): Promise<void>;
  /** Whether another request with this key was carried out meanwhile. */
  wasFaster(): Promise<boolean>;
}

const FORM = /^[\x20-\x7e]{1,255}$/u;

const digestUnder =
  (key: KeyObject) =>
  (...parts: readonly unknown[]): string =>
    hmac(key, canonicalJson(parts));

/** Another request with this key has made its commit first. */
export const inUse = (): SignInError =>
  new SignInError("idempotency_key_in_use", "a request with this Idempotency-Key was carried out just now");

export function createIdempotency({
  storage: { records },
  clock,
  keys,
  limits,
}: Pick<AccountServices, "storage" | "clock" | "keys" | "limits">) {
  /**
   * @throws InvalidArgument for a malformed key.
   * @throws SignInError `idempotency_key_reused` when the earlier request had another body, `secret_already_shown` when its answer can't be
   *   repeated, `limit_reached` when the actor has used too many keys.
   */
  async function begin({ actor, key, operation, input }: KeyedRequest): Promise<Repeatable> {
    if (!FORM.test(key))
      throw new InvalidArgument({
        path: "Idempotency-Key",
        message: "must be 1 to 255 printable ASCII characters",
      });
    const of = digestUnder(keys.administration);
    const name = of("idempotency", actor, operation, key);
    // Bound to the name, so that equal bodies of different requests don't show.
    const body = of("body", name, input);
    const ref: RefTo<IdempotencyRecord> = IDEMPOTENCY.ref(name);
    const earlier = (await records.find(ref))?.value;
    if (earlier !== undefined && earlier.body !== body)
      throw new SignInError(
        "idempotency_key_reused",
        "the earlier request with this Idempotency-Key had another body",
      );
    if (earlier?.held_secret)
      throw new SignInError("secret_already_shown", "the answer held a secret, which is shown once");
    if (earlier === undefined) {
      const { allowed, retryAfter } = await limits.idempotencyKey(actor);
      if (!allowed) throw new LimitReached(retryAfter);
    }
    return {
      earlier,
      put(tx, done) {
        const expires_at_ms = clock.now() + IDEMPOTENCY_SECONDS * 1_000;
        tx.create(IDEMPOTENCY.record({ actor, body, ...done, expires_at_ms }, { key: name }), inUse);
      },
      async heldNoSecret() {
        await records.transact(async (tx) => {
          const found = await tx.get(ref);
          if (found === undefined) return;
          tx.put(IDEMPOTENCY.record({ ...found, held_secret: false }, { key: name }));
        });
      },
      wasFaster: async () => earlier === undefined && (await records.find(ref)) !== undefined,
    };
  }
  return { begin };
}
