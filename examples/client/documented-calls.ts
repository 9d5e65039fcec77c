/** The documented endpoints, called with fetch alone. A client needs no more of OAuth 2.0. */

/** One call, as shown to the user. Contains no tokens or secrets. */
export interface Call {
  readonly method: string;
  readonly url: string;
  readonly status: number;
}

/** The token response. */
export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
  /** Seconds. */
  readonly expires_in: number;
  /** OpenID Connect only, if the scope includes `openid`. */
  readonly id_token?: string;
}

/** User information: field → value. */
export type Fields = Readonly<Record<string, string | null>>;

/** Claims of an ID token that are strings or numbers. */
export type Claims = Readonly<Record<string, string | number>>;

/** Basic and extended user information. */
export interface Person {
  readonly basic: Fields;
  readonly extended: Fields;
}

/** The service refused a call or did not respond. */
export class CallFailed extends Error {
  /** The status, or 0 if there was no response. */
  readonly status: number;
  /** The error code, such as `invalid_grant`. */
  readonly error: string;

  constructor(status: number, error: string, options?: ErrorOptions) {
    super(`${status} ${error}`, options);
    this.name = "CallFailed";
    this.status = status;
    this.error = error;
  }
}

/** URLs of the endpoints of a deployment. */
export interface Endpoints {
  readonly authorize: string;
  readonly token: string;
  readonly userinfo: string;
  readonly profile: string;
  readonly revoke: string;
}

/** The documented paths. */
export function endpointsOf(deployment: "oauth2" | "openid", base: string): Endpoints {
  const resources = deployment === "openid" ? `${base}/oauth2` : base;
  return {
    authorize: `${base}/oauth2/authorize`,
    token: `${base}/oauth2/token`,
    userinfo: `${resources}/resources/userinfo`,
    profile: `${resources}/external/profile`,
    revoke: `${base}/oauth2/revoke`,
  };
}

/** The credentials of a client. */
export interface Credentials {
  readonly client_id: string;
  readonly client_secret: string;
}

/** The calls of one client. Each one adds itself to `calls`, and throws {@link CallFailed} if it fails. */
export interface DocumentedCalls {
  /** Exchanges a code (`grant_type: authorization_code`) or a refresh token for tokens. */
  tokens(form: Readonly<Record<string, string>>, calls: Call[]): Promise<Tokens>;
  /** Basic and extended user information. */
  person(accessToken: string, calls: Call[]): Promise<Person>;
  /** Revokes the access token. */
  revoke(accessToken: string, calls: Call[]): Promise<void>;
}

const CALL_TIMEOUT_MS = 10_000;

/** Creates the calls to one deployment. */
export function documentedCalls(
  { token, userinfo, profile, revoke }: Endpoints,
  { client_id, client_secret }: Credentials,
): DocumentedCalls {
  const basic = `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`;
  const read = (address: string, accessToken: string, calls: Call[]): Promise<unknown> => {
    const url = `${address}?${new URLSearchParams({ client_id }).toString()}`;
    return send(url, { headers: { authorization: `Bearer ${accessToken}` } }, calls);
  };
  return {
    async tokens(form, calls) {
      const body = new URLSearchParams(form);
      const answer = await send(token, { method: "POST", body, headers: { authorization: basic } }, calls);
      return answer as Tokens;
    },
    async person(accessToken, calls) {
      return {
        basic: (await read(userinfo, accessToken, calls)) as Fields,
        extended: (await read(profile, accessToken, calls)) as Fields,
      };
    },
    async revoke(accessToken, calls) {
      await read(revoke, accessToken, calls);
    },
  };
}

async function send(url: string, init: RequestInit, calls: Call[]): Promise<unknown> {
  const { method = "GET" } = init;
  let response: Response;
  let answer: unknown;
  try {
    response = await fetch(url, { ...init, redirect: "error", signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    answer = await response.json();
  } catch (cause) {
    throw new CallFailed(0, "no_answer", { cause });
  }
  calls.push({ method, url, status: response.status });
  if (response.ok) return answer;
  throw new CallFailed(response.status, (answer as { error?: string }).error ?? "unknown");
}
