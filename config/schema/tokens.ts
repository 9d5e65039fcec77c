/** `keys`, `lifetimes` and `refreshTokens`. */
import type { JWK } from "oidc-provider";
import { z } from "zod";
import type { Configuration, Lifetimes, RefreshTokenRules } from "../configuration.ts";
import { defaults } from "../defaults.ts";
import type { KeysInput, LifetimesInput, RefreshTokensInput } from "../input.ts";
import { isSecret, isSigningKey } from "../keys.ts";
import {
  duration,
  flag,
  list,
  MAX_SECONDS,
  optional,
  text,
  whole,
  writtenAs,
  type Written,
} from "./parts.ts";

const MIN_COOKIE_KEY = 32;
const cookieKeyForm = `a string of at least ${MIN_COOKIE_KEY} characters`;
const signingKeyForm = "a private JWK: RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519";

/** A day. A new key signs after an hour, and every key stays published for months. */
const LEAST_ROTATION = 24 * 60 * 60;

/** `keys`. */
export const keysSchema: z.ZodType<Configuration["keys"], Written<KeysInput>> = writtenAs<KeysInput>()(
  z.strictObject({
    cookies: optional(
      list(
        text(1024, (value) => value.length >= MIN_COOKIE_KEY, cookieKeyForm),
        1,
      ),
      {
        form: `a list of different entries, each ${cookieKeyForm}`,
        description: "Sign cookies: the first signs, all verify",
        otherwise: "made at the first start, kept in the storage",
      },
    ),
    signing: optional(list(z.custom<JWK>(isSigningKey).meta({ form: signingKeyForm }), 1), {
      form: `a list of entries, each ${signingKeyForm}`,
      description: "The first signs ID tokens, all are published",
      otherwise: "made at the first start, kept in the storage",
    }),
    secrets: optional(list(text(44, isSecret, "32 bytes in Base64"), 1), {
      form: "a list of different entries, each 32 bytes in Base64",
      description: "Encrypt what must be readable again: the first encrypts, all decrypt",
      otherwise: "SQLite: made at the first start in `PATH.keys`; other storages: required",
    }),
    rotation: optional(
      z.strictObject({
        signing: optional(z.int().min(LEAST_ROTATION).max(MAX_SECONDS), {
          form: `a whole number from ${LEAST_ROTATION} to ${MAX_SECONDS}`,
          description: "Seconds after which the service makes another key to sign ID tokens with",
          otherwise: "never",
        }),
      }),
      {
        form: "an object",
        description: "Replaces keys that the service made; those of the configuration it never does",
      },
    ),
  }),
);

const { lifetimes, refreshTokens } = defaults;

/** `lifetimes`. */
export const lifetimesSchema: z.ZodType<Lifetimes, Written<LifetimesInput>> = writtenAs<LifetimesInput>()(
  z.strictObject({
    authorizationCode: whole([1, 600], lifetimes.authorizationCode, "Seconds of an authorization code"),
    accessToken: duration(
      lifetimes.accessToken,
      "Seconds of an access token: the `expires_in` of the answer",
    ),
    refreshToken: duration(lifetimes.refreshToken, "Seconds of a refresh token"),
    idToken: duration(lifetimes.idToken, "Seconds of an ID token"),
    session: duration(lifetimes.session, "Seconds since its last use after which a sign-in session ends"),
    sessionMax: duration(
      lifetimes.sessionMax,
      "Seconds since the person last signed in after which the session ends, however much it is used",
    ),
    interaction: duration(lifetimes.interaction, "Seconds that a begun sign-in may take"),
  }),
);

/** `refreshTokens`. */
export const refreshTokensSchema: z.ZodType<
  RefreshTokenRules,
  Written<RefreshTokensInput>
> = writtenAs<RefreshTokensInput>()(
  z.strictObject({
    rotate: flag(refreshTokens.rotate, "Each use gives a new refresh token"),
    reuseWindow: whole(
      [0, 600],
      refreshTokens.reuseWindow,
      "Seconds in which a rotated token still gets the answer that rotated it",
    ),
    sliding: flag(refreshTokens.sliding, "Each use prolongs the token"),
    maxAge: duration(refreshTokens.maxAge, "Seconds after which a sliding token ends for good"),
  }),
);
