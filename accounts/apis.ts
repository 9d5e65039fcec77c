/** APIs: the resource servers of RFC 8707 that tokens can be for, as records of the directory. */
import { z } from "zod";
import type { Deployment } from "../config/configuration.ts";
import { described } from "../config/documented-schema.ts";
import { isLoopback } from "../config/value-forms.ts";
import { InvalidArgument, NotApplicable, UnknownReference } from "../core/errors.ts";
import { isObjectName, OBJECT_NAME_PROBLEM } from "../core/untrusted-keys.ts";
import type { Clock } from "../core/clock.ts";
import { type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import type { Transaction } from "../records/records.ts";
import type { ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import { API, CLIENT, ENTRIES, isOpen, newTokensEpoch } from "../records/directory/directory-kinds.ts";
import { removeEntry, withoutMark } from "../records/directory/directory-records.ts";
import type { Storage } from "../records/storage.ts";
import {
  anyString,
  type CallOptions,
  callerOf,
  checked,
  exactly,
  flag,
  integer,
  mapOf,
  ruled,
  whenValid,
} from "./arguments.ts";
import { KINDS } from "./clients/client-kinds.ts";
import { putMarks, readMark, type Seeded, type SeedMark } from "./seed-marks.ts";
import { clientIdProblem, keyProblem, type Problem, textProblem, urlProblem } from "./text-rules.ts";

const MAX_IDENTIFIER = 256;
const MAX_SCOPES = 100;
const MAX_INTROSPECTING_CLIENTS = 100;
const MIN_LIFETIME_SECONDS = 60;
const MAX_OPAQUE_SECONDS = 36_000;
/** A JWT can't be revoked, so it does not live long. */
export const MAX_JWT_SECONDS = 900;
const DEFAULT_JWT_SECONDS = 600;

/**
 * The kind of access tokens for an API: `opaque` ones are introspected, a `jwt` is verified with the JWKS (RFC 9068).
 */
export type ApiTokens = ApiRecord["tokens"];

/** An API as every call returns it. */
export interface Api extends Required<{ readonly [K in keyof ApiSettings]: NonNullable<ApiSettings[K]> }> {
  /** An absolute URI. Requests name it as `resource`, and tokens as `aud`. */
  readonly identifier: string;
}

/** The calls for APIs. */
export interface Apis {
  /**
   * Creates the API or replaces all of it but `tokens`.
   * @param identifier an absolute https URI (http on loopback), at most 256 characters, without fragment and user, that does
   * not begin with the base URL of a deployment.
   * @throws UnknownReference when its service or a client of `introspection` does not exist.
   */
  put(identifier: string, settings: ApiSettings, options?: CallOptions): Promise<Api>;
  /** The API; `undefined` if there is none. */
  find(identifier: string): Promise<Api | undefined>;
  /** All APIs, ordered by identifier. */
  list(): Promise<Api[]>;
  /**
   * Removes the API and so ends its opaque tokens. `false` if there is none.
   * @throws StillReferenced naming the clients that may ask for it.
   */
  remove(identifier: string, options?: CallOptions): Promise<boolean>;
}

/** Scopes that the service uses itself, or will use. */
const RESERVED_SCOPES: ReadonlySet<string> = new Set([
  "openid",
  "profile",
  "email",
  "address",
  "phone",
  "offline_access",
  "roles",
  "account",
]);

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

const settingsOfApi = exactly({
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
    form: `seconds: ${MIN_LIFETIME_SECONDS} to ${MAX_OPAQUE_SECONDS}, for a \`jwt\` at most ${MAX_JWT_SECONDS}`,
  }),
  /** The clients that may introspect its tokens: those of the API itself. Default: none. */
  introspection: described(clientIds.optional(), {
    form: "a list of `client_id`s of `web` and `machine` clients",
  }),
  /** Whether people who authorize a client for it are assigned to its service. Default: `false`. */
  assign: described(flag().optional(), { form: "`true` or `false`" }),
}).superRefine(
  ({ tokens, lifetime = 0 }, context) => {
    if (tokens === "jwt" && lifetime > MAX_JWT_SECONDS)
      context.addIssue({
        code: "custom",
        path: ["lifetime"],
        message: `must be at most ${MAX_JWT_SECONDS} for a jwt, which can't be revoked`,
      });
  },
  whenValid("tokens", "lifetime"),
);

/** The settings of an API. */
export interface ApiSettings extends Readonly<z.input<typeof settingsOfApi>> {}
export interface CheckedApi extends Readonly<z.output<typeof settingsOfApi>> {}
export const apiSettings: z.ZodType<CheckedApi, ApiSettings> = settingsOfApi;

export interface ApisOptions {
  readonly storage: Pick<Storage, "records" | "directory" | "audit">;
  readonly deployments: Readonly<Partial<Record<"oauth2" | "openid", Pick<Deployment, "url">>>>;
}

