/**
 * What the service answers when a token is sent to an endpoint: every kind of token at every endpoint. The test beside it
 * tries all of them on both deployments, and `docs/security.md` shows the same table.
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

const INVALID = "400 invalid_token";
const INVALID_STANDARD = "401 invalid_token";
const UNSUPPORTED = "400 unsupported_token_type";

export const VERDICTS: Readonly<Record<TokenKind, Readonly<Record<TokenEndpoint, Verdict>>>> = {
  user: {
    documented: "opens",
    standard: "opens",
    revoke: "ends",
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "active",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  bound: {
    documented: INVALID,
    standard: INVALID_STANDARD,
    revoke: INVALID,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "active",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  boundElsewhere: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "active",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  apiOpaque: {
    documented: INVALID,
    standard: INVALID_STANDARD,
    revoke: INVALID,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "inactive",
    introspectApi: "active",
    introspectOther: "inactive",
  },
  apiJwt: {
    documented: INVALID,
    standard: INVALID_STANDARD,
    revoke: INVALID,
    foreign: INVALID_STANDARD,
    revokeOwn: UNSUPPORTED,
    revokeOther: UNSUPPORTED,
    introspectOwn: "inactive",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  boundOpaque: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "inactive",
    introspectApi: "active",
    introspectOther: "inactive",
  },
  boundJwt: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: UNSUPPORTED,
    revokeOther: UNSUPPORTED,
    introspectOwn: "inactive",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  machineOpaque: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends",
    revokeOther: "no effect",
    introspectOwn: "inactive",
    introspectApi: "active",
    introspectOther: "inactive",
  },
  machineJwt: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: UNSUPPORTED,
    revokeOther: UNSUPPORTED,
    introspectOwn: "inactive",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  refresh: {
    documented: INVALID,
    standard: INVALID_STANDARD,
    revoke: INVALID,
    foreign: INVALID_STANDARD,
    revokeOwn: "ends its family",
    revokeOther: "no effect",
    introspectOwn: "active",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  id: {
    documented: INVALID,
    standard: INVALID_STANDARD,
    revoke: INVALID,
    foreign: INVALID_STANDARD,
    revokeOwn: "no effect",
    revokeOther: "no effect",
    introspectOwn: "inactive",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
  device: {
    documented: INVALID_STANDARD,
    standard: INVALID_STANDARD,
    revoke: INVALID_STANDARD,
    foreign: INVALID_STANDARD,
    revokeOwn: "no effect",
    revokeOther: "no effect",
    introspectOwn: "401 invalid_client",
    introspectApi: "inactive",
    introspectOther: "inactive",
  },
};
