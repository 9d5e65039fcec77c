/**
 * The settings of clients, a row each: what they are, which kinds have them, and how they are stored and shown. Arguments, seeds,
 * records, answers, commands and documents walk the rows.
 */
import { z } from "zod";
import { described, textsOf } from "../../config/documented-schema.ts";
import { nearestKey } from "../../config/nearest-key.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import {
  type ClientKey,
  type ClientKind,
  type ClientRecord,
  ID_TOKEN_ALGORITHMS,
} from "../../records/directory/directory.ts";
import { apiIdentifier, scopeProblem } from "../operations/apis.ts";
import { atLeast, choice, exactly, flag, integer, mapOf, ruled } from "../arguments.ts";
import { logoFacts, logoProblem, MAX_LOGO_BYTES } from "./client-logo.ts";
import { clientKeyProblem, MAX_KEYS, storedClientKey } from "../../core/client-keys.ts";
import { type KindOfClient, KINDS, problem, type SettingProblem } from "./client-kinds.ts";
import { clientAddressProblem, keyProblem, textProblem } from "../text-rules.ts";

/** The grants that a client can be registered for. */
export const GRANT_TYPES = ["authorization_code", "refresh_token", "password"] as const;

const MAX_ADDRESSES = 100;
const MAX_SECRET = 512;
const MAX_APIS = 100;
const MAX_SCOPES = 100;
const MAX_PROVIDERS = 30;
const PROVIDERS_FORM = `must be a list of at most ${MAX_PROVIDERS} keys of providers`;
const MAX_LIFETIME_SECONDS = 3650 * 24 * 60 * 60;

const address = ruled(clientAddressProblem);

/** Different addresses. Which ones a client may have depends on its kind: see `addressProblems`. */
function addressList(least: number): z.ZodReadonly<z.ZodArray<z.ZodString>> {
  const error = `must be a list of ${least} to ${MAX_ADDRESSES} addresses`;
  return z
    .array(z.string({ error: "must be a string" }), { error })
    .min(least, { error })
    .max(MAX_ADDRESSES, { error })
    .refine((all) => new Set(all).size === all.length, { error: "must not have an address twice" })
    .readonly();
}

const addressesForm = `different addresses, at most ${MAX_ADDRESSES}: https, or http on loopback; of a \`public\` client as [Kinds](docs/reference/client-settings.md#kinds) says`;

