/** Clients: the public calls, and what the HTTP layer asks for beside them. */
import type { ClientRecord } from "../directory/directory.ts";
import { anyString, checked } from "./arguments.ts";
import { actor, type CallOptions, callerFor, callerOf } from "./arguments.ts";
import {
  type Client,
  type ClientChanges,
  type ClientCredentials,
  isPublic,
  isUsable,
  type NewClient,
  toClient,
} from "./client.ts";
import { changeClient, type ClientDeps } from "./client-change.ts";
import { keepOldFor as keepOldForSchema } from "./client-schema.ts";
import { generateSecret, keptSecret, rotated, secretMatches } from "./client-secrets.ts";
import { keepInternalClient, type InternalClient } from "./internal-client.ts";
import { noClient, registerClient, removeClient, updateClient } from "./register-client.ts";

export type { ClientDeps } from "./client-change.ts";

/**
 * The clients. Wrong arguments are a `TypeError` that names the option; a fault of the storage is `StorageUnavailable`.
 * Each call that changes something leaves an audit record with the change; `actor` says there who asked for it.
 */
export interface Clients {
  /**
   * Registers a client. The secret is returned here and never again.
   * @throws AlreadyExists when the `client_id` is taken, or is the `sub` of an account.
   * @throws UnknownReference when the service is not in the directory.
   */
  register(client: NewClient, options?: CallOptions): Promise<ClientCredentials>;
  /** The client; `undefined` when there is none. */
  find(client_id: string): Promise<Client | undefined>;
  /** All clients, ordered by `client_id`. */
  list(): Promise<Client[]>;
  /**
   * Changes what is named; a call that changes nothing writes nothing.
   * @throws NotFound when there is no such client.
   * @throws UnknownReference when the service is not in the directory.
   */
  update(client_id: string, changes: ClientChanges, options?: CallOptions): Promise<Client>;
  /**
   * Makes a new secret. The old ones are accepted for `keepOldFor` more seconds (default 0, at most a year),
   * four secrets in all at most.
   * @throws NotFound when there is no such client.
   */
  rotateSecret(
    client_id: string,
    options?: CallOptions & { readonly keepOldFor?: number | undefined },
  ): Promise<{ readonly client_secret: string }>;
  /** From now on the client is refused as if it were unknown; `false` when there is none. */
  disable(client_id: string, options?: CallOptions): Promise<boolean>;
  /** Takes `disable` back; `false` when there is none. */
  enable(client_id: string, options?: CallOptions): Promise<boolean>;
  /**
   * Removes the client, ends its tokens and forgets what people allowed it; assignments stay. Reads every account.
   * `false` when there is none.
   */
  remove(client_id: string, options?: CallOptions): Promise<boolean>;
}

/** What only the service itself uses. */
export interface ClientInternals {
  /** The record behind `find`, disabled and internal ones included; any string may be asked for. */
  record(client_id: string): Promise<ClientRecord | undefined>;
  /** Whether this is a secret of the client that has not expired; the same work for no client at all. */
  secretMatches(record: Pick<ClientRecord, "secrets"> | undefined, presented: string): boolean;
  /** Registers the internal client of the account pages, or brings it to these values. */
  keepInternal(client: InternalClient): Promise<ClientRecord>;
}

/** The calls over one storage. */
export function createClients(deps: ClientDeps): Clients & ClientInternals {
  const { directory } = deps;
  return {
    register: (client, options) => registerClient(deps, client, options),
    async find(client_id) {
      const record = await directory.findClient(text(client_id));
      return record && toClient(record);
    },
    async list() {
      const records = await directory.listClients();
      return records.flatMap((record) => toClient(record) ?? []);
    },
    update: async (client_id, changes, options) => updateClient(deps, text(client_id), changes, options),
    rotateSecret: async (client_id, options = {}) => rotateSecret(deps, text(client_id), options),
    disable: async (client_id, options) => setDisabled(deps, text(client_id), "client.disabled", options),
    enable: async (client_id, options) => setDisabled(deps, text(client_id), "client.enabled", options),
    remove: async (client_id, options) => removeClient(deps, text(client_id), options),
    async record(client_id) {
      const record = await directory.findClient(client_id);
      return record !== undefined && isUsable(record) ? record : undefined;
    },
    secretMatches: (record, presented) =>
      secretMatches(deps.secretKey, record, presented, deps.clock.now() / 1000),
    keepInternal: (client) => keepInternalClient(deps, client),
  };
}

function text(client_id: string): string {
  return checked("client_id", anyString, client_id);
}

async function rotateSecret(
  deps: ClientDeps,
  client_id: string,
  options: NonNullable<Parameters<Clients["rotateSecret"]>[1]>,
): Promise<{ readonly client_secret: string }> {
  const keepOldFor = checked("keepOldFor", keepOldForSchema.optional(), options.keepOldFor) ?? 0;
  const caller = callerFor(checked("options.actor", actor, options.actor));
  const client_secret = generateSecret();
  const fresh = keptSecret(deps.secretKey, client_secret);
  await changeClient(deps, client_id, caller, (before) => {
    if (!isPublic(before)) throw noClient();
    const secrets = rotated(before.secrets, fresh, deps.clock.now() / 1000, keepOldFor);
    return { action: "client.secret_rotated", record: { ...before, secrets } };
  });
  return { client_secret };
}

async function setDisabled(
  deps: ClientDeps,
  client_id: string,
  action: "client.disabled" | "client.enabled",
  options: CallOptions | undefined,
): Promise<boolean> {
  const caller = callerOf(options);
  const disabled = action === "client.disabled";
  const { record } = await changeClient(deps, client_id, caller, (before) =>
    !isPublic(before) || before.disabled === disabled
      ? undefined
      : { action, record: { ...before, disabled } },
  );
  return isPublic(record);
}
