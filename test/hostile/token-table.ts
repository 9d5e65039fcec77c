/**
 * What the service answers when a token is sent to an endpoint: every kind of token at every endpoint. The test beside it
 * tries all of them on both deployments, and `docs/reference/tokens.md` shows the same table.
 */

/** What an endpoint answers, and what happens to the token: it stays valid, unless the answer says that it ends. */
export type Verdict =
  /** 200 with the person's data. */
  | "opens"
  /** 200; exactly this token ends. */
  | "ends"
  /** 200; the token and all that come from the same authorization end. */
  | "ends its family"
  /** 200, as for an unknown token. */
  | "no effect"
  | "active"
  | "inactive"
  /** A status and the `error` in its body. */
  | `${400 | 401} ${string}`;

/** What an endpoint says to a client that has credentials, if it may have some, and sends a right request. */
export type ClientVerdict =
  | "yes"
  /** `unauthorized_client`; at introspection `invalid_client`, because the client can't authenticate. */
  | "refused"
  /** A request that was not pushed is `invalid_request`. */
  | "only pushed";

export type ClientEndpoint = keyof typeof CLIENT_ENDPOINTS;

const SIGN_IN = { response_type: "code", code_challenge: "x".repeat(43), code_challenge_method: "S256" };

/** Each with a request that is right, but for the client and its `redirect_uri`. */
export const CLIENT_ENDPOINTS = {
  authorization: { title: "Authorization", path: "/oauth2/authorize", form: SIGN_IN },
  par: { title: "PAR", path: "/oauth2/par", form: SIGN_IN },
  device: { title: "Device authorization", path: "/oauth2/device", form: {} },
  introspect: { title: "Introspection", path: "/oauth2/introspect", form: { token: "x" } },
  revoke: { title: "RFC 7009 revocation", path: "/oauth2/revoke", form: { token: "x" } },
} as const;

/** What clients may do at which endpoint. Three tests try it: the one beside it, and those of `fapi2` and of unregistered clients. */
export const CLIENTS: Readonly<
  Record<
    "web" | "public" | "machine" | "device" | "bank" | "robot" | "unregistered",
    Readonly<Record<ClientEndpoint, ClientVerdict>> & { readonly title: string; readonly proof: string }
  >
> = {
  web: {
    title: "`web`",
    authorization: "yes",
    par: "yes",
    device: "refused",
    introspect: "yes",
    revoke: "yes",
    proof: "a proof, or none",
  },
  public: {
    title: "`public`",
    authorization: "yes",
    par: "yes",
    device: "refused",
    introspect: "refused",
    revoke: "yes",
    proof: "a proof, or none; always a proof with `profile: strict`",
  },
  machine: {
    title: "`machine`",
    authorization: "refused",
    par: "refused",
    device: "refused",
    introspect: "yes",
    revoke: "yes",
    proof: "a proof, or none",
  },
  device: {
    title: "`device`",
    authorization: "refused",
    par: "refused",
    device: "yes",
    introspect: "refused",
    revoke: "yes",
    proof: "a proof, or none",
  },
  bank: {
    title: '`web` with `profile: "fapi2"`, only on `openid`',
    authorization: "only pushed",
    par: "yes",
    device: "refused",
    introspect: "yes",
    revoke: "yes",
    proof: "always a proof",
  },
  robot: {
    title: '`machine` with `profile: "fapi2"`, only on `openid`',
    authorization: "refused",
    par: "refused",
    device: "refused",
    introspect: "yes",
    revoke: "yes",
    proof: "always a proof",
  },
  unregistered: {
    title: "Not registered, only on `openid`",
    authorization: "yes",
    par: "yes",
    device: "refused",
    introspect: "refused",
    revoke: "yes",
    proof: "as `public`",
  },
};

/** What a right request of a client is answered with: the `error`, or `undefined`. */
export function clientError(client: keyof typeof CLIENTS, endpoint: ClientEndpoint): string | undefined {
  const verdict = CLIENTS[client][endpoint];
  if (verdict === "yes") return undefined;
  if (verdict === "only pushed") return "invalid_request";
  return endpoint === "introspect" ? "invalid_client" : "unauthorized_client";
}

