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

export type TokenKind = keyof typeof TOKENS;
export type TokenEndpoint = keyof typeof ENDPOINTS;

/** The kinds of tokens. Machines and devices have `error_status: standard`, the client of the others does not. */
export const TOKENS = {
  user: "Access token of a person",
  bound: "Access token of a person that is bound to a key, as `Bearer`",
  boundElsewhere: "The same as `DPoP`, with a proof of another key",
  apiOpaque: "Access token of a person for an API, opaque",
  apiJwt: "Access token of a person for an API, JWT",
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
