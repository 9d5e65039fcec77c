/** APIs: the resource servers of RFC 8707 that tokens can be for, as records of the directory. */
import { type AccountSettings, attributesOf } from "../config/attributes.ts";
import type { Configuration } from "../config/configuration.ts";
import {
  AlreadyExists,
  ConfigurationError,
  InvalidArgument,
  NotApplicable,
  NotFound,
  UnknownReference,
} from "../core/errors.ts";
import type { Clock } from "../core/clock.ts";
import { type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import type { Transaction } from "../records/records.ts";
import type { ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import {
  API,
  CLIENT,
  ENTRIES,
  isOpen,
  newTokensEpoch,
  type StoredApi,
} from "../records/directory/directory-kinds.ts";
import { type DirectoryRecords, removeEntry, withoutMark } from "../records/directory/directory-records.ts";
import type { StorageServices } from "../records/services.ts";
import type { Storage } from "../records/storage.ts";
import { checked } from "./arguments.ts";
import type { ClientRows } from "./clients/client-settings.ts";
import { putMarks, readMark, type Seeded, type SeedMark } from "./seed-marks.ts";
import {
  type Api,
  apiIdentifier,
  type Apis,
  apis,
  type ApiSettings,
  apiSettings,
  type CheckedApi,
  DEFAULT_JWT_SECONDS,
  MAX_OPAQUE_SECONDS,
} from "./operations/apis.ts";
import { facade, pageOf } from "./operations/operation.ts";

/** What the directory and its APIs are made from. */
export type DirectoryParts = Pick<StorageServices, "configuration" | "storage" | "sealer"> & {
  readonly clientRows: ClientRows;
};

/** The attributes that bring a scope of their own, or a standard one. No API has one of these scopes. */
const withScope = (accounts: AccountSettings): readonly { readonly name: string; readonly scope: string }[] =>
  attributesOf(accounts).flatMap(({ name, scope }) => (scope === undefined ? [] : [{ name, scope }]));

/** @throws ConfigurationError when an attribute has the scope of an API. */
export async function requireFreeScopes(
  { accounts }: Pick<Configuration, "accounts">,
  { listApis }: Pick<DirectoryRecords, "listApis">,
): Promise<void> {
  const attributes = withScope(accounts);
  if (attributes.length === 0) return;
  const stored = await listApis();
  const problems = attributes.flatMap(({ name, scope }) =>
    stored
      .filter(({ scopes }) => Object.hasOwn(scopes, scope))
      .map(
        ({ identifier }) =>
          `config.accounts.attributes.${name}.scope: ${scope} is a scope of the API ${identifier}`,
      ),
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
}

/**
 * The APIs of one storage.
 * @returns the public calls, and the one that only a seed uses.
 */
export function createApis({
  configuration: { deployments, accounts },
  storage: { records, directory, audit },
  clientRows: { kinds },
}: DirectoryParts): {
  readonly calls: Apis;
  readonly seed: (identifier: string, settings: ApiSettings, mark: SeedMark) => Promise<Seeded>;
} {
  /** An API below a deployment could pass for the service itself. */
  function requireForeign(identifier: string): void {
    for (const deployment of [deployments.oauth2, deployments.openid])
      if (deployment !== undefined && identifier.startsWith(deployment.url))
        throw new InvalidArgument({
          path: "identifier",
          message: "must not begin with the base URL of a deployment",
        });
  }

  const attributes = withScope(accounts);

  function requireOwnScopes(scopes: CheckedApi["scopes"]): void {
    const taken = attributes.find(({ scope }) => Object.hasOwn(scopes, scope));
    if (taken !== undefined)
      throw new InvalidArgument({
        path: `api.scopes.${taken.scope}`,
        message: `must have another name: it is the scope of config.accounts.attributes.${taken.name}`,
      });
  }

  /** @param settingsOver the new settings over the stored ones. */
  async function put(
    text: string,
    settingsOver: (stored: StoredApi | undefined) => CheckedApi,
    caller: Caller,
    mark?: SeedMark,
  ): Promise<{ readonly record: ApiRecord | undefined; readonly done: Seeded }> {
    const identifier = checked("identifier", apiIdentifier, text);
    requireForeign(identifier);
    return records.transact(async (tx) => {
      const isMarked = mark !== undefined && (await readMark(tx, mark));
      const stored = await tx.get(API.ref(identifier));
      if (isMarked && stored === undefined) return { record: undefined, done: { kind: "removed" } };
      if (mark !== undefined && !isMarked) putMarks(tx, [mark]);
      const settings = settingsOver(stored);
      const { tokens, introspection = [] } = settings;
      requireOwnScopes(settings.scopes);
      if (tokens === "jwt" && deployments.openid === undefined)
        throw new InvalidArgument({
          path: "api.tokens",
          message: "jwt needs the openid deployment, whose issuer and JWKS verify the tokens",
        });
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
        second_factor: settings.second_factor ?? "optional",
        unregistered: settings.unregistered ?? [],
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
        if (!kinds[client.kind].confidential)
          throw new NotApplicable(`a ${client.kind} client can't prove who it is for introspection`);
      }
      tx.put(API.record(record));
      const action = stored === undefined ? "api.created" : "api.updated";
      tx.create(audit.recordOf({ ...caller, action, subject: identifier }));
      return { record, done: stored === undefined ? { kind: "created" } : { kind: "updated", fields: [] } };
    });
  }

  return {
    calls: facade(apis, {
      async create({ target: [identifier], input, caller }) {
        const { record } = await put(
          identifier,
          (stored) => {
            if (stored !== undefined) throw new AlreadyExists(`api ${stored.identifier}`);
            return input;
          },
          caller,
        );
        return toApi(record as ApiRecord);
      },
      async put({ target: [identifier], input, caller }) {
        const { record } = await put(identifier, () => input, caller);
        return toApi(record as ApiRecord);
      },
      async update({ target: [identifier], input, caller }) {
        const { record } = await put(
          identifier,
          (stored) => {
            if (stored === undefined) throw new NotFound("the API");
            const { identifier: _key, tokens_epoch: _epoch, closingUntil: _mark, ...settings } = stored;
            return checked("api", apiSettings, { ...settings, ...input });
          },
          caller,
        );
        return toApi(record as ApiRecord);
      },
      async find({ target: [identifier] }) {
        const record = await directory.findApi(identifier);
        return record && toApi(record);
      },
      async list({ input }) {
        const { items, next } = pageOf(await directory.listApis(), ({ identifier }) => identifier, input);
        return { items: items.map(toApi), next };
      },
      async remove({ target: [subject], caller }) {
        const event = { ...caller, action: "api.removed", subject } as const;
        return removeEntry({ records, audit }, "api", subject, event);
      },
    }),
    async seed(identifier, given, mark) {
      const settings = checked("api", apiSettings, given);
      return (await put(identifier, () => settings, SYSTEM, mark)).done;
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
  { records, directory, audit }: Pick<Storage, "records" | "directory" | "audit">,
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