/** The APIs of one storage. */
export function createApis({ storage, deployments }: ApisOptions): Apis & {
  readonly seed: (identifier: string, settings: ApiSettings, mark: SeedMark) => Promise<Seeded>;
} {
  const { records, directory, audit } = storage;

  /** An API below a deployment could pass for the service itself. */
  function requireForeign(identifier: string): void {
    for (const deployment of [deployments.oauth2, deployments.openid])
      if (deployment !== undefined && identifier.startsWith(deployment.url))
        throw new InvalidArgument({
          path: "identifier",
          message: "must not begin with the base URL of a deployment",
        });
  }

  async function put(
    text: string,
    input: ApiSettings,
    caller: Caller,
    mark?: SeedMark,
  ): Promise<{ readonly record: ApiRecord | undefined; readonly done: Seeded }> {
    const identifier = checked("identifier", apiIdentifier, text);
    requireForeign(identifier);
    const settings = checked("api", apiSettings, input);
    const { tokens, introspection = [] } = settings;
    if (tokens === "jwt" && deployments.openid === undefined)
      throw new InvalidArgument({
        path: "api.tokens",
        message: "jwt needs the openid deployment, whose issuer and JWKS verify the tokens",
      });
    return records.transact(async (tx) => {
      const isMarked = mark !== undefined && (await readMark(tx, mark));
      const stored = await tx.get(API.ref(identifier));
      if (isMarked && stored === undefined) return { record: undefined, done: { kind: "removed" } };
      if (mark !== undefined && !isMarked) putMarks(tx, [mark]);
      if (stored !== undefined && stored.tokens !== tokens)
        throw new NotApplicable(`the API has ${stored.tokens} tokens, and that can't be changed`);
      const record: ApiRecord = {
        identifier,
        name: settings.name,
        service: settings.service,
        scopes: settings.scopes,
        tokens,
        lifetime: settings.lifetime ?? (tokens === "jwt" ? DEFAULT_JWT_SECONDS : MAX_OPAQUE_SECONDS),
        introspection,
        assign: settings.assign ?? false,
        // Its tokens belong to the service that people are assigned to and unassigned from.
        tokens_epoch: stored?.service === settings.service ? stored.tokens_epoch : newTokensEpoch(),
      };
      // Both come from JSON and keep the order of their members, so equal text is an equal record.
      if (stored !== undefined && JSON.stringify(withoutMark(stored)) === JSON.stringify(record))
        return { record, done: { kind: "same" } };
      if (!isOpen(await tx.get(ENTRIES.service.ref(record.service)), records.clock))
        throw new UnknownReference(`service ${record.service}`);
      for (const client_id of introspection) {
        const client = await tx.get(CLIENT.ref(client_id));
        if (client === undefined || client.service === null)
          throw new UnknownReference(`client ${client_id}`);
        if (!KINDS[client.kind].confidential)
          throw new NotApplicable(`a ${client.kind} client can't prove who it is for introspection`);
      }
      tx.put(API.record(record));
      const action = stored === undefined ? "api.created" : "api.updated";
      tx.create(audit.recordOf({ ...caller, action, subject: identifier }));
      return { record, done: stored === undefined ? { kind: "created" } : { kind: "updated", fields: [] } };
    });
  }

  return {
    async put(identifier, settings, options) {
      const { record } = await put(identifier, settings, callerOf(options));
      return toApi(record as ApiRecord);
    },
    seed: async (identifier, settings, mark) => (await put(identifier, settings, SYSTEM, mark)).done,
    async find(identifier) {
      const record = await directory.findApi(checked("identifier", anyString, identifier));
      return record && toApi(record);
    },
    list: async () => (await directory.listApis()).map(toApi),
    async remove(identifier, options) {
      const subject = checked("identifier", anyString, identifier);
      const event = { ...callerOf(options), action: "api.removed", subject } as const;
      return removeEntry({ records, audit }, "api", subject, event);
    },
  };
}

/**
 * Requires that everything a client may now ask for exists. What it could already ask for was checked earlier.
 * @throws UnknownReference when an API, or a scope of it, does not exist.
 */
export async function requireApis(
  tx: Transaction,
  before: ClientRecord["apis"],
  after: ClientRecord["apis"],
  clock: Clock,
): Promise<void> {
  for (const [identifier, wanted] of Object.entries(after ?? {})) {
    if (before?.[identifier]?.join() === wanted.join()) continue;
    const api = await tx.get(API.ref(identifier));
    if (!isOpen(api, clock)) throw new UnknownReference(`api ${identifier}`);
    const unknown = wanted.find((scope) => !Object.hasOwn(api.scopes, scope));
    if (unknown !== undefined) throw new UnknownReference(`the scope ${unknown} of api ${identifier}`);
  }
}

/** Removes a deleted client from `introspection`, so that a later client with the same id can't introspect tokens. */
export async function forgetInApis(
  { records, directory, audit }: ApisOptions["storage"],
  client_id: string,
  caller: Caller,
): Promise<void> {
  for (const { identifier, introspection } of await directory.listApis()) {
    if (!introspection.includes(client_id)) continue;
    await records.transact(async (tx) => {
      const api = await tx.get(API.ref(identifier));
      if (!api?.introspection.includes(client_id)) return;
      const left = api.introspection.filter((each) => each !== client_id);
      tx.put(API.record({ ...api, introspection: left }));
      tx.create(audit.recordOf({ ...caller, action: "api.updated", subject: identifier }));
    });
  }
}

/** The record as the public calls show it. */
function toApi({ tokens_epoch: _epoch, ...api }: ApiRecord): Api {
  return api;
}
