/** The arguments of the calls for clients, with the descriptions that the documentation prints. */
import { hash } from "node:crypto";
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { CLIENT_KINDS } from "../../core/events.ts";
import { type ClientKey, ID_TOKEN_ALGORITHMS, type StoredLogo } from "../../records/directory/directory.ts";
import { apiIdentifier, scopeProblem } from "../operations/apis.ts";
import { atLeast, exactly, flag, integer, mapOf, ruled, whenValid } from "../arguments.ts";
import { clientKeyProblem, MAX_KEYS, storedClientKey } from "./client-keys.ts";
import {
  addressProblems,
  DEFAULT_KIND,
  KINDS,
  type KindSettings,
  kindProblems,
  type SettingName,
  type SettingProblem,
} from "./client-kinds.ts";
import { clientAddressProblem, clientIdProblem, keyProblem, textProblem } from "../text-rules.ts";

/** The grants that a client can be registered for. */
export const GRANT_TYPES = ["authorization_code", "refresh_token", "password"] as const;

const MAX_ADDRESSES = 100;
const MAX_SECRET = 512;
const MAX_APIS = 100;
const MAX_SCOPES = 100;
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

/** Different addresses. Which ones a client may have depends on its kind: see `addressProblems`. */
function addresses(least: number): z.ZodReadonly<z.ZodArray<z.ZodString>> {
  const error = `must be a list of ${least} to ${MAX_ADDRESSES} addresses`;
  return z
    .array(z.string({ error: "must be a string" }), { error })
    .min(least, { error })
    .max(MAX_ADDRESSES, { error })
    .refine((all) => new Set(all).size === all.length, { error: "must not have an address twice" })
    .readonly();
}

const addressesForm = `different addresses, at most ${MAX_ADDRESSES}: https, or http on loopback; of a \`public\` client as [Clients](clients.md#kinds) says`;

/** The address of a page for people. */
const page = described(address.nullish(), { form: "an address: https, or http on loopback" });

const clientKey = z.custom<ClientKey>().superRefine((key, context) => {
  const problem = clientKeyProblem(key);
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
});

const keysForm = `must be a list of 1 to ${MAX_KEYS} keys`;

const keySet = atLeast(
  {
    /**
     * `web` and `machine` only: the keys with which it signs assertions, in place of a secret (`private_key_jwt`). Default:
     * none: it has a secret.
     */
    keys: described(
      z
        .array(clientKey, { error: keysForm })
        .min(1, { error: keysForm })
        .max(MAX_KEYS, { error: keysForm })
        .refine((keys) => keys.length > MAX_KEYS || hasDistinctIds(keys), {
          error: "must not have a kid twice",
        })
        .readonly()
        .transform((keys) => keys.map(storedClientKey)),
      { form: `1 to ${MAX_KEYS} public keys: RSA, EC on P-256, Ed25519` },
    ),
  },
  "must be a JSON Web Key Set: an object with keys",
);

function hasDistinctIds(keys: readonly unknown[]): boolean {
  const ids = keys.flatMap((key) => {
    const { kid } = Object(key) as { readonly kid?: unknown };
    return kid === undefined ? [] : [kid];
  });
  return new Set(ids).size === ids.length;
}

const apiScopes = z
  .array(ruled(scopeProblem), { error: "must be a list of scopes" })
  .min(1, { error: "must not be empty" })
  .max(MAX_SCOPES, { error: `must have at most ${MAX_SCOPES} scopes` })
  .refine((all) => new Set(all).size === all.length, { error: "must not have a scope twice" })
  .readonly();

const apis = mapOf(apiIdentifier, apiScopes).refine((all) => Object.keys(all).length <= MAX_APIS, {
  error: `must have at most ${MAX_APIS} APIs`,
});

const displayName = described(ruled(textProblem), { form: "a text of 1 to 256 characters" });

