/** The operations on APIs: the resource servers of RFC 8707 that tokens can be for. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { RESERVED_SCOPES } from "../../config/reserved-names.ts";
import { isLoopback, urlProblem } from "../../config/value-forms.ts";
import { isObjectName, OBJECT_NAME_PROBLEM } from "../../core/untrusted-keys.ts";
import { choice, exactly, flag, integer, mapOf, ruled, whenValid } from "../arguments.ts";
import { clientIdProblem, keyProblem, type Problem, textProblem } from "../text-rules.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

const MAX_IDENTIFIER = 256;
const MAX_SCOPES = 100;
const MAX_INTROSPECTING_CLIENTS = 100;
const MIN_LIFETIME_SECONDS = 60;
export const MAX_OPAQUE_SECONDS = 36_000;
/** A JWT can't be revoked, so it does not live long. */
export const MAX_JWT_SECONDS = 900;
export const DEFAULT_JWT_SECONDS = 600;

/** The name of a scope of an API. */
export function scopeProblem(scope: string): Problem {
  if (!/^[a-z][a-z0-9._:-]{0,63}$/u.test(scope))
    return "must be 1 to 64 of the characters a-z 0-9 . _ : -, a letter first";
  if (RESERVED_SCOPES.has(scope)) return "must not be a scope that the service uses itself";
  return isObjectName(scope) ? OBJECT_NAME_PROBLEM : undefined;
}

/** The form of an identifier. Whether it is one of this service's addresses is checked when it is put. */
export function apiIdentifierProblem(identifier: string): Problem {
  if (identifier.length > MAX_IDENTIFIER) return `must have at most ${MAX_IDENTIFIER} characters`;
  const problem = urlProblem(identifier);
  if (problem !== undefined) return problem;
  const { protocol, hostname } = new URL(identifier);
  return protocol === "https:" || isLoopback(hostname) ? undefined : "must be https, or http on loopback";
}

export const apiIdentifier = ruled(apiIdentifierProblem);

const scopes = mapOf(ruled(scopeProblem), ruled(textProblem)).superRefine((all, context) => {
  const { length } = Object.keys(all);
  if (length === 0 || length > MAX_SCOPES)
    context.addIssue({ code: "custom", message: `must have 1 to ${MAX_SCOPES} scopes` });
});

const clientIds = z
  .array(ruled(clientIdProblem), { error: "must be a list of client_ids" })
  .max(MAX_INTROSPECTING_CLIENTS, { error: `must have at most ${MAX_INTROSPECTING_CLIENTS} clients` })
  .refine((all) => new Set(all).size === all.length, { error: "must not have a client twice" })
  .readonly();

const unregisteredScopes = z
  .array(ruled(scopeProblem), { error: "must be a list of scopes" })
  .max(MAX_SCOPES, { error: `must have at most ${MAX_SCOPES} scopes` })
  .refine((all) => new Set(all).size === all.length, { error: "must not have a scope twice" })
  .readonly();

const apiShape = {
  /** Display name, which consent pages show. */
  name: described(ruled(textProblem), { form: "a text of 1 to 256 characters" }),
  /** The service that it belongs to. */
  service: described(ruled(keyProblem), { form: "the key of a service" }),
  /** What clients can ask for, with a description for consent pages. */
  scopes: described(scopes, {
    form: `an object of 1 to ${MAX_SCOPES} entries: scope → description; a scope is \`[a-z][a-z0-9._:-]{0,63}\``,
  }),
  /**
   * `opaque` tokens are introspected; a `jwt` is verified with the JWKS, needs the `openid` deployment and can't be revoked.
   * Can't be changed later. Default: `opaque`.
   */
  tokens: described(z.enum(["opaque", "jwt"], { error: "must be opaque or jwt" }).default("opaque"), {
    form: "`opaque` or `jwt`",
  }),
  /** Lifetime of access tokens, in seconds. Default: 36000, for a `jwt` 600. */
  lifetime: described(integer(MIN_LIFETIME_SECONDS, MAX_OPAQUE_SECONDS).optional(), {
    unit: "duration",
    form: `seconds: ${MIN_LIFETIME_SECONDS} to ${MAX_OPAQUE_SECONDS}, for a \`jwt\` at most ${MAX_JWT_SECONDS}`,
  }),
  /** The clients that may introspect its tokens: those of the API itself. Default: none. */
  introspection: described(clientIds.optional(), {
    form: "a list of `client_id`s of `web` and `machine` clients",
  }),
  /** Whether people who authorize a client for it are assigned to its service. Default: `false`. */
  assign: flag().optional(),
  /**
   * `required`: people get tokens for it only with a second factor or a passkey, whichever client asks for them. It does not concern
   * `machine` clients. Default: `optional`.
   */
  second_factor: choice(["required", "optional"]).optional(),
  /** The scopes that clients may have that nobody has registered (`clients.metadataDocuments`). Default: none. */
  unregistered: described(unregisteredScopes.optional(), { form: "a list of scopes of the API" }),
};

