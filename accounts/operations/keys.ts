/** The operations on the keys that sign, and on the secrets that seal. */
import { z } from "zod";
import { exactly } from "../arguments.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

const shownKey = exactly({
  kid: z.string(),
  /** `RS256`, `PS256`, `ES256` or `EdDSA` (RFC 7518, RFC 8037); keys of the configuration may have others. */
  alg: z.string(),
  /** `published`: in the JWKS, signs later. `signing`: signs. `retired`: no longer signs; its signatures are still valid. */
  state: z.enum(["published", "signing", "retired"]),
  /** When it entered the JWKS, in seconds since the epoch. This and the other times are `null` for a key of the configuration. */
  published_at: z.int().nullable(),
  /** When it starts to sign. */
  signs_from: z.int().nullable(),
  /** When the next key takes over; `null` while there is none. */
  retires_at: z.int().nullable(),
  /** When it leaves the JWKS; `null` while there is no next key. */
  published_until: z.int().nullable(),
});

/** A key for ID tokens and logout tokens. Times are seconds since the epoch. */
export interface SigningKey extends Readonly<z.output<typeof shownKey>> {}
const signingKey: z.ZodType<SigningKey> = shownKey.meta({ id: "SigningKey" });

const shownSecret = exactly({
  /** A keyed hash of it: twelve hexadecimal digits. */
  id: z.string(),
  /**
   * `newest`: it seals, and has to be the first. `needed`: something may still be sealed with it. `replaced`: it can be removed from the
   * configuration. `new`: no server has started with it as the first one.
   */
  state: z.enum(["newest", "needed", "replaced", "new"]),
  /** Its place in `keys.secrets`, counted from 1; `null` if it is not there. */
  position: z.int().nullable(),
  /** When a server first started with it as the first one, in seconds since the epoch; `null` if none has. */
  known_since: z.int().nullable(),
});

/** A secret of `keys.secrets`, named without revealing it. */
export interface SealingSecret extends Readonly<z.output<typeof shownSecret>> {}
const sealingSecret: z.ZodType<SealingSecret> = shownSecret;

const READS = { role: "viewer", limited: false, confirm: "none", audit: [], errors: [] } as const;
const CHANGES = {
  role: "administrator",
  limited: false,
  recent: true,
  errors: ["configured_elsewhere"],
} as const;
const KEY_COLUMNS = [
  "kid",
  "alg",
  "state",
  "published_at",
  "signs_from",
  "retires_at",
  "published_until",
] as const;

export const keys = operations("signing key", {
  /**
   * Lists the keys in the JWKS, which sign ID tokens and logout tokens, the oldest first.
   *
   * The command also lists the ids of `keys.secrets`. An id reveals nothing of its secret; the newest has to be the
   * first, a needed one must not be removed before `keys reseal` has finished, a replaced one can be removed.
   */
  list: operation({
    ...READS,
    effect: "list",
    target: [],
    input: NONE,
    output: signingKey,
    columns: KEY_COLUMNS,
    example: { target: [], input: {} },
  }),
  /** Lists the ids of the secrets of `keys.secrets` that the storage knows or the configuration has, the newest last. */
  secrets: operation({
    ...READS,
    effect: "list",
    target: [],
    input: NONE,
    output: sealingSecret,
    columns: ["id", "state", "position", "known_since"],
    surfaces: ["library"],
    example: { target: [], input: {} },
  }),
  /**
   * Makes a new key for each algorithm, which starts to sign in an hour.
   *
   * It is published immediately. The previous key stays published until nothing that it signed can be used. While a new key waits
   * to sign, no other one is made for its algorithm. The result is the keys that sign next, one for each algorithm.
   *
   * @throws SignInError `configured_elsewhere` when the keys come from the configuration: change them there.
   */
  rotate: operation({
    ...CHANGES,
    effect: "verb",
    target: [],
    input: NONE,
    output: z.array(signingKey).readonly(),
    confirm: "page",
    audit: ["signing_key.rotated"],
    columns: KEY_COLUMNS,
    words: "keys rotate signing",
    example: { target: [], input: {} },
  }),
  /**
   * Removes a compromised key immediately.
   *
   * What it has signed is refused from now on. If it is the signing key, the next one takes over. A key retires by itself after `keys rotate`.
   *
   * @throws NotFound if there is no such key.
   * @throws SignInError `configured_elsewhere` when the keys come from the configuration.
   */
  retire: operation({
    ...CHANGES,
    effect: "verb",
    target: ["kid"],
    input: NONE,
    output: NONE,
    confirm: "typed",
    audit: ["signing_key.retired"],
    errors: ["configured_elsewhere", "not_found"],
    columns: [],
    example: { target: ["KID"], input: {} },
  }),
});

/** The keys that sign ID tokens and logout tokens. A change reaches every process within a minute. */
export interface Keys extends Facade<typeof keys.rows> {}
