/** What the calls for clients accept, with the descriptions that the documentation prints. */
import { hash } from "node:crypto";
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import type { StoredLogo } from "../../records/directory/directory.ts";
import { exactly, flag, integer, ruled } from "../arguments.ts";
import {
  type ClientChanges,
  type ClientCredentials,
  GRANT_TYPES,
  ID_TOKEN_ALGORITHMS,
  type NewClient,
} from "./client.ts";
import { clientAddressProblem, clientIdProblem, keyProblem, textProblem } from "../text-rules.ts";

const MAX_ADDRESSES = 100;
const MAX_SECRET = 512;
const MAX_LIFETIME_SECONDS = 3650 * 24 * 60 * 60;
/** A longer overlap would defeat the rotation. */
const MAX_OVERLAP_SECONDS = 365 * 24 * 60 * 60;
const MAX_LOGO_BYTES = 100_000;

const address = ruled(clientAddressProblem);

/** By the first bytes: neither a name nor a claimed type says what a file is. No format here can hold scripts. */
const FORMATS: readonly (readonly [type: string, matches: (start: string) => boolean])[] = [
  ["image/png", (start) => start.startsWith("\x89PNG\r\n\x1a\n")],
  ["image/jpeg", (start) => start.startsWith("\xff\xd8\xff")],
  ["image/webp", (start) => start.startsWith("RIFF") && start.slice(8, 12) === "WEBP"],
];

function typeOf(bytes: Uint8Array): string | undefined {
  const start = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  return FORMATS.find(([, matches]) => matches(start))?.[0];
}

/** What is wrong with the bytes of a logo, completing "logo …"; `undefined` if nothing is. */
function logoProblem(value: unknown): string | undefined {
  if (!(value instanceof Uint8Array)) return "must be bytes: a Buffer or Uint8Array";
  if (value.length > MAX_LOGO_BYTES) return `must have at most ${MAX_LOGO_BYTES} bytes`;
  return typeOf(value) === undefined ? "must be a PNG, JPEG or WebP image" : undefined;
}

/** A logo as it is stored. @param bytes without a {@link logoProblem}. */
export function storedLogo(client_id: string, bytes: Uint8Array): StoredLogo {
  return {
    client_id,
    type: typeOf(bytes) ?? "application/octet-stream",
    sha256: hash("sha256", bytes, "base64url"),
    bytes: Buffer.from(bytes).toString("base64"),
  };
}

function addresses(least: number): z.ZodType<string[]> {
  const error = `must be a list of ${least} to ${MAX_ADDRESSES} addresses`;
  return z
    .array(address, { error })
    .min(least, { error })
    .max(MAX_ADDRESSES, { error })
    .refine((all) => new Set(all).size === all.length, { error: "must not have an address twice" });
}

const addressesForm = `different addresses, at most ${MAX_ADDRESSES}: https, or http on loopback`;

/** The address of a page for people. */
function page(description: string): z.ZodOptional<z.ZodNullable<z.ZodType<string>>> {
  return described(address.nullish(), {
    form: "an address: https, or http on loopback",
    description,
    otherwise: "none",
  });
}

