/** Administration tokens: who may use `/v1`, with which role, until when. */
import type { Role } from "../../config/operators.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** An administration token. What was shown once can't be found out from it. */
export interface TokenRecord {
  readonly id: string;
  /** SHA-256 of the token, in base64url. It has 256 random bits, so nobody finds it by trying. */
  readonly hash: string;
  readonly role: Role;
  /** The service that it is limited to. */
  readonly service: string | null;
  /** Times are seconds since the epoch. */
  readonly created_at: number;
  readonly expires_at: number;
  /** When it was last used, to a minute; `null` if it never was. */
  readonly last_used_at: number | null;
  /** When somebody ended it; `null` if nobody has. */
  readonly ended_at: number | null;
}

const DAY = 24 * 60 * 60;
/** How long a token that has run out is listed. */
const RUN_OUT_SECONDS = 30 * DAY;
/** The same for one that somebody has ended: longer than any invitation that it has made can be sent again, and these are void. */
const ENDED_SECONDS = 400 * DAY;

export const TOKEN: Kind<TokenRecord> = defineKind<TokenRecord>({
  name: "administration-token",
  holds: "an administration token: its hash, role and times",
  key: "its id",
  keyOf: ({ id }) => id,
  expires: "30 days after it has run out, or 400 days after somebody has ended it",
  expiresAt: ({ expires_at, ended_at }) =>
    (ended_at === null ? expires_at + RUN_OUT_SECONDS : ended_at + ENDED_SECONDS) * 1000,
  store: "storage",
  exported: true,
  // Somebody may have ended it since.
  afterRestore: "removed",
  personal: undefined,
});