const settingsOfApi = exactly(apiShape)
  .superRefine(
    ({ tokens, lifetime = 0 }, context) => {
      if (tokens === "jwt" && lifetime > MAX_JWT_SECONDS)
        context.addIssue({
          code: "custom",
          path: ["lifetime"],
          message: `must be at most ${MAX_JWT_SECONDS} for a jwt, which can't be revoked`,
        });
    },
    whenValid("tokens", "lifetime"),
  )
  .superRefine(
    ({ scopes: own, unregistered = [] }, context) => {
      for (const [index, scope] of unregistered.entries())
        if (!Object.hasOwn(own, scope))
          context.addIssue({
            code: "custom",
            path: ["unregistered", index],
            message: "must be one of the scopes",
          });
    },
    whenValid("scopes", "unregistered"),
  );

/** The settings of an API. */
export interface ApiSettings extends Readonly<z.input<typeof settingsOfApi>> {}
export interface CheckedApi extends Readonly<z.output<typeof settingsOfApi>> {}
export const apiSettings: z.ZodType<CheckedApi, ApiSettings> = settingsOfApi;

const { tokens: _fixed, ...changeable } = apiShape;
const changesOfApi = exactly(changeable).partial();

/** Settings to change. What is left out stays. */
export interface ApiChanges extends Readonly<z.input<typeof changesOfApi>> {}
const apiChanges: z.ZodType<ApiChanges, ApiChanges> = changesOfApi;

const shownApi = exactly({
  /** An absolute URI. Requests name it as `resource`, and tokens as `aud`. */
  identifier: z.string(),
  name: z.string(),
  service: z.string(),
  scopes: mapOf(z.string(), z.string()),
  tokens: z.enum(["opaque", "jwt"]),
  lifetime: z.int(),
  introspection: z.array(z.string()).readonly(),
  assign: z.boolean(),
  second_factor: z.enum(["required", "optional"]),
  unregistered: z.array(z.string()).readonly(),
});

/** An API as every call returns it. */
export interface Api extends Readonly<z.output<typeof shownApi>> {}
const api: z.ZodType<Api> = shownApi.meta({ id: "Api" });

const READS = {
  role: "viewer",
  limited: { role: "viewer", by: "service" },
  confirm: "none",
  audit: [],
  errors: [],
  input: NONE,
} as const;
const CHANGES = { role: "administrator", limited: false, recent: true, columns: [] } as const;

const EXAMPLE = {
  target: ["https://api.example.com"],
  input: {
    name: "Articles",
    service: "news",
    scopes: { "articles:write": "Write and delete articles" },
  },
} as const;

export const apis = operations("api", {
  /**
   * Creates an API.
   *
   * @throws AlreadyExists if there is one with this identifier.
   * @throws UnknownReference as `put`.
   */
  create: operation({
    ...CHANGES,
    effect: "create",
    target: ["identifier"],
    input: apiSettings,
    output: api,
    confirm: "none",
    audit: ["api.created"],
    errors: ["already_exists", "unknown_reference"],
    example: { ...EXAMPLE, target: ["https://new.example.com"] },
  }),
  /**
   * Creates an API, or replaces all of it but `tokens`.
   *
   * An API whose tokens are opaque asks this service about them (introspection) with a client of its own. A jwt is verified with the
   * published keys and can't be revoked. The identifier does not begin with the base URL of a deployment.
   *
   * @throws UnknownReference when its service or a client of `introspection` does not exist.
   */
  put: operation({
    ...CHANGES,
    effect: "put",
    target: ["identifier"],
    input: apiSettings,
    output: api,
    confirm: "none",
    audit: ["api.created", "api.updated"],
    errors: ["unknown_reference"],
    surfaces: ["library", "command"],
    example: EXAMPLE,
  }),
  /**
   * Changes the given settings of an API. What is left out stays.
   *
   * @throws NotFound if there is no such API.
   * @throws UnknownReference as `put`.
   */
  update: operation({
    ...CHANGES,
    effect: "change",
    target: ["identifier"],
    input: apiChanges,
    output: api,
    confirm: "none",
    audit: ["api.updated"],
    errors: ["not_found", "unknown_reference"],
    example: { target: ["https://api.example.com"], input: { lifetime: 600 } },
  }),
  /**
   * Shows an API.
   * @returns `undefined` if there is none.
   */
  find: operation({
    ...READS,
    effect: "read",
    target: ["identifier"],
    output: api,
    columns: [],
    example: { target: ["https://api.example.com"], input: {} },
  }),
  /** Lists all APIs, ordered by identifier. */
  list: operation({
    ...READS,
    effect: "list",
    target: [],
    output: api,
    columns: ["identifier", "name", "service", "tokens", "lifetime"],
    example: { target: [], input: {} },
  }),
  /**
   * Removes an API that no client may ask for, and ends its opaque tokens.
   *
   * @returns `false` if there is none.
   * @throws StillReferenced naming the clients that may ask for it.
   */
  remove: operation({
    ...CHANGES,
    effect: "remove",
    target: ["identifier"],
    input: NONE,
    output: NONE,
    confirm: "typed",
    audit: ["api.removed"],
    errors: ["still_referenced"],
    example: { target: ["https://old.example.com"], input: {} },
  }),
});

/** The calls for APIs. */
export interface Apis extends Facade<typeof apis.rows> {}