const settings = {
  name: described(ruled(textProblem), {
    form: "a text of 1 to 256 characters",
    description: "Display name",
    otherwise: "the name of its service",
  }),
  service: described(ruled(keyProblem), {
    form: "the key of a service",
    description: "The service that it belongs to",
    otherwise: "required",
  }),
  redirect_uris: described(addresses(1), {
    form: `a list of ${addressesForm}, at least one`,
    description: "Where the authorization endpoint may redirect; compared character by character",
    otherwise: "required",
  }),
  post_logout_redirect_uris: described(addresses(0).optional(), {
    form: `a list of ${addressesForm}`,
    description: "Where RP-initiated logout may redirect (OpenID Connect)",
    otherwise: "none",
  }),
  backchannel_logout_uri: described(address.nullish(), {
    form: "an address: https, or http on loopback",
    description:
      "Gets a logout token when a session ends (OpenID Connect); its address must be allowed by `notifications.allowedReceivers`",
    otherwise: "none",
  }),
  grant_types: described(
    z
      .array(z.enum(GRANT_TYPES, { error: `must be one of ${GRANT_TYPES.join(", ")}` }), {
        error: "must be a list",
      })
      .min(1, { error: "must not be empty" })
      .refine((all) => new Set(all).size === all.length, { error: "must not have a grant twice" })
      .optional(),
    {
      form: `a list of different entries, each one of ${GRANT_TYPES.map((type) => `\`${type}\``).join(", ")}`,
      description: "The grants that it may use at the token endpoint",
      otherwise: "`authorization_code` and `refresh_token`",
    },
  ),
  password_grant: described(flag().optional(), {
    form: "`true` or `false`",
    description: "Adds `password` to `grant_types`, or removes it; not for third parties",
    otherwise: "as `grant_types` says",
  }),
  first_party: described(flag().optional(), {
    form: "`true` or `false`",
    description: "`false`: end users are asked for consent",
    otherwise: "`true`",
  }),
  refresh_tokens: exactly({
    rotate: described(flag().optional(), {
      form: "`true` or `false`",
      description: "Each use returns a new refresh token",
      otherwise: "`refreshTokens.rotate`",
    }),
    reuseWindow: described(integer(0, MAX_LIFETIME_SECONDS).optional(), {
      form: `a whole number from 0 to ${MAX_LIFETIME_SECONDS}`,
      description: "Seconds in which a rotated token still gets the response that rotated it",
      otherwise: "`refreshTokens.reuseWindow`",
    }),
    sliding: described(flag().optional(), {
      form: "`true` or `false`",
      description: "Each use extends the lifetime of the token",
      otherwise: "`refreshTokens.sliding`",
    }),
    maxAge: described(integer(1, MAX_LIFETIME_SECONDS).optional(), {
      form: `a whole number from 1 to ${MAX_LIFETIME_SECONDS}`,
      description: "Seconds after which a sliding token expires for good",
      otherwise: "`refreshTokens.maxAge`",
    }),
  }).optional(),
  error_status: described(
    z.enum(["documented", "standard"], { error: "must be documented or standard" }).optional(),
    {
      form: "`documented` or `standard`",
      description: "`standard` answers errors with 401 and 403 where the standards say so, instead of 400",
      otherwise: "`documented`",
    },
  ),
  client_uri: page("Its home page, for people"),
  policy_uri: page("Its privacy policy: the consent page links to it"),
  tos_uri: page("Its terms of use: the consent page links to them"),
  logo: described(
    z
      .custom<Uint8Array>()
      .superRefine((value, context) => {
        const problem = value === null ? undefined : logoProblem(value);
        if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
      })
      .nullish(),
    {
      form: `a PNG, JPEG or WebP image of at most ${MAX_LOGO_BYTES} bytes: in a file, its path relative to the file; in code, the bytes`,
      description: "Its logo, shown where people sign in to it",
      otherwise: "none",
    },
  ),
};

const secretForm = `printable ASCII, 32 to ${MAX_SECRET} characters; at least 16 when all deployments are on loopback`;

const signingAlgorithm = described(
  z.enum(ID_TOKEN_ALGORITHMS, { error: `must be one of ${ID_TOKEN_ALGORITHMS.join(", ")}` }).optional(),
  {
    form: ID_TOKEN_ALGORITHMS.map((each) => `\`${each}\``).join(", "),
    description: "The algorithm of its ID tokens; can't be changed later",
    otherwise: "`RS256`",
  },
);

function secret(minLength: number): z.ZodType<string> {
  return ruled((text) => {
    if (!/^[\u0020-\u007e]*$/u.test(text)) return "must be printable ASCII";
    if (text.length < minLength) return `must have at least ${minLength} characters`;
    return text.length > MAX_SECRET ? `must have at most ${MAX_SECRET} characters` : undefined;
  });
}

/** Argument of `register`. @param minSecretLength characters that a chosen secret needs. */
export function newClient(minSecretLength: number): z.ZodType<NewClient> {
  return exactly({
    ...settings,
    client_id: ruled(clientIdProblem).optional(),
    client_secret: secret(minSecretLength).optional(),
    id_token_signed_response_alg: signingAlgorithm,
  });
}

/** The same with a required id and secret. @param minSecretLength characters that the secret needs. */
export function identifiedClient(minSecretLength: number): z.ZodType<NewClient & ClientCredentials> {
  return exactly({
    client_id: described(ruled(clientIdProblem), {
      form: "1 to 128 of the characters `A-Z a-z 0-9 . _ ~ -`",
      description: "Identifies the client",
      otherwise: "required",
    }),
    client_secret: described(secret(minSecretLength), {
      form: secretForm,
      description: "Its secret; stored as a keyed digest",
      otherwise: "required",
    }),
    ...settings,
    id_token_signed_response_alg: signingAlgorithm,
  });
}

/** Argument of `update`. @param minSecretLength characters that a chosen secret needs. */
export function clientChanges(minSecretLength: number): z.ZodType<ClientChanges> {
  return exactly({
    ...settings,
    name: settings.name.optional(),
    service: settings.service.optional(),
    redirect_uris: settings.redirect_uris.optional(),
    client_secret: secret(minSecretLength).optional(),
  });
}

/** Option of `rotateSecret`, in seconds. */
export const keepOldFor: z.ZodType<number> = integer(0, MAX_OVERLAP_SECONDS);