const settings = {
  /** Display name. */
  name: displayName,
  /** The service that it belongs to. */
  service: described(ruled(keyProblem), { form: "the key of a service" }),
  /**
   * Where the authorization endpoint may redirect; compared character by character. Default: none: required for `web` and `public`,
   * and other kinds have none.
   */
  redirect_uris: described(addresses(1).optional(), { form: `a list of ${addressesForm}, at least one` }),
  /** Where RP-initiated logout may redirect (OpenID Connect). Default: none. */
  post_logout_redirect_uris: described(addresses(0).optional(), { form: `a list of ${addressesForm}` }),
  /**
   * `public` only: an application on a device, whose addresses may be on loopback, with any port, or have a scheme of its own.
   * Default: `false`.
   */
  native: described(flag().optional(), { form: "`true` or `false`" }),
  /**
   * `public` only: the origins of its scripts, which may read the responses of the service. Default: those of its redirect
   * addresses.
   */
  origins: described(addresses(0).nullish(), {
    form: `a list of at most ${MAX_ADDRESSES} different origins, such as \`https://app.example\``,
  }),
  /** The public keys with which it signs assertions, in place of a secret (RFC 7523). They are never fetched. Default: none. */
  jwks: keySet.optional(),
  /**
   * Gets a logout token when a session ends (OpenID Connect); its address must be allowed by `notifications.allowedReceivers`.
   * Default: none.
   */
  backchannel_logout_uri: described(address.nullish(), { form: "an address: https, or http on loopback" }),
  /**
   * The grants that it may use at the token endpoint; only for `web` and `public`. Default: `authorization_code` and
   * `refresh_token`.
   */
  grant_types: described(
    z
      .array(z.enum(GRANT_TYPES, { error: `must be one of ${GRANT_TYPES.join(", ")}` }), {
        error: "must be a list",
      })
      .min(1, { error: "must not be empty" })
      .refine((all) => new Set(all).size === all.length, { error: "must not have a grant twice" })
      .readonly()
      .optional(),
    {
      form: `a list of different entries, each one of ${GRANT_TYPES.map((type) => `\`${type}\``).join(", ")}`,
    },
  ),
  /** Adds `password` to `grant_types`, or removes it; not for third parties. Default: as `grant_types` says. */
  password_grant: described(flag().optional(), { form: "`true` or `false`" }),
  /** `false`: end users are asked for consent. Default: `true`. */
  first_party: described(flag().optional(), { form: "`true` or `false`" }),
  /**
   * `required`: people sign in with a second factor or a passkey, and people without one add it during the sign-in; not with
   * the password grant. Default: `optional`.
   */
  second_factor: described(
    z.enum(["required", "optional"], { error: "must be required or optional" }).optional(),
    { form: "`required` or `optional`" },
  ),
  /** Overrides of the configuration's `refreshTokens`. Default: none. */
  refresh_tokens: exactly({
    /** Each use returns a new refresh token. Default: `refreshTokens.rotate`; always `true` for `public` and `device`. */
    rotate: described(flag().optional(), { form: "`true` or `false`" }),
    /** Seconds for which a rotated token, used again, gets the same response. Default: `refreshTokens.reuseWindow`. */
    reuseWindow: described(integer(0, MAX_LIFETIME_SECONDS).optional(), {
      form: `a whole number from 0 to ${MAX_LIFETIME_SECONDS}`,
    }),
    /** Each use extends the lifetime of the token. Default: `refreshTokens.sliding`. */
    sliding: described(flag().optional(), { form: "`true` or `false`" }),
    /** Seconds after which a sliding token expires for good. Default: `refreshTokens.maxAge`. */
    maxAge: described(integer(1, MAX_LIFETIME_SECONDS).optional(), {
      form: `a whole number from 1 to ${MAX_LIFETIME_SECONDS}`,
    }),
  }).optional(),
  /**
   * `standard` answers errors with 401 and 403 where the standards say so, instead of 400. Default: `documented` for `web`,
   * `standard` for the other kinds.
   */
  error_status: described(
    z.enum(["documented", "standard"], { error: "must be documented or standard" }).optional(),
    { form: "`documented` or `standard`" },
  ),
  /** Its home page, for people. Default: none. */
  client_uri: page,
  /** Its privacy policy: the consent page links to it. Default: none. */
  policy_uri: page,
  /** Its terms of use: the consent page links to them. Default: none. */
  tos_uri: page,
  /** Its logo, shown where people sign in to it. Default: none. */
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
    },
  ).meta({ option: "bytes" }),
  /** The APIs and scopes that it may ask for. Default: nothing. */
  apis: described(apis.optional(), {
    form: "an object: the identifier of an API → a list of its scopes",
  }).meta({ option: "lists" }),
} satisfies Readonly<
  Record<Exclude<SettingName, "client_secret" | "id_token_signed_response_alg">, z.ZodType>
>;

const secretForm = `printable ASCII, 32 to ${MAX_SECRET} characters; at least 16 when all deployments are on loopback`;

const signingAlgorithm = described(
  z.enum(ID_TOKEN_ALGORITHMS, { error: `must be one of ${ID_TOKEN_ALGORITHMS.join(", ")}` }).optional(),
  {
    form: ID_TOKEN_ALGORITHMS.map((each) => `\`${each}\``).join(", "),
  },
);