const clientKey = z
  .custom<ClientKey>()
  .meta({ type: "object" })
  .superRefine((key, context) => {
    const found = clientKeyProblem(key);
    if (found !== undefined) context.addIssue({ code: "custom", message: found });
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

const refreshRules = exactly({
  /** Each use returns a new refresh token. Default: `refreshTokens.rotate`; always `true` for `public` and `device`. */
  rotate: flag().optional(),
  /** Seconds for which a rotated token, used again, gets the same response. Default: `refreshTokens.reuseWindow`. */
  reuseWindow: described(integer(0, MAX_LIFETIME_SECONDS).optional(), {
    form: `a whole number from 0 to ${MAX_LIFETIME_SECONDS}`,
  }),
  /** Each use extends the lifetime of the token. Default: `refreshTokens.sliding`. */
  sliding: flag().optional(),
  /** Seconds after which a sliding token expires for good. Default: `refreshTokens.maxAge`. */
  maxAge: described(integer(1, MAX_LIFETIME_SECONDS).optional(), {
    form: `a whole number from 1 to ${MAX_LIFETIME_SECONDS}`,
  }),
});

/** @param minLength the least number of characters of a secret that an operator chooses. */
function secret(minLength: number): z.ZodString {
  return ruled((text) => {
    if (!/^[\u0020-\u007e]*$/u.test(text)) return "must be printable ASCII";
    if (text.length < minLength) return `must have at least ${minLength} characters`;
    return text.length > MAX_SECRET ? `must have at most ${MAX_SECRET} characters` : undefined;
  });
}

const secretTexts = {
  form: `printable ASCII, 32 to ${MAX_SECRET} characters; at least 16 when all deployments are on loopback`,
  holds: "secret",
} as const;

const displayName = described(ruled(textProblem), { form: "a text of 1 to 256 characters" });

type Question = (kind: KindOfClient) => boolean;

const everyKind: Question = () => true;
const signsPeopleIn: Question = ({ people }) => people;
const hasAddresses: Question = ({ addresses }) => addresses !== null;
const isApplication: Question = ({ addresses }) => addresses === "application";
const isConfidential: Question = ({ confidential }) => confidential;

/** The parts of the configuration that the rules for clients depend on. */
export interface ClientRules {
  /** Whether a deployment is reachable from other machines. */
  readonly production: boolean;
  /** Default: not known, so every key is taken. */
  readonly providers?: readonly { readonly key: string }[];
}

export interface Setting {
  /** What arguments and seeds take. */
  readonly value: z.ZodType;
  /** The same if a deployment is reachable from other machines. Default: no difference. */
  readonly hosted?: z.ZodType;
  /** What is wrong with a value because of the configuration. The paths are inside the value. */
  wrong?(value: unknown, rules: ClientRules): readonly SettingProblem[];
  /** Which kinds have it. */
  readonly has: Question;
  /** The value of a client that does not name it, which depends on the kind if it is a function. Missing: it is required. */
  readonly unset?: unknown;
  /**
   * How the record has it: `always`, or without the unset value, or only if it was named. Missing: not at all, or in another
   * member.
   */
  readonly stored?: "always" | "if set" | "if named";
  /** A value as it is stored. Default: as it was given. */
  kept?(value: unknown): unknown;
  /** What the calls return, if that is not the value; `null`: they never do. */
  readonly shown?: z.ZodType | null;
  /** How the calls find it in a record that does not have it as a member. */
  readonly derived?: (record: ClientRecord) => unknown;
  /** What nobody changes later: `fixed`; what a seed does not change, because it may have been rotated: `credential`. */
  readonly changes?: "fixed" | "credential";
  /** Whether oidc-provider has it as metadata, under the same name. */
  readonly isMetadata?: true;
}

const texts = z.array(z.string()).readonly();

const oneAddress = described(address.nullish(), { form: "an address: https, or http on loopback" });
const page = { value: oneAddress, has: signsPeopleIn, unset: null, stored: "if set" } as const;
const lists = {
  has: hasAddresses,
  unset: () => [],
  stored: "always",
  shown: texts,
  isMetadata: true,
} as const;

/** The comment of a row is the documentation of the setting. In the order in which calls return them. */
export const SETTINGS = {
  /** Printable ASCII, at least 32 characters (16 when all deployments are on loopback). Default: generated. */
  client_secret: {
    value: described(secret(16).optional(), secretTexts),
    hosted: described(secret(32).optional(), secretTexts),
    has: isConfidential,
    shown: null,
    changes: "credential",
  },
  /** Display name. */
  name: { value: displayName, has: everyKind, stored: "always" },
  /** The service that it belongs to. */
  service: {
    value: described(ruled(keyProblem), { form: "the key of a service" }),
    has: everyKind,
    stored: "always",
  },
  /**
   * Where the authorization endpoint may redirect; compared character by character. Default: none: required for `web` and `public`,
   * and other kinds have none.
   */
  redirect_uris: {
    ...lists,
    value: described(addressList(1).optional(), { form: `a list of ${addressesForm}, at least one` }),
  },
  /**
   * `public` only: an application on a device, whose addresses may be on loopback, with any port, or have a scheme of its own.
   * Default: `false`.
   */
  native: { value: flag().optional(), has: isApplication, unset: false, stored: "if set" },
  /**
   * `public` only: the origins of its scripts, which may read the responses of the service. Default: those of its redirect
   * addresses.
   */
  origins: {
    value: described(addressList(0).nullish(), {
      form: `a list of at most ${MAX_ADDRESSES} different origins, such as \`https://app.example\``,
    }),
    has: isApplication,
    unset: null,
    stored: "if set",
  },
  /** The public keys with which it signs assertions, in place of a secret (RFC 7523). They are never fetched. Default: none. */
  jwks: {
    value: keySet.optional(),
    has: isConfidential,
    unset: null,
    stored: "if set",
    shown: exactly({ keys: z.array(z.record(z.string(), z.string()).readonly()).readonly() })
      .readonly()
      .nullable(),
    changes: "credential",
    isMetadata: true,
  },
  /** Where RP-initiated logout may redirect (OpenID Connect). Default: none. */
  post_logout_redirect_uris: {
    ...lists,
    value: described(addressList(0).optional(), { form: `a list of ${addressesForm}` }),
  },
  /**
   * Gets a logout token when a session ends (OpenID Connect); its address must be allowed by `notifications.allowedReceivers`.
   * Default: none.
   */
  backchannel_logout_uri: { value: oneAddress, has: hasAddresses, unset: null, stored: "always" },
  /**
   * The grants that it may use at the token endpoint; only for `web` and `public`. Default: `authorization_code` and
   * `refresh_token`.
   */
  grant_types: {
    value: described(
      z
        .array(choice(GRANT_TYPES), { error: "must be a list" })
        .min(1, { error: "must not be empty" })
        .refine((all) => new Set(all).size === all.length, { error: "must not have a grant twice" })
        .readonly()
        .optional(),
      { form: `a list of different entries, each one of ${textsOf(choice(GRANT_TYPES)).form}` },
    ),
    has: hasAddresses,
    unset: ({ grants }: KindOfClient) => grants.filter((grant) => grant !== "password"),
    stored: "always",
    shown: texts,
  },
  /** Adds `password` to `grant_types`, or removes it; not for third parties. Default: as `grant_types` says. */
  password_grant: {
    value: flag().optional(),
    has: ({ grants }) => grants.includes("password"),
    derived: ({ grant_types }) => grant_types.includes("password"),
  },
  /** `false`: end users are asked for consent. Default: `true`. */
  first_party: { value: flag().optional(), has: signsPeopleIn, unset: true, stored: "always" },
  /**
   * `required`: people sign in with a second factor or a passkey, and people without one add it during the sign-in; not with
   * the password grant. Default: `optional`.
   */
  second_factor: {
    value: choice(["required", "optional"]).optional(),
    has: signsPeopleIn,
    unset: "optional",
    stored: "if set",
  },
  /**
   * The keys of the configuration's `providers` that people can sign in to it with; `[]`: none. A provider with `only` is always offered
   * to its domains. Default: all.
   */
  providers: {
    value: described(
      z
        .array(z.string({ error: "must be a string" }), { error: PROVIDERS_FORM })
        .max(MAX_PROVIDERS, { error: PROVIDERS_FORM })
        .refine((all) => new Set(all).size === all.length, { error: "must not have a provider twice" })
        .readonly()
        .nullish(),
      { form: "a list of different keys of `providers`" },
    ),
    has: signsPeopleIn,
    unset: null,
    stored: "if set",
    shown: texts.nullable(),
    wrong: (keys: readonly string[] | null, { providers }) =>
      (keys ?? []).flatMap((key, index) => {
        if (providers === undefined || providers.some((each) => each.key === key)) return [];
        const nearest = nearestKey(
          key,
          providers.map((each) => each.key),
          [],
        );
        const hint = nearest?.close === true ? `; did you mean ${nearest.path}?` : "";
        return [problem([index], `is not a key of config.providers${hint}`)];
      }),
  },
  /**
   * Whether a second factor that a provider with `trustsMfa` vouches for counts for this client, for `second_factor` as well. Default:
   * `false`.
   */
  providers_mfa: { value: flag().optional(), has: signsPeopleIn, unset: false, stored: "if set" },
  /** Overrides of the configuration's `refreshTokens`. Default: none. */
  refresh_tokens: {
    value: refreshRules.readonly().optional(),
    has: signsPeopleIn,
    unset: () => ({}),
    stored: "always",
    // Always in this order, so that equal text is an equal record.
    kept: ({ rotate, reuseWindow, sliding, maxAge }: z.output<typeof refreshRules>) =>
      withoutAbsent({ rotate, reuseWindow, sliding, maxAge }),
  },
  /**
   * `standard` answers errors with 401 and 403 where the standards say so, instead of 400. Default: `documented` for `web`,
   * `standard` for the other kinds.
   */
  error_status: {
    value: choice(["documented", "standard"]).optional(),
    has: everyKind,
    unset: ({ behaves }: KindOfClient) => behaves,
    stored: "always",
  },
  /**
   * `required`: it gets tokens only with DPoP proofs (RFC 9449), which have a nonce at the token endpoint, and no other key can use
   * them; always for `public` with `profile: strict`. Default: `optional`.
   */
  dpop: {
    value: choice(["required", "optional"]).optional(),
    has: everyKind,
    unset: "optional",
    stored: "if set",
  },
  /**
   * `fapi2`: holds the client to the FAPI 2.0 Security Profile. It needs keys, works only at the `openid` deployment, and can't be changed. See
   * [Clients with high security](docs/connect/apis/fapi.md). Default: none.
   */
  profile: {
    value: choice(["fapi2"]).optional(),
    has: isConfidential,
    unset: null,
    stored: "if set",
    shown: choice(["fapi2"]).nullable(),
    changes: "fixed",
  },
  /** Its home page, for people. Default: none. */
  client_uri: page,
  /** Its privacy policy: the consent page links to it. Default: none. */
  policy_uri: page,
  /** Its terms of use: the consent page links to them. Default: none. */
  tos_uri: page,
  /** Its logo, shown where people sign in to it. Default: none. */
  logo: {
    ...page,
    value: described(
      z
        .custom<Uint8Array>()
        .superRefine((value, context) => {
          const found = value === null ? undefined : logoProblem(value);
          if (found !== undefined) context.addIssue({ code: "custom", message: found });
        })
        .nullish(),
      {
        form: `a PNG, JPEG or WebP image of at most ${MAX_LOGO_BYTES} bytes: in a file, its path relative to the file; in code, the bytes`,
      },
    ).meta({ option: "bytes" }),
    kept: logoFacts,
    shown: exactly({
      /** Its media type. */
      type: z.string(),
      /** The SHA-256 (Base64url) of the logo, which is at `{base}/clients/<client_id>/logo`. */
      sha256: z.string(),
    })
      .readonly()
      .nullable(),
  },
  /** The algorithm of its ID tokens; can't be changed later. Default: `RS256`. */
  id_token_signed_response_alg: {
    value: choice(ID_TOKEN_ALGORITHMS).optional(),
    has: signsPeopleIn,
    unset: "RS256",
    stored: "if named",
    changes: "fixed",
    isMetadata: true,
  },
  /** The APIs and scopes that it may ask for. Default: nothing. */
  apis: {
    value: described(apis.optional(), {
      form: "an object: the identifier of an API → a list of its scopes",
    }).meta({ option: "lists" }),
    has: everyKind,
    unset: () => ({}),
    stored: "if set",
    shown: z.record(z.string(), texts).readonly(),
  },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingName = keyof typeof SETTINGS;

/** The kinds and settings that a service has: those of {@link KINDS} and {@link SETTINGS}, and in tests others. */
export interface ClientRows {
  readonly kinds: Readonly<Record<ClientKind, KindOfClient>>;
  readonly settings: Readonly<Record<SettingName, Setting>>;
}

export const CLIENT_ROWS: ClientRows = { kinds: KINDS, settings: SETTINGS };

/** Whether clients of this kind have this setting. What is no setting belongs to every kind. */
export function hasSetting({ kinds, settings }: ClientRows, kind: ClientKind, setting: string): boolean {
  return ownValue<Setting>(settings, setting)?.has(kinds[kind]) ?? true;
}

/** The value of a setting that a client of this kind does not name. */
export function unsetValue(rows: ClientRows, kind: ClientKind, setting: SettingName): unknown {
  const { unset } = rows.settings[setting];
  return typeof unset === "function" ? (unset as (kind: KindOfClient) => unknown)(rows.kinds[kind]) : unset;
}

/** What the rules for a kind read of a client. Of the other settings they only check whether they are set. */
export const READ_WITH_KIND = [
  "client_secret",
  "grant_types",
  "jwks",
  "native",
  "origins",
  "post_logout_redirect_uris",
  "redirect_uris",
  "refresh_tokens",
] as const satisfies readonly SettingName[];

/** The settings of a client, as far as they depend on its kind. */
export type KindSettings = { readonly kind: ClientKind } & {
  readonly [S in (typeof READ_WITH_KIND)[number]]?: z.input<(typeof SETTINGS)[S]["value"]>;
};

/** The problems with these settings of a client of this kind, whatever its other settings are. */
export function kindProblems(rows: ClientRows, { kind, ...settings }: KindSettings): SettingProblem[] {
  const foreign = Object.entries(settings)
    .filter(([name, value]) => !isUnset(value) && !hasSetting(rows, kind, name))
    .map(([name]) => problem([name], `a ${kind} client can't have it`));
  const problems = [...foreign];
  if (settings.client_secret !== undefined && !isUnset(settings.jwks))
    problems.push(problem(["jwks"], "must not be set together with client_secret"));
  if (
    hasSetting(rows, kind, "grant_types") &&
    !hasSetting(rows, kind, "password_grant") &&
    settings.grant_types?.includes("password")
  )
    problems.push(
      problem(["grant_types"], `must not have password: a ${kind} client can't keep what people type`),
    );
  if (rows.kinds[kind].rotates !== "as configured" && settings.refresh_tokens?.rotate === false)
    problems.push(
      problem(["refresh_tokens", "rotate"], `must be true: the tokens of a ${kind} client always rotate`),
    );
  return problems;
}

/** The problems with these settings that depend on the configuration. */
export function configuredProblems(
  { settings }: ClientRows,
  given: Readonly<Record<string, unknown>>,
  rules: ClientRules,
): SettingProblem[] {
  return Object.entries(settings).flatMap(([name, row]: [string, Setting]) =>
    given[name] === undefined || row.wrong === undefined
      ? []
      : row.wrong(given[name], rules).map(({ path, message }) => problem([name, ...path], message)),
  );
}

/** `null` and `false` take a setting away. */
const isUnset = (value: unknown): boolean => value === undefined || value === null || value === false;

/** The object without members that are `undefined`. */
export function withoutAbsent(members: object): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
