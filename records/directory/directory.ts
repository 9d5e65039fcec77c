/** The durable records: accounts, clients, and the services, groups and portals of the directory. */
import type { RefreshTokenRules } from "../../config/configuration.ts";
import type { CLIENT_KINDS } from "../../core/events.ts";

/** The value of an attribute: a text, a number, an answer, or an address by its parts. */
export type AttributeValue = string | number | boolean | Readonly<Record<string, string>>;

/** An account. Everything that a change has to read is in this one record. */
export interface AccountRecord {
  /** Random UUID, never reused. */
  readonly sub: string;
  /** Positive integer from a counter, never reused. */
  readonly user_id: number;
  readonly email: string;
  readonly email_verified: boolean;
  readonly username: string | null;
  readonly name: string | null;
  readonly surname: string | null;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth: string | null;
  readonly gender: string | null;
  /** Language tag. Missing: `null`. */
  readonly locale?: string | null;
  /** The version of the terms of use that the person accepted. Missing if there is none. */
  readonly terms_version?: string;
  /** Key of the portal that the account belongs to. */
  readonly portal: string | null;
  /** The values of the fields that the service adds, by name. Missing: none. */
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
  /** Assignments: service key → `user_id_in_service`, `null` until the service reports it. */
  readonly services: Readonly<Record<string, number | null>>;
  /** Service key → when the account was assigned, in seconds since the epoch. Missing: unknown. */
  readonly services_since?: Readonly<Record<string, number>>;
  /** Service key → the account's roles there, as long as it is assigned. Missing: none. */
  readonly roles?: Readonly<Record<string, readonly string[]>>;
  /** What the person signs in with. */
  readonly ways: AccountWays;
  /** The changes of address in the last seven days, oldest first, which a mailed link can undo. Missing: none. */
  readonly address_undos?: readonly AddressUndo[];
  /** Raised when all sign-in sessions of the account end. */
  readonly sessions_generation: number;
  /** Raised when all codes and tokens of the account are revoked. */
  readonly tokens_generation: number;
  /** Service key → number that is raised when the codes and tokens there are revoked; outlives the assignment. */
  readonly service_generations: Readonly<Record<string, number>>;
  /** Client id → number that is raised when the codes and tokens of the client are revoked. */
  readonly client_generations: Readonly<Record<string, number>>;
  /** What the end user has allowed third-party clients: client id → scopes and claims. */
  readonly consents: Readonly<Record<string, Consent>>;
  /** Whether sign-in is blocked, and all codes, tokens and sessions are invalid. Missing: `false`. */
  readonly disabled?: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Seconds since the epoch. */
  readonly updated_at: number;
}

/**
 * What an account signs in with: a member for each kind, as its row in `accounts/ways/` reads it. Missing: the account never
 * had one of this kind. The secrets of apps and the keys of passkeys are in records of their own.
 */
export interface AccountWays {
  readonly password?: PasswordWay;
  readonly passkey?: PasskeyWay;
  /** There is an authenticator app. */
  readonly app?: true;
  readonly provider?: ProviderWay;
  /**
   * Raised by every change of the second factors, and when the sessions, the password or the address change. Remembered
   * browsers and enrolments of an earlier generation are invalid. Missing: the account never had a second factor.
   */
  readonly generation?: number;
  /** Whether the person has to review the second factors, because the password was reset. Missing: no. */
  readonly review?: FactorsReview;
  /** Whether the person was asked at sign-in to add a passkey. Missing: never. */
  readonly passkey_offer?: PasskeyOffer;
}

interface PasswordWay {
  /** PHC string; `null` once the password has ended. */
  readonly hash: string | null;
  /** Raised when the password changes or ends, but not by a rehash. */
  readonly generation: number;
  /** When it was last changed or ended, in seconds since the epoch. Missing: not since the account was created. */
  readonly changed_at?: number;
}

interface PasskeyWay {
  /** The user handle of the account's passkeys (WebAuthn): 32 random bytes, Base64url. */
  readonly user_handle: string;
  /** The credential ids, oldest first. */
  readonly ids: readonly string[];
}

