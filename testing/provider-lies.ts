/** What a provider of a test does wrong, when a test wants it to. */

/** The endpoints of a provider. `discovery` and `keys` are documents. */
export type ProviderEndpoint = "discovery" | "authorize" | "token" | "keys" | "userinfo";

/** What a lie changes. Missing parts stay as they are. */
interface Lie {
  /** In a sentence: "It …". */
  readonly does: string;
  readonly discovery?: (document: Record<string, unknown>) => void;
  /** The query with which the browser goes back. */
  readonly answer?: (answer: URLSearchParams) => void;
  /** The ID token. */
  readonly header?: (header: Record<string, unknown>) => void;
  readonly claims?: (claims: Record<string, unknown>) => void;
  readonly signature?: "of another key" | "none" | "of the client secret";
  readonly userinfo?: (claims: Record<string, unknown>) => void;
  /** At the endpoint that the test names; default: `token`. */
  readonly response?: ProviderResponse;
}

/** Instead of an answer. `silence`: none, until the provider closes; `endless`: a byte now and then. */
export type ProviderResponse =
  | "silence"
  | "endless"
  | "hang up"
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body: string | { readonly bytes: number };
    };

const TEN_MINUTES = 600;

const json = { "content-type": "application/json" };

/** An address of a cloud's metadata service. Nothing of this service may ever go there. */
const INNER = "http://169.254.169.254/latest/meta-data/";

const shifted =
  (seconds: number): NonNullable<Lie["claims"]> =>
  (claims) => {
    for (const name of ["iat", "exp"]) claims[name] = Number(claims[name]) + seconds;
  };

/** Every lie, by its name. */
export const LIES = {
  "wrong key": { does: "signs with another key than it publishes", signature: "of another key" },
  "unknown key": {
    does: "signs with a key that it does not publish",
    header: (header) => (header["kid"] = "unknown"),
    signature: "of another key",
  },
  "no signature": { does: "signs nothing", header: (header) => (header["alg"] = "none"), signature: "none" },
  "shared secret": {
    does: "signs with the client secret",
    header: (header) => (header["alg"] = "HS256"),
    signature: "of the client secret",
  },
  "weak algorithms": {
    does: "offers algorithms that prove nothing",
    discovery: (document) => (document["id_token_signing_alg_values_supported"] = ["none", "HS256"]),
  },
  "secrets in the header only": {
    does: "takes client secrets in the header only, which is no lie",
    discovery: (document) => (document["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]),
  },
  "other audience": {
    does: "sends an ID token of another client",
    claims: (claims) => (claims["aud"] = "another-client"),
  },
  "more audiences": {
    does: "sends an ID token that another client may use as well",
    claims: (claims) => (claims["aud"] = [claims["aud"], "another-client"]),
  },
  "other issuer": {
    does: "sends an ID token of another issuer",
    claims: (claims) => (claims["iss"] = "https://issuer.example"),
  },
  "other issuer in discovery": {
    does: "is another issuer by its discovery document",
    discovery: (document) => (document["issuer"] = "https://issuer.example"),
  },
  "wrong nonce": {
    does: "sends an ID token of another sign-in",
    claims: (claims) => (claims["nonce"] = "of-another-sign-in"),
  },
  "no nonce": { does: "sends an ID token of no sign-in", claims: (claims) => delete claims["nonce"] },
  expired: {
    does: "sends an ID token that has expired",
    claims: (claims) => (claims["exp"] = Number(claims["iat"]) - TEN_MINUTES),
  },
  "clock behind": { does: "has a clock that is ten minutes slow", claims: shifted(-TEN_MINUTES) },
  "clock ahead": { does: "has a clock that is ten minutes fast", claims: shifted(TEN_MINUTES) },
  "no iss": { does: "leaves `iss` out of its answer", answer: (answer) => answer.delete("iss") },
  "wrong iss": {
    does: "says in its answer that it is another issuer",
    answer: (answer) => answer.set("iss", "https://issuer.example"),
  },
  "wrong state": {
    does: "sends the browser back with another state",
    answer: (answer) => answer.set("state", "of-another-browser"),
  },
  "two codes": { does: "sends two codes", answer: (answer) => answer.append("code", "another-code") },
  "server error": {
    does: "sends the browser back with an error",
    answer(answer) {
      answer.delete("code");
      answer.set("error", "server_error");
      answer.set("error_description", "Something <b>secret</b> failed");
    },
  },
  "other subject": {
    does: "says at its userinfo endpoint that it is somebody else",
    userinfo: (claims) => (claims["sub"] = "somebody-else"),
  },
  "long subject": {
    does: "has a subject of 10 kB",
    claims: (claims) => (claims["sub"] = "s".repeat(10_240)),
  },
  "subject is a number": { does: "has a number as its subject", claims: (claims) => (claims["sub"] = 7) },
  "no ID token": { does: "leaves out the ID token" },
  silence: { does: "does not answer", response: "silence" },
  endless: { does: "answers one byte at a time, and never ends", response: "endless" },
  "hang up": { does: "hangs up", response: "hang up" },
  "inner redirect": {
    does: "redirects to an inner address",
    response: { status: 302, headers: { location: INNER }, body: "" },
  },
  "inner endpoint": {
    does: "names an inner address as its endpoint",
    discovery: (document) => (document["token_endpoint"] = INNER),
  },
  "100 MB": {
    does: "answers with 100 MB",
    response: { status: 200, headers: json, body: { bytes: 100 * 1024 * 1024 } },
  },
  "broken JSON": {
    does: "answers with half an answer",
    response: { status: 200, headers: json, body: '{"access_token": "secret-of-the-provid' },
  },
  "deep JSON": {
    does: "answers with JSON that is nested thousands of times",
    response: { status: 200, headers: json, body: `${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}` },
  },
  "a page": {
    does: "answers with a page",
    response: { status: 200, headers: { "content-type": "text/html" }, body: "<h1>secret page</h1>" },
  },
  "not found": { does: "has nothing there", response: { status: 404, body: "not found" } },
  "no token endpoint": {
    does: "leaves an endpoint out of its discovery document",
    discovery: (document) => delete document["token_endpoint"],
  },
  "no client secrets": {
    does: "takes no client secrets, which is no lie",
    discovery: (document) => (document["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]),
  },
  "few scopes": {
    does: "has few scopes, which is no lie",
    discovery: (document) => (document["scopes_supported"] = ["openid"]),
  },
  "status 500": {
    does: "fails",
    response: { status: 500, headers: json, body: '{"error": "secret trouble"}' },
  },
  "error with status 200": {
    does: "answers with an error, but with status 200, as GitHub does",
    response: { status: 200, headers: json, body: '{"error":"bad_verification_code"}' },
  },
  "wrong client": {
    does: "does not know the client",
    response: { status: 401, headers: json, body: '{"error":"invalid_client","error_description":"secret"}' },
  },
} as const satisfies Readonly<Record<string, Lie>>;

export type ProviderLie = keyof typeof LIES;

export const lieOf = (name: ProviderLie): Lie => LIES[name];
