/** `clients.register`, `clients.update` and `clients.remove`. */
import { randomUUID } from "node:crypto";
import type { ClientRecord } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { seconds } from "../clock.ts";
import { AlreadyExists, NotFound } from "../errors.ts";
import {
  type Client,
  type ClientChanges,
  type ClientCredentials,
  isPublic,
  type NewClient,
  toClient,
} from "./client.ts";
import { afterCommit } from "./commit.ts";
import { changeClient, type ClientDeps } from "./client-change.ts";
import { clientChanges, newClient } from "./client-schema.ts";
import { generateSecret, keptSecret } from "./client-secrets.ts";
import { checked } from "./arguments.ts";
import { type CallOptions, callerOf } from "./arguments.ts";

/** Under which name the storage keeps that a client was removed once. */
function removalMark(client_id: string): string {
  return `client removed ${client_id}`;
}

/** The error for a change of a client that is not there. */
export function noClient(): NotFound {
  return new NotFound("this client");
}

/** See `Clients.register`. */
export async function registerClient(
  deps: ClientDeps,
  input: NewClient,
  options: CallOptions | undefined,
): Promise<ClientCredentials> {
  const client = checked("client", newClient(deps.minSecretLength), input);
  const caller = callerOf(options);
  const { client_id = randomUUID(), client_secret = generateSecret() } = client;
  const now = seconds(deps.clock);
  const fresh: ClientRecord = {
    client_id,
    name: client.name,
    service: client.service,
    secrets: [keptSecret(deps.secretKey, client_secret)],
    redirect_uris: client.redirect_uris,
    post_logout_redirect_uris: [],
    backchannel_logout_uri: null,
    grant_types: ["authorization_code", "refresh_token"],
    first_party: true,
    refresh_tokens: {},
    error_status: "documented",
    disabled: false,
    created_at: now,
    updated_at: now,
    version: 1,
  };
  const record = withSettings(fresh, client);
  if (client.client_id !== undefined) await forgetEarlier(deps, client_id, caller);
  await changeClient(deps, client_id, caller, (before) => {
    if (before !== undefined) throw new AlreadyExists("a client with this client_id");
    return { action: "client.registered", record };
  });
  return { client_id, client_secret };
}

/** Nothing that a removed client of this id left behind may come back to life with the new one. */
async function forgetEarlier(deps: ClientDeps, client_id: string, caller: Caller): Promise<void> {
  if ((await deps.directory.kept(removalMark(client_id))) === undefined) return;
  if ((await deps.directory.findClient(client_id)) !== undefined) return;
  await deps.artifacts.removeByClient(client_id);
  await deps.forgetConsents(client_id, caller);
}

/** See `Clients.update`. */
export async function updateClient(
  deps: ClientDeps,
  client_id: string,
  input: ClientChanges,
  options: CallOptions | undefined,
): Promise<Client> {
  const caller = callerOf(options);
  const changes = checked("changes", clientChanges(deps.minSecretLength), input);
  const { record } = await changeClient(deps, client_id, caller, (before) => {
    if (!isPublic(before)) throw noClient();
    const after = withSecret(deps, withSettings(before, changes), changes.client_secret);
    // Both come from JSON and keep the order of their members, so equal text is an equal record.
    if (JSON.stringify(after) === JSON.stringify(before)) return undefined;
    return { action: "client.updated", record: after };
  });
  const client = record && toClient(record);
  if (client === undefined) throw noClient();
  return client;
}

function withSecret(deps: ClientDeps, record: ClientRecord, secret: string | undefined): ClientRecord {
  if (secret === undefined) return record;
  const kept = keptSecret(deps.secretKey, secret);
  const known = record.secrets.some(({ hash, expires_at }) => hash === kept.hash && expires_at === undefined);
  return known ? record : { ...record, secrets: [kept] };
}

/** The record with the settings that are given; the password grant has two names, of which `password_grant` wins. */
function withSettings(before: ClientRecord, changes: ClientChanges): ClientRecord {
  const given = changes.grant_types ?? before.grant_types;
  const others = given.filter((grant) => grant !== "password");
  const password = changes.password_grant ?? given.includes("password");
  const { rotate, reuseWindow, sliding, maxAge } = changes.refresh_tokens ?? before.refresh_tokens;
  const record: ClientRecord = {
    ...before,
    name: changes.name ?? before.name,
    service: changes.service ?? before.service,
    redirect_uris: changes.redirect_uris ?? before.redirect_uris,
    post_logout_redirect_uris: changes.post_logout_redirect_uris ?? before.post_logout_redirect_uris,
    backchannel_logout_uri:
      changes.backchannel_logout_uri === undefined
        ? before.backchannel_logout_uri
        : changes.backchannel_logout_uri,
    grant_types: password ? [...others, "password"] : others,
    first_party: changes.first_party ?? before.first_party,
    refresh_tokens: {
      ...(rotate === undefined ? {} : { rotate }),
      ...(reuseWindow === undefined ? {} : { reuseWindow }),
      ...(sliding === undefined ? {} : { sliding }),
      ...(maxAge === undefined ? {} : { maxAge }),
    },
    error_status: changes.error_status ?? before.error_status,
  };
  if (record.grant_types.length === 0) throw new TypeError("grant_types: must not be empty");
  if (!record.first_party && password) {
    throw new TypeError("password_grant: a third-party client can't have the password grant");
  }
  return record;
}

/** See `Clients.remove`. */
export async function removeClient(
  deps: ClientDeps,
  client_id: string,
  options: CallOptions | undefined,
): Promise<boolean> {
  const caller = callerOf(options);
  const known = await deps.directory.findClient(client_id);
  if (known === undefined || known.service === null) return false;
  await deps.directory.keep(removalMark(client_id), "1");
  const { changed } = await changeClient(deps, client_id, caller, (before) =>
    before === undefined ? undefined : { action: "client.removed", record: undefined },
  );
  if (!changed) return false;
  // Without its client no token works and no consent is read. What can't be removed now goes when it expires, with the
  // next consent of the account, or before another client gets this id.
  await afterCommit(deps.events, "clear artifacts", async () => {
    await deps.artifacts.removeByClient(client_id);
  });
  await afterCommit(deps.events, "forget consents", () => deps.forgetConsents(client_id, caller));
  return true;
}