export type TokenKind = keyof typeof TOKENS;
export type TokenEndpoint = keyof typeof ENDPOINTS;

/** The kinds of tokens. Machines and devices have `error_status: standard`, the client of the others does not. */
export const TOKENS = {
  user: "Access token of a person",
  bound: "Access token of a person that is bound to a key, as `Bearer`",
  boundElsewhere: "The same as `DPoP`, with a proof of another key",
  apiOpaque: "Access token of a person for an API, opaque",
  apiJwt: "Access token of a person for an API, JWT",
  boundOpaque: "Access token for an API that is bound to a key, opaque, as `DPoP` with a proof of it",
  boundJwt: "The same as a JWT",
  machineOpaque: "Access token of a machine, opaque",
  machineJwt: "Access token of a machine, JWT",
  refresh: "Refresh token",
  id: "ID token",
  device: "Device code",
} as const;

/** The endpoints that take tokens. "Own" is the client that the token was issued to. */
export const ENDPOINTS = {
  documented: "Userinfo, profile",
  standard: "Standard userinfo",
  revoke: "Documented revocation",
  foreign: "The documented ones, another `client_id`",
  revokeOwn: "RFC 7009, own client",
  revokeOther: "RFC 7009, another client",
  introspectOwn: "Introspection, own client",
  introspectApi: "Introspection, client of the API",
  introspectOther: "Introspection, another client",
} as const;

const NO_CLIENT = "401 invalid_client";
const UNSUPPORTED = "400 unsupported_token_type";

/** A status alone is that of `invalid_token`. */
type Cell = Verdict | "400" | "401";

/** A row in the order of {@link ENDPOINTS}. */
const row = (
  ...cells: readonly [
    documented: Cell,
    standard: Cell,
    revoke: Cell,
    foreign: Cell,
    revokeOwn: Cell,
    revokeOther: Cell,
    introspectOwn: Cell,
    introspectApi: Cell,
    introspectOther: Cell,
  ]
): Readonly<Record<TokenEndpoint, Verdict>> =>
  Object.fromEntries(
    Object.keys(ENDPOINTS).map((endpoint, index) => {
      const cell = cells[index] ?? "";
      return [endpoint, /^\d+$/u.test(cell) ? `${cell} invalid_token` : cell];
    }),
  ) as Record<TokenEndpoint, Verdict>;

export const VERDICTS: Readonly<Record<TokenKind, Readonly<Record<TokenEndpoint, Verdict>>>> = {
  user: row("opens", "opens", "ends", "401", "ends", "no effect", "active", "inactive", "inactive"),
  bound: row("400", "401", "400", "401", "ends", "no effect", "active", "inactive", "inactive"),
  boundElsewhere: row("401", "401", "401", "401", "ends", "no effect", "active", "inactive", "inactive"),
  apiOpaque: row("400", "401", "400", "401", "ends", "no effect", "inactive", "active", "inactive"),
  apiJwt: row("400", "401", "400", "401", UNSUPPORTED, UNSUPPORTED, "inactive", "inactive", "inactive"),
  boundOpaque: row("401", "401", "401", "401", "ends", "no effect", "inactive", "active", "inactive"),
  boundJwt: row("401", "401", "401", "401", UNSUPPORTED, UNSUPPORTED, "inactive", "inactive", "inactive"),
  machineOpaque: row("401", "401", "401", "401", "ends", "no effect", "inactive", "active", "inactive"),
  machineJwt: row("401", "401", "401", "401", UNSUPPORTED, UNSUPPORTED, "inactive", "inactive", "inactive"),
  refresh: row("400", "401", "400", "401", "ends its family", "no effect", "active", "inactive", "inactive"),
  id: row("400", "401", "400", "401", "no effect", "no effect", "inactive", "inactive", "inactive"),
  device: row("401", "401", "401", "401", "no effect", "no effect", NO_CLIENT, "inactive", "inactive"),
};
