/**
 * How much people and tokens that are no administrators may do in an hour, counted in the storage, so across processes
 * (decisions.md, Administration over HTTP, Roles). Whoever steals the credentials of one of them does not take everybody along.
 */
import { RATE_LIMITS } from "../accounts/limits/limit-table.ts";
import type { Configuration } from "../config/configuration.ts";
import { LimitReached } from "../core/errors.ts";
import type { ServiceEmitter } from "../core/events.ts";
import { hmac } from "../core/sealing.ts";
import { canonicalJson } from "../core/untrusted-json.ts";
import type { ServiceKeys } from "../accounts/keys/service-keys.ts";
import type { Bucket } from "../records/rate-limits.ts";
import type { Storage } from "../records/storage.ts";
import type { Administrator } from "./administrator.ts";

/** `accounts`: how many accounts are read; `changes`: how many are made; `people`: the `sub` of a person who loses a factor. */
export type Counted = "accounts" | "changes" | "people";

/** How much people and tokens may do in an hour. */
export interface HourlyLimits {
  /**
   * Counts something that is about to be done or shown. A person who loses several factors in an hour counts once.
   * @throws LimitReached with the time when there is room again. Then nothing is counted.
   */
  take(who: Administrator, what: Counted, value: number | string): Promise<void>;
  /**
   * Counts nothing. Whoever has read the accounts of an hour must not learn from what is refused which of them there are.
   * @throws LimitReached when not one more account may be read.
   */
  requireRoom(who: Administrator): Promise<void>;
  /** How much somebody can still do in this hour, of how much; `undefined`: as much as there is. @param what Default: `accounts`. */
  left(
    who: Administrator,
    what?: Counted,
  ): Promise<{ readonly left: number; readonly all: number } | undefined>;
}

interface LimitServices {
  readonly configuration: Pick<Configuration, "rateLimits">;
  readonly storage: Pick<Storage, "rateLimits">;
  readonly keys: Pick<ServiceKeys, "administration">;
  readonly events: ServiceEmitter;
}

/** The role `deliveries` sees no account. */
const isLimited = ({ role }: Administrator): boolean => role === "viewer" || role === "support";

export function createHourlyLimits({ configuration, storage, keys, events }: LimitServices): HourlyLimits {
  const limits = storage.rateLimits;

  function bucket(what: Counted, { actor }: Administrator): Bucket {
    const limit = `administration.${what}` as const;
    const { points, seconds } = RATE_LIMITS[limit].rule(configuration.rateLimits);
    return { limit, points, seconds, key: hmac(keys.administration, canonicalJson([what, actor])) };
  }

  /** Remembers one person as long as the hour may last. */
  function marked(sub: string, { actor }: Administrator): Bucket {
    const key = hmac(keys.administration, canonicalJson(["person", actor, sub]));
    const { points, seconds } = RATE_LIMITS["administration.person"].rule(configuration.rateLimits);
    return { limit: "administration.person", points, seconds, key };
  }

  function refuse(
    { actor }: Administrator,
    what: Counted,
    { limit, points }: Bucket,
    retryAfter: number,
  ): never {
    events.emit("limit.refused", { limit });
    events.emit("administration.limited", {
      kind: actor.kind === "token" ? "token" : "operator",
      id: actor.id ?? "",
      limit,
      retry_after: retryAfter,
    });
    throw new LimitReached(retryAfter, { what, most: points });
  }

  return {
    async left(who, what = "accounts") {
      if (!isLimited(who)) return undefined;
      const counted = bucket(what, who);
      const [answer] = await limits.look([counted]);
      return { left: Math.max(0, counted.points - (answer?.used ?? 0)), all: counted.points };
    },
    async take(who, what, value) {
      if (!isLimited(who)) return;
      const counted = bucket(what, who);
      if (typeof value === "number") {
        if (value === 0) return;
        const [answer] = await limits.consume([counted], { points: value });
        if (answer?.allowed === false) refuse(who, what, counted, answer.retryAfter);
        return;
      }
      const [answer, known] = await limits.consume([counted, marked(value, who)]);
      // Somebody who has lost a factor in this hour counts no second time.
      if (known?.allowed !== false && answer?.allowed === false)
        refuse(who, what, counted, answer.retryAfter);
    },
    async requireRoom(who) {
      if (!isLimited(who)) return;
      const counted = bucket("accounts", who);
      const [answer] = await limits.look([counted]);
      if (answer?.allowed === false) refuse(who, "accounts", counted, answer.retryAfter);
    },
  };
}