function secret(minLength: number): z.ZodString {
  return ruled((text) => {
    if (!/^[\u0020-\u007e]*$/u.test(text)) return "must be printable ASCII";
    if (text.length < minLength) return `must have at least ${minLength} characters`;
    return text.length > MAX_SECRET ? `must have at most ${MAX_SECRET} characters` : undefined;
  });
}

const kind = described(
  z.enum(CLIENT_KINDS, { error: `must be one of ${CLIENT_KINDS.join(", ")}` }).default(DEFAULT_KIND),
  {
    form: `${CLIENT_KINDS.map((each) => `\`${each}\``).join(", ")}: see [Clients](clients.md#kinds)`,
  },
);

/** The configuration that the rules for clients depend on. */
export interface ClientRules {
  /** Whether a deployment is reachable from other machines. */
  readonly production: boolean;
}

/** @returns characters that a chosen secret needs. */
const minSecretLength = ({ production }: ClientRules): number => (production ? 32 : 16);

function report(problems: readonly SettingProblem[], context: z.RefinementCtx): void {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path: [...path], message });
}

/** For rules that depend on the kind. They read these settings; of the others they only check whether they are set. */
const whenKindIsValid = whenValid(
  "client_secret",
  "grant_types",
  "jwks",
  "kind",
  "native",
  "origins",
  "post_logout_redirect_uris",
  "redirect_uris",
  "refresh_tokens",
);

/** The rules that depend on the kind. */
function ofOneKind({ production }: ClientRules): (client: KindSettings, context: z.RefinementCtx) => void {
  return (client, context) => {
    const foreign = kindProblems(client);
    const isForeign = ({ path: [name] }: SettingProblem): boolean =>
      foreign.some(({ path }) => path[0] === name);
    report([...foreign, ...addressProblems(client, production).filter((each) => !isForeign(each))], context);
  };
}

/** What can't be changed later. */
const fixed = {
  /** What the client is; can't be changed later. Default: `web`. */
  kind,
  /** The algorithm of its ID tokens; can't be changed later. Default: `RS256`. */
  id_token_signed_response_alg: signingAlgorithm,
};

/** A new client of any kind. */
export function newClient(rules: ClientRules) {
  return exactly({
    ...fixed,
    ...settings,
    /** 1 to 128 of `A-Z a-z 0-9 . _ ~ -`, not the `sub` of an account, also not of a deleted one. Default: generated. */
    client_id: ruled(clientIdProblem).optional(),
    /** Printable ASCII, at least 32 characters (16 when all deployments are on loopback). Default: generated. */
    client_secret: described(secret(minSecretLength(rules)).optional(), { holds: "secret" }),
  }).superRefine(ofOneKind(rules), whenKindIsValid);
}

