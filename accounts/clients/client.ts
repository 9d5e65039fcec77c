/** The public calls for clients, and what they take and return. */
import type { RefreshTokenRules } from "../../config/configuration.ts";
import type {
  ClientKind,
  ClientRecord,
  IdTokenAlgorithm,
  StoredLogo,
} from "../../records/directory/directory.ts";
import type { CallOptions } from "../arguments.ts";
import type {
  AnyNewClient,
  ClientChanges,
  IdentifiedClient,
  NewClient,
  NewMachineClient,
} from "./client-schema.ts";
import type { Seeded, SeedMark } from "../seed-marks.ts";
import { originsOf, type SettingName, SETTINGS, unsetValue } from "./client-kinds.ts";

/** The `client_id` of the internal client of the account pages; no other client can have it. */
export const ACCOUNT_CLIENT = "sign-in-service.account";

/** The internal client of the console with `profile: strict`. It needs a second factor. */
export const CONSOLE_CLIENT = "sign-in-service.console";

/** A client as every call returns it, without its secrets and their digests. */
export interface Client {
  readonly client_id: string;
  readonly kind: ClientKind;
  readonly name: string;
  readonly service: string;
  /** Empty for a kind that has none. */
  readonly redirect_uris: readonly string[];
  readonly native: boolean;
  /** Of a `public` client also those that follow from its redirect addresses. */
  readonly origins: readonly string[];
  /** `null` for a client that has a secret, or can keep none. */
  readonly jwks: ClientRecord["jwks"] | null;
  readonly post_logout_redirect_uris: readonly string[];
  readonly backchannel_logout_uri: string | null;
  readonly grant_types: readonly string[];
  readonly password_grant: boolean;
  readonly first_party: boolean;
  readonly second_factor: "required" | "optional";
  readonly refresh_tokens: Partial<RefreshTokenRules>;
  readonly error_status: "documented" | "standard";
  readonly client_uri: string | null;
  readonly policy_uri: string | null;
  readonly tos_uri: string | null;
  /** The media type and the SHA-256 (Base64url) of the logo, which is at `{base}/clients/<client_id>/logo`. */
  readonly logo: { readonly type: string; readonly sha256: string } | null;
  readonly id_token_signed_response_alg: IdTokenAlgorithm;
  readonly apis: Readonly<Record<string, readonly string[]>>;
  readonly disabled: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Seconds since the epoch. */
  readonly updated_at: number;
}

/** The result of `register` for a client with a secret, which can't be read again. */
export interface ClientCredentials {
  readonly client_id: string;
  readonly client_secret: string;
}

/** The result of `register`. A client that has keys, or can keep no secret, gets none. */
export type RegisteredClient = Pick<ClientCredentials, "client_id"> & Partial<ClientCredentials>;

/**
 * The clients. A wrong argument is an `InvalidArgument` that names the option; a storage fault is `StorageUnavailable`. Every
 * change writes an audit record that names its `actor`.
 */
export interface Clients {
  /**
   * Registers a client. The secret is returned only here.
   * @throws AlreadyExists when the `client_id` is taken, or is the `sub` of an account.
   * @throws UnknownReference when the service, or an API or scope of `apis`, is not in the directory.
   */
  register(client: NewClient | NewMachineClient, options?: CallOptions): Promise<ClientCredentials>;
  register(client: AnyNewClient, options?: CallOptions): Promise<RegisteredClient>;
  /** The client; `undefined` if there is none. */
  find(client_id: string): Promise<Client | undefined>;
  /** All clients, ordered by `client_id`. */
  list(): Promise<Client[]>;
  /**
   * Changes the given settings. A call that changes nothing writes nothing. Moving the client to another service ends its
   * codes and tokens.
   * @throws NotFound when there is no such client.
   * @throws UnknownReference when the service, or an API or scope of `apis`, is not in the directory.
   */
  update(client_id: string, changes: ClientChanges, options?: CallOptions): Promise<Client>;
  /**
   * Makes a new secret. The old ones stay valid for `keepOldFor` seconds (default 0, at most a year). A client has at
   * most four secrets. Without `keepOldFor`, the opaque tokens of a `machine` client end, too.
   * @throws SignInError `not_applicable` when the client has no secret.
   * @throws NotFound when there is no such client.
   */
  rotateSecret(
    client_id: string,
    options?: CallOptions & { readonly keepOldFor?: number | undefined },
  ): Promise<{ readonly client_secret: string }>;
  /**
   * Ends all tokens of a `machine` client. For the tokens of people, see `accounts.revokeTokens`.
   * @throws SignInError `not_applicable` for a client of another kind.
   * @throws NotFound when there is no such client.
   */
  revokeTokens(client_id: string, options?: CallOptions): Promise<void>;
  /**
   * From now on the client is refused like an unknown one, and its codes and tokens have ended for good. `false` if there is
   * no such client.
   */
  disable(client_id: string, options?: CallOptions): Promise<boolean>;
  /** Accepts the client again. Earlier codes and tokens stay invalid. `false` if there is no such client. */
  enable(client_id: string, options?: CallOptions): Promise<boolean>;
  /**
   * Removes the client, its tokens and its consents; assignments stay. Reads every account. `false` if there is no such
   * client.
   */
  remove(client_id: string, options?: CallOptions): Promise<boolean>;
}

