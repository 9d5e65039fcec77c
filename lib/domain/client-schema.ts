/** What the calls about clients accept. */
import { z } from "zod";
import { clientAddressProblem } from "./addresses.ts";
import { exactly, flag, integer, ruled } from "./arguments.ts";
import { type ClientChanges, type ClientCredentials, GRANT_TYPES, type NewClient } from "./client.ts";
import { clientIdProblem, keyProblem, textProblem } from "./text-rules.ts";

const MAX_ADDRESSES = 100;
const MAX_SECRET = 512;
/** Ten years, in seconds. */
const LONGEST = 3650 * 24 * 60 * 60;
/** A year, in seconds: an old secret that lives longer was not rotated. */
const LONGEST_OVERLAP = 365 * 24 * 60 * 60;

const address = ruled(clientAddressProblem);

function addresses(least: number): z.ZodType<string[]> {
  const error = `must be a list of ${least} to ${MAX_ADDRESSES} addresses`;
  return z
    .array(address, { error })
    .min(least, { error })
    .max(MAX_ADDRESSES, { error })
    .refine((all) => new Set(all).size === all.length, { error: "must not have an address twice" });
}

const settings = {
  name: ruled(textProblem),
  service: ruled(keyProblem),
  redirect_uris: addresses(1),
  post_logout_redirect_uris: addresses(0).optional(),
  backchannel_logout_uri: address.nullish(),
  grant_types: z
    .array(z.enum(GRANT_TYPES, { error: `must be one of ${GRANT_TYPES.join(", ")}` }), {
      error: "must be a list",
    })
    .min(1, { error: "must not be empty" })
    .refine((all) => new Set(all).size === all.length, { error: "must not have a grant twice" })
    .optional(),
  password_grant: flag().optional(),
  first_party: flag().optional(),
  refresh_tokens: exactly({
    rotate: flag().optional(),
    reuseWindow: integer(0, LONGEST).optional(),
    sliding: flag().optional(),
    maxAge: integer(1, LONGEST).optional(),
  }).optional(),
  error_status: z.enum(["documented", "standard"], { error: "must be documented or standard" }).optional(),
};

function secret(minLength: number): z.ZodType<string> {
  return ruled((text) => {
    if (!/^[\u0020-\u007e]*$/u.test(text)) return "must be printable ASCII";
    if (text.length < minLength) return `must have at least ${minLength} characters`;
    return text.length > MAX_SECRET ? `must have at most ${MAX_SECRET} characters` : undefined;
  });
}

/** Argument of `register`. @param minSecretLength characters of a chosen secret at least. */
export function newClient(minSecretLength: number): z.ZodType<NewClient> {
  return exactly({
    ...settings,
    client_id: ruled(clientIdProblem).optional(),
    client_secret: secret(minSecretLength).optional(),
  });
}

/** The same with an id and a secret that are chosen. @param minSecretLength characters of the secret at least. */
export function identifiedClient(minSecretLength: number): z.ZodType<NewClient & ClientCredentials> {
  return exactly({
    ...settings,
    client_id: ruled(clientIdProblem),
    client_secret: secret(minSecretLength),
  });
}

/** Argument of `update`. @param minSecretLength characters of a chosen secret at least. */
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
export const keepOldFor: z.ZodType<number> = integer(0, LONGEST_OVERLAP);
