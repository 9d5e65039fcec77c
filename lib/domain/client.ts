/** A client as the public calls give and take it. */
import type { ClientRecord } from "../directory/directory.ts";
import type { RefreshTokenRules } from "../../config/configuration.ts";
import { isObjectName } from "../untrusted-keys.ts";

/** The grants that a client can be registered for. */
export const GRANT_TYPES = ["authorization_code", "refresh_token", "password"] as const;

/** One grant of the token endpoint. */
export type GrantType = (typeof GRANT_TYPES)[number];

/** What a client is registered with, beside its identifier and secret. */
export interface ClientSettings {
  /** What people see, at most 256 characters. */
  readonly name: string;
  /** Key of the service to which the client belongs. */
  readonly service: string;
  /** 1 to 100 addresses, https or http on loopback, compared character by character. */
  readonly redirect_uris: readonly string[];
  /** Where RP-initiated logout may lead; the same rules. Default: none. */
  readonly post_logout_redirect_uris?: readonly string[] | undefined;
  /** Where back-channel logout is sent; the same rules. Default: none. */
  readonly backchannel_logout_uri?: string | null | undefined;
  /** Default: `authorization_code` and `refresh_token`. */
  readonly grant_types?: readonly GrantType[] | undefined;
  /** `true` adds the password grant to `grant_types`, `false` takes it away. Not for third parties. */
  readonly password_grant?: boolean | undefined;
  /** `false`: a third party, for which people are asked for consent. Default `true`. */
  readonly first_party?: boolean | undefined;
  /** What differs from the service's `refreshTokens`. Default: nothing. */
  readonly refresh_tokens?:
    | { readonly [K in keyof RefreshTokenRules]?: RefreshTokenRules[K] | undefined }
    | undefined;
  /** `standard` answers faults with 401 and 403 where the standards say so. Default `documented`: 400. */
  readonly error_status?: "documented" | "standard" | undefined;
}

/** What `clients.register` takes. */
export interface NewClient extends ClientSettings {
  /** 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Default: generated. */
  readonly client_id?: string | undefined;
  /** Printable ASCII, at least 32 characters (16 when all deployments are on loopback). Default: generated. */
  readonly client_secret?: string | undefined;
}

/** What `clients.update` takes: only what is named changes. */
export type ClientChanges = {
  readonly [K in keyof ClientSettings]?: ClientSettings[K] | undefined;
} & {
  /** Replaces all secrets by this one, unless it is accepted already and not about to expire. */
  readonly client_secret?: string | undefined;
};

/** A client as every call returns it: never with a secret or what is kept of one. */
export interface Client {
  readonly client_id: string;
  readonly name: string;
  readonly service: string;
  readonly redirect_uris: readonly string[];
  readonly post_logout_redirect_uris: readonly string[];
  readonly backchannel_logout_uri: string | null;
  readonly grant_types: readonly string[];
  readonly password_grant: boolean;
  readonly first_party: boolean;
  readonly refresh_tokens: Partial<RefreshTokenRules>;
  readonly error_status: "documented" | "standard";
  readonly disabled: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Seconds since the epoch. */
  readonly updated_at: number;
}

/** What `register` returns: the secret is shown here and never again. */
export interface ClientCredentials {
  readonly client_id: string;
  readonly client_secret: string;
}

/** A client that the public calls know. */
type PublicClient = ClientRecord & { readonly service: string };

/**
 * Whether the public calls know this client. They don't know the internal account client, which has no service, and
 * not one that an earlier version stored under a name that every object has.
 */
export function isPublic(record: ClientRecord | undefined): record is PublicClient {
  return record !== undefined && record.service !== null && !isObjectName(record.client_id);
}

/** Whether requests may name this client: neither it nor its service has a name that every object has. */
export function isUsable({ client_id, service }: ClientRecord): boolean {
  return !isObjectName(client_id) && (service === null || !isObjectName(service));
}

/** The record as the public calls show it; `undefined` for one that they don't know. */
export function toClient(record: ClientRecord): Client | undefined {
  if (!isPublic(record)) return undefined;
  return {
    client_id: record.client_id,
    name: record.name,
    service: record.service,
    redirect_uris: record.redirect_uris,
    post_logout_redirect_uris: record.post_logout_redirect_uris,
    backchannel_logout_uri: record.backchannel_logout_uri,
    grant_types: record.grant_types,
    password_grant: record.grant_types.includes("password"),
    first_party: record.first_party,
    refresh_tokens: record.refresh_tokens,
    error_status: record.error_status,
    disabled: record.disabled,
    created_at: record.created_at,
    updated_at: record.updated_at,
  };
}