interface ProviderWay {
  /** The identities at other providers, oldest first: at most one of each provider. */
  readonly links: readonly IdentityLink[];
}

/** An identity as its account lists it. */
export interface IdentityLink {
  /** The digest of its issuer and subject, which is the key of its record. */
  readonly id: string;
  /** The key of its provider in the configuration. */
  readonly provider: string;
  /** Seconds since the epoch. */
  readonly linked_at: number;
  /** The account was registered with it. */
  readonly registered?: true;
}

/**
 * `due`: the next sign-in shows the second factors. `half`: a sign-in by passkey alone has shown them; the next one
 * with the password shows them again, because the passkey may be a thief's.
 */
export type FactorsReview = "due" | "half";

/** The answer to the offer is not stored, unless the person does not want to be asked again. */
export interface PasskeyOffer {
  /** When the person was last asked, in seconds since the epoch. */
  readonly at: number;
  /** Set if the person must not be asked again. */
  readonly declined?: true;
}

/** A change of address that can be undone. Undoing it undoes the later ones too. */
interface AddressUndo {
  /** Random. */
  readonly id: string;
  /** Seconds since the epoch. Factors that were added since then go with the change. */
  readonly changed_at: number;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
  /**
   * The address before it was not confirmed, so its link was not mailed. Codes that guard factors are mailed there
   * anyway.
   */
  readonly unconfirmed?: true;
}

export interface Consent {
  readonly scopes: readonly string[];
  readonly claims: readonly string[];
  /** The names of the attributes that the person has seen in these scopes and claims. Missing: none. */
  readonly attributes?: readonly string[];
  /** Scopes of APIs, by identifier. Missing: none. */
  readonly apis?: Readonly<Record<string, readonly string[]>>;
  /** Of a client that nobody has registered. It is never remembered for another request, and is gone when its grant is. */
  readonly document?: ConsentDocument;
}

/** Which client that nobody has registered a consent is for. Times are in seconds since the epoch. */
export interface ConsentDocument {
  /** The address of its document. */
  readonly url: string;
  /** When it was given last. */
  readonly since: number;
  /** In milliseconds, when it was given first since it was last ended: codes and tokens of an earlier one are invalid. */
  readonly begun: number;
  /** When the last refresh token of its grant has ended. */
  readonly until: number;
}

/** One valid client secret. */
export interface ClientSecret {
  /** HMAC-SHA-256 of the secret with the storage's key, Base64url. */
  readonly hash: string;
  /** Whether this service generated it: 256 random bits can't be guessed, so no rate limit applies. */
  readonly generated?: true;
  /** Seconds since the epoch. Missing: valid until it is rotated. */
  readonly expires_at?: number;
}

/**
 * What a client is: `web` is a server that keeps a secret, `public` a browser or native application, `machine` a service
 * that acts for itself, `device` an application without a browser or a keyboard.
 */
export type ClientKind = (typeof CLIENT_KINDS)[number];

/** A public key of a client (RFC 7517). */
export type ClientKey = Readonly<Record<string, string>>;

/** The algorithms that ID tokens can be signed with (RFC 7518, RFC 8037). */
export const ID_TOKEN_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"] as const;

export type IdTokenAlgorithm = (typeof ID_TOKEN_ALGORITHMS)[number];