/** A client of a seed: with a required id, and a required secret or keys if it is `web` or `machine`. */
export function identifiedClient(rules: ClientRules) {
  return exactly({
    /** Identifies the client. */
    client_id: described(ruled(clientIdProblem), {
      form: "1 to 128 of the characters `A-Z a-z 0-9 . _ ~ -`, not the `sub` of an account",
    }),
    /** Its secret; stored as a keyed digest. Default: none: required for `web` and `machine`, unless `jwks` is there. */
    client_secret: described(secret(minSecretLength(rules)).optional(), { form: secretForm }),
    ...fixed,
    ...settings,
    /** Display name. Default: the name of its service. */
    name: displayName.optional(),
  }).superRefine((client, context) => {
    ofOneKind(rules)(client, context);
    if (client.client_secret === undefined && client.jwks === undefined && KINDS[client.kind].confidential)
      report([{ path: ["client_secret"], message: "is required" }], context);
  }, whenKindIsValid);
}

/** Argument of `update`. What depends on the kind is checked with the record. */
export function clientChanges(rules: ClientRules) {
  const { jwks, ...others } = settings;
  return exactly({
    ...others,
    /** Display name. */
    name: displayName.optional(),
    /** The service that it belongs to. Moving it to another one ends its codes and tokens. */
    service: settings.service.optional(),
    /** Replaces all secrets by this one, unless it is one of them and has no expiry, and the keys. */
    client_secret: described(secret(minSecretLength(rules)).optional(), { holds: "secret" }),
    /** Replaces all secrets and keys. */
    jwks,
  });
}

/** A new client of any kind. What each kind has is checked. */
export interface ClientInput extends Readonly<z.input<ReturnType<typeof newClient>>> {}

/** The same after checking: with its kind. */
export type CheckedClient = z.output<ReturnType<typeof newClient>>;

/** A client of a seed: its id is required, and its secret where the kind has one. */
export interface IdentifiedClient extends Readonly<z.input<ReturnType<typeof identifiedClient>>> {}

/**
 * The argument of `clients.update`. Only the given settings change; a setting that the kind of client does not have is
 * an error.
 */
export interface ClientChanges extends Readonly<z.input<ReturnType<typeof clientChanges>>> {}

/** The members that have to be there, with their comments. */
type Given<T> = { readonly [K in keyof T]-?: NonNullable<T[K]> };

type Web = Omit<ClientInput, "kind" | "redirect_uris" | "jwks" | "native" | "origins">;

/** A server that keeps a secret. */
export interface NewClient extends Web, Given<Pick<ClientInput, "redirect_uris">> {
  readonly kind?: "web" | undefined;
}

/** A server that signs assertions instead of keeping a secret. */
export interface NewClientWithKeys
  extends Omit<NewClient, "client_secret">, Given<Pick<ClientInput, "jwks">> {}

/** A browser or native application, which can keep no secret. Its refresh tokens rotate, and it uses PKCE. */
export interface NewPublicClient
  extends
    Omit<NewClient, "kind" | "client_secret" | "password_grant">,
    Pick<ClientInput, "native" | "origins"> {
  readonly kind: "public";
}

/** A service that acts for itself, with a secret. */
export interface NewMachineClient extends Pick<
  ClientInput,
  "name" | "service" | "error_status" | "client_id" | "client_secret" | "apis"
> {
  readonly kind: "machine";
}

/** A service that acts for itself, with keys. */
export interface NewMachineClientWithKeys
  extends Omit<NewMachineClient, "client_secret">, Given<Pick<ClientInput, "jwks">> {}

/** An application without a browser or a keyboard. Its refresh tokens rotate. */
export interface NewDeviceClient extends Omit<
  Web,
  "client_secret" | "password_grant" | "grant_types" | "post_logout_redirect_uris" | "backchannel_logout_uri"
> {
  readonly kind: "device";
}

/** The argument of `clients.register`. The kind can't be changed later. */
export type AnyNewClient =
  | NewClient
  | NewClientWithKeys
  | NewPublicClient
  | NewMachineClient
  | NewMachineClientWithKeys
  | NewDeviceClient;

/** Option of `rotateSecret`, in seconds. */
export const keepOldFor = integer(0, MAX_OVERLAP_SECONDS);
