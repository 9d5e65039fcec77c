/** The operations on administration tokens. They can't be asked for over HTTP: a token makes no tokens. */
import { z } from "zod";
import { ROLES } from "../../config/operators.ts";
import { described } from "../../config/documented-schema.ts";
import { anyString, choice, exactly, integer } from "../arguments.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

/** A year: whoever finds an old token has nothing. */
const MAX_TOKEN_SECONDS = 365 * 24 * 60 * 60;

const role = z.enum(ROLES);

const shownToken = exactly({
  /** For the audit and for `tokens end`. It reveals nothing of the token. */
  id: z.string(),
  /** What it may do. */
  role,
  /** The key of the service that it is limited to; `null` if it is not. */
  service: z.string().nullable(),
  /** `valid`, `expired`, or `ended` by somebody. */
  state: z.enum(["valid", "expired", "ended"]),
  /** Seconds since the epoch, as are the other times. */
  created_at: z.int(),
  expires_at: z.int(),
  /** When it was last used, to a minute; `null` if it never was. */
  last_used_at: z.int().nullable(),
  /** When somebody ended it; `null` if nobody has. */
  ended_at: z.int().nullable(),
}).meta({ id: "Token" });

/** An administration token, without what was shown once. Times are seconds since the epoch. */
export interface ShownToken extends Readonly<z.output<typeof shownToken>> {}
const token: z.ZodType<ShownToken> = shownToken;

const madeToken = exactly({
  id: z.string(),
  /** `sis_` and 256 random bits. It is shown only here. */
  token: z.string(),
  /** What it may do. */
  role,
  /** Seconds since the epoch. */
  expires_at: z.int(),
}).meta({ id: "NewToken" });

/** A new administration token. Times are seconds since the epoch. */
export interface NewToken extends Readonly<z.output<typeof madeToken>> {}
const newToken: z.ZodType<NewToken> = madeToken;

/** A token makes no tokens, and the console none either: who could make one could stay forever. */
const BASE = { role: "administrator", limited: false, surfaces: ["library", "command"] } as const;

export const tokens = operations("token", {
  /**
   * Makes a token for programs that use `/v1`, and shows it once.
   *
   * With `service` it sees the accounts of one service, and does what its role may do there.
   *
   * @throws UnknownReference if there is no such service.
   */
  create: operation({
    ...BASE,
    effect: "create",
    target: [],
    input: exactly({
      /** What it may do: `viewer` reads, `support` also helps people, `administrator` does everything. */
      role: choice(ROLES),
      /** How long it is valid, at most a year, in seconds. */
      expires: described(integer(60, MAX_TOKEN_SECONDS), { unit: "duration" }),
      /** The key of the service that it is limited to. Default: not limited. */
      service: anyString.exactOptional(),
    }),
    output: newToken,
    confirm: "none",
    audit: ["token.created"],
    errors: ["unknown_reference"],
    columns: ["id", "token", "role", "expires_at"],
    secret: ["token"],
    example: { target: [], input: { role: "support", expires: 7_776_000 } },
  }),
  /** Lists the tokens, the oldest first, also those that have ended or run out in the last 30 days. */
  list: operation({
    ...BASE,
    role: "viewer",
    effect: "list",
    target: [],
    input: NONE,
    output: token,
    confirm: "none",
    audit: [],
    errors: [],
    columns: ["id", "role", "service", "state", "expires_at", "last_used_at"],
    example: { target: [], input: {} },
  }),
  /** Ends a token at once. */
  end: operation({
    ...BASE,
    effect: "remove",
    target: ["token"],
    input: NONE,
    output: NONE,
    confirm: "final",
    audit: ["token.ended"],
    errors: [],
    columns: [],
    example: { target: ["TOKEN_ID"], input: {} },
  }),
});

/** The calls for administration tokens. */
export type Tokens = Facade<typeof tokens.rows>;
