/** The identities at other providers that people sign in with. The account's own record lists them (`AccountWays`). */
import { hash } from "node:crypto";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** Who somebody is at a provider: never the e-mail address. Both are compared byte by byte. */
export interface IdentityName {
  readonly issuer: string;
  /** The `sub` there. */
  readonly subject: string;
}

/** An identity that is linked to an account. Times are in seconds since the epoch. */
export interface StoredIdentity extends IdentityName {
  readonly id: string;
  /** The account. */
  readonly sub: string;
  /** The key in the configuration. */
  readonly provider: string;
  /** The address there when it was linked, sealed for {@link identityContext}; `null` if the provider did not say. */
  readonly sealed: string | null;
  readonly linked_at: number;
  /** `null`: never since it was linked. */
  readonly last_used_at: number | null;
  /** The account was registered with it. */
  readonly registered?: true;
}

/** In characters, of an issuer and of a subject (OpenID Connect Core section 2). */
const MAX_LENGTH = 255;

/** Whether this can be an issuer, or a subject. */
export function isIdentityPart(text: string): boolean {
  return text.length > 0 && text.length <= MAX_LENGTH && text.isWellFormed();
}

/** The id of an identity: a digest of both texts exactly as they are. */
export function identityId({ issuer, subject }: IdentityName): string {
  return hash("sha256", JSON.stringify(["identity", issuer, subject]), "base64url");
}

/** The sealing context of the address. */
export const identityContext = (id: string): string => `identity ${id}`;

export const IDENTITY: Kind<StoredIdentity> = defineKind<StoredIdentity>({
  name: "identity",
  holds: "an identity at another provider that an account signs in with",
  key: "the SHA-256 of issuer and `sub` there, so that it belongs to one account",
  keyOf: ({ id }) => id,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  sealed: ({ sealed, ...rest }, replace) => ({
    ...rest,
    sealed: sealed === null ? null : replace(identityContext(rest.id), sealed),
  }),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: {
    becomes: "without the address there",
    change: (identity) => ({ ...identity, sealed: null }),
  },
  personal:
    "the `sub` here and there, when it was linked and last used; sealed with `keys.secrets`: the address there",
});