/** The members of {@link Clients}: a host application gets these, and none of the internal calls. */
export const CLIENT_CALLS: Readonly<Record<keyof Clients, true>> = {
  register: true,
  find: true,
  list: true,
  update: true,
  rotateSecret: true,
  revokeTokens: true,
  disable: true,
  enable: true,
  remove: true,
};

/** A client that the pages of the service use to sign people in. It has no secret, because nobody else uses it. */
export interface InternalClient {
  readonly client_id: string;
  readonly name: string;
  readonly redirect_uris: readonly string[];
  readonly second_factor?: "required";
}

/** What a seed has done with a client, and whether that has another secret or other keys than the seed says. */
export type SeededClient = Seeded & { readonly keepsCredentials: boolean };

/** Calls that only the service itself uses. */
export interface ClientInternals {
  /**
   * Registers the client of a seed, unless it was removed since a seed made it; of one that exists, sets the members that
   * the seed names, but for its secret and keys.
   * @param made.nameOfNew the name of a new client, if the seed has none.
   */
  seed(
    client: IdentifiedClient,
    made: { readonly nameOfNew: string; readonly mark: SeedMark },
  ): Promise<SeededClient>;
  /** The record of any client, also of disabled and internal ones. */
  record(client_id: string): Promise<ClientRecord | undefined>;
  /** The origins of all enabled public clients. */
  allOrigins(): Promise<ReadonlySet<string>>;
  /** The logo of a client that people can sign in to; `undefined` if there is none. */
  logo(client_id: string): Promise<StoredLogo | undefined>;
  /** Whether this is a valid secret of the client. It takes as long for an unknown client. */
  secretMatches(
    record: Pick<ClientRecord, "secrets"> | undefined,
    presented: string,
  ): "generated" | "chosen" | undefined;
  /**
   * Registers an internal client, or updates it to these values.
   * @returns the client as it is now, and before the change if there was one.
   */
  putInternal(
    client: InternalClient,
  ): Promise<{ readonly record: ClientRecord; readonly replaced: ClientRecord | undefined }>;
}

type PublicClient = ClientRecord & { readonly service: string };

/** Whether the public calls show this client. They hide internal clients, which have no service. */
export function isPublic(record: ClientRecord | undefined): record is PublicClient {
  return record !== undefined && record.service !== null;
}

/** The record as the public calls show it; `undefined` for a client that they hide. */
export function toClient(record: ClientRecord): Client | undefined {
  if (!isPublic(record)) return undefined;
  const { client_id, kind, disabled, created_at, updated_at } = record;
  const stored: Readonly<Record<string, unknown>> = { ...record };
  const settings = SHOWN.map((name) => [name, stored[name] ?? unsetValue(kind, name)]);
  const shown = {
    ...Object.fromEntries(settings),
    origins: originsOf(record),
    password_grant: record.grant_types.includes("password"),
  };
  return { client_id, kind, ...shown, disabled, created_at, updated_at } as Client;
}

/** The settings that the calls show: all but the secret. */
const SHOWN = (Object.keys(SETTINGS) as SettingName[]).filter((name) => name !== "client_secret");
