/** Why a request is refused, and what its caller can do about it (RFC 6750 section 3, RFC 9449 section 7.1, RFC 9470 section 3). */

/** Characters of a quoted string that RFC 6750 section 3 allows in `scope`; our other values are made of them as well. */
const QUOTED = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/;

/** A value that came from outside never leaves the quotes. */
export function challenge(
  scheme: "Bearer" | "DPoP",
  values: Readonly<Record<string, string | undefined>>,
): string {
  const members = Object.entries(values).flatMap(([name, value]) =>
    value !== undefined && QUOTED.test(value) ? [`${name}="${value}"`] : [],
  );
  return members.length === 0 ? scheme : `${scheme} ${members.join(", ")}`;
}

/** A request that an API does not answer. Its message is for the log of the API. It names no token. */
export class AccessError extends Error {
  override readonly name = "AccessError";
  /**
   * 400 for a malformed request, 401 without a valid token or with a sign-in that is too weak or too old, 403 without a scope or role, 503
   * when nobody can say whether the token is valid.
   */
  readonly status: 400 | 401 | 403 | 503;
  /** To send with the response: `www-authenticate`, `cache-control`, `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: AccessError["status"],
    message: string,
    { authenticate, cause }: { readonly authenticate?: readonly string[]; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.status = status;
    this.headers = {
      "cache-control": "no-store",
      ...(authenticate !== undefined && { "www-authenticate": authenticate.join(", ") }),
      ...(status === 503 && { "retry-after": "5" }),
    };
  }

  /** The response for servers that are built on Web requests. */
  toResponse(): Response {
    return new Response(null, { status: this.status, headers: this.headers });
  }
}