export interface ClientRecord {
  readonly client_id: string;
  readonly kind: ClientKind;
  readonly name: string;
  /** Key of the service that the client belongs to; `null` only for the internal account client. */
  readonly service: string | null;
  /** Empty for a client that has keys instead, and for kinds that can't keep a secret. */
  readonly secrets: readonly ClientSecret[];
  /** The public keys that verify the assertions of the client (RFC 7523). Missing: it has none. */
  readonly jwks?: { readonly keys: readonly ClientKey[] };
  /**
   * Of a client that nobody has registered: the address of its document, which is its `client_id` in the protocol, and what it calls
   * itself. Its own `client_id` here is the name of the kept copy. No record of a registered client has this.
   */
  readonly document?: { readonly url: string; readonly name?: string };
  /** Whether a public client is an application on a device, which may have addresses that no other machine reaches. */
  readonly native?: true;
  /** The origins that a public client named. Missing: those of its redirect addresses. */
  readonly origins?: readonly string[];
  readonly redirect_uris: readonly string[];
  readonly post_logout_redirect_uris: readonly string[];
  readonly backchannel_logout_uri: string | null;
  readonly grant_types: readonly string[];
  readonly first_party: boolean;
  /** Whether it requires a second factor of everybody. Missing: no. */
  readonly second_factor?: "required";
  /** The keys of the providers that it offers. Missing: all. */
  readonly providers?: readonly string[];
  /** Whether a second factor that a provider vouches for counts. Missing: no. */
  readonly providers_mfa?: true;
  /** Overrides of the configuration's `refreshTokens`. */
  readonly refresh_tokens: Partial<RefreshTokenRules>;
  readonly error_status: "documented" | "standard";
  /** The security profile that it keeps. Missing: none. */
  readonly profile?: "fapi2";
  /** Whether it must prove its key (RFC 9449). Missing: as the configuration says. */
  readonly dpop?: "required";
  /** The client's home page, privacy policy and terms of use. */
  readonly client_uri?: string;
  readonly policy_uri?: string;
  readonly tos_uri?: string;
  /** Describes the {@link StoredLogo}. Missing without a logo. */
  readonly logo?: Pick<StoredLogo, "type" | "sha256">;
  /** Missing: `RS256`. */
  readonly id_token_signed_response_alg?: IdTokenAlgorithm;
  /** What the client may request of APIs: identifier → scopes. Missing: nothing. */
  readonly apis?: Readonly<Record<string, readonly string[]>>;
  /** Random. What the client got under an earlier one is invalid: device codes, codes, and tokens. */
  readonly tokens_epoch: string;
  readonly disabled: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  readonly updated_at: number;
}

/** An API that tokens can be for (RFC 8707). */
export interface ApiRecord {
  /** An absolute URI, compared character by character. */
  readonly identifier: string;
  readonly name: string;
  /** Key of the service that the API belongs to. */
  readonly service: string;
  /** Scope → what it allows, for people to read. */
  readonly scopes: Readonly<Record<string, string>>;
  readonly tokens: "opaque" | "jwt";
  /** Lifetime of its access tokens, in seconds. */
  readonly lifetime: number;
  /** The clients that may introspect its tokens. */
  readonly introspection: readonly string[];
  /** Whether people are assigned to the service when they authorize a client for the API. */
  readonly assign: boolean;
  /** Whether people need a second factor for its tokens, whichever client asks for them. */
  readonly second_factor: "required" | "optional";
  /** The scopes that clients may have that nobody has registered. Empty: none of them reaches it. */
  readonly unregistered: readonly string[];
  /** Random. An API that is moved to another service, or removed and put again, gets another one: its earlier tokens stay invalid. */
  readonly tokens_epoch: string;
}

/** The logo of a client. */
export interface StoredLogo {
  readonly client_id: string;
  /** `image/png`, `image/jpeg` or `image/webp`. */
  readonly type: string;
  /** Of the bytes, in Base64url. */
  readonly sha256: string;
  /** In Base64. */
  readonly bytes: string;
}

/** The kinds of entries of the directory that have a receiver. */
export type EntryKind = "service" | "group" | "portal";

/** A receiver with sealed credentials. */
export interface ReceiverRecord {
  readonly url: string;
  readonly client_id: string;
  readonly types: readonly string[];
  /** Sealed JSON `{ client_secret, signing_secret? }`. `null`: it is lost, and has to be set again. */
  readonly sealed: string | null;
}

export interface EntryRecord {
  readonly key: string;
  readonly name: string;
  /** Services only: the key of their group. */
  readonly group: string | null;
  /** Services only: the roles that people can have there. Missing: none. */
  readonly roles?: readonly string[];
  readonly receiver: ReceiverRecord | null;
}
