/** The documented endpoints, with nothing but fetch: this is all that a client needs of OAuth 2.0. */

/** One call, to be shown to the person: never with a token or a secret. */
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
  /** OpenID Connect only, when `openid` was asked for. */
  readonly id_token?: string;
}

/** What the service tells about a person: name of the field → value. */
export type Fields = Readonly<Record<string, string | null>>;

/** What an ID token says, texts and numbers. */
export type Claims = Readonly<Record<string, string | number>>;

/** Both answers about a person. */
export interface Person {
  readonly basic: Fields;
  readonly extended: Fields;
}

/** The service said no, or nothing. */
export class CallFailed extends Error {
  /** The status; 0 when there was no answer. */
  readonly status: number;
  /** The code in the answer, such as `invalid_grant`. */
  readonly error: string;

  constructor(status: number, error: string, options?: ErrorOptions) {
    super(`${status} ${error}`, options);
    this.name = "CallFailed";
    this.status = status;
    this.error = error;
  }
}

/** Where the endpoints of a deployment are. */
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

/** The calls of one client; each adds itself to `calls`. All throw {@link CallFailed}. */
export interface DocumentedCalls {
  /** Exchanges a code (`grant_type: authorization_code`) or a refresh token for tokens. */
  tokens(form: Readonly<Record<string, string>>, calls: Call[]): Promise<Tokens>;
  /** Basic and extended user information. */
  person(accessToken: string, calls: Call[]): Promise<Person>;
  /** Ends the access token. */
  revoke(accessToken: string, calls: Call[]): Promise<void>;
}

/** Milliseconds. */
const TIME_OUT = 10_000;

/** The calls at one deployment. */
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
    response = await fetch(url, { ...init, redirect: "error", signal: AbortSignal.timeout(TIME_OUT) });
    answer = await response.json();
  } catch (cause) {
    throw new CallFailed(0, "no_answer", { cause });
  }
  calls.push({ method, url, status: response.status });
  if (response.ok) return answer;
  throw new CallFailed(response.status, (answer as { error?: string }).error ?? "unknown");
}
