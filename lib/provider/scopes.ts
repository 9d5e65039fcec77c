/** The scopes that are known, and the one that stands for a request without any. */

/**
 * The library refuses a request without a scope; the documented OAuth 2.0 request has none. Such a request gets
 * this one inside, which opens all fields of the profile. It is never accepted from outside and never shown.
 */
export const ALL_FIELDS = "account";

/** Scopes that a client may ask for. */
export const PUBLIC_SCOPES = ["openid", "email", "profile"] as const;

const known: ReadonlySet<string> = new Set(PUBLIC_SCOPES);

/**
 * The scope that the library sees: what is unknown here is dropped, `openid` too where there is no ID token,
 * and an empty rest becomes {@link ALL_FIELDS}. A value that is no scope at all is left for the library to refuse.
 * @param requested the `scope` parameter, if it was sent.
 */
export function effectiveScope(requested: string | undefined, options: { readonly openid: boolean }): string {
  if (requested !== undefined && !/^[\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(requested)) return requested;
  const scopes = new Set((requested ?? "").split(" ").filter((scope) => known.has(scope)));
  if (!options.openid) scopes.delete("openid");
  return scopes.size === 0 ? ALL_FIELDS : [...scopes].join(" ");
}
