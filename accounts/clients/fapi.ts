/**
 * What the FAPI 2.0 Security Profile (Final, February 2025) asks of clients with `profile: "fapi2"` and of their requests, with the
 * section beside each rule: 5.3.1 General, 5.3.2.1 General requirements of authorization servers, 5.3.2.2 Authorization code flow,
 * 5.4.1 General requirements of cryptography and secrets. Loaded with the first of these clients.
 *
 * What holds for every client has no rule here: metadata, `private_key_jwt` without a fetch, one use of a code, no redirect with 307
 * and `iss` in each answer (5.3.2.1, 5.3.2.2). Codes live 60 seconds at most: see `timesToLive` of `provider/provider.ts`.
 */
import type { ClientRecord, IdTokenAlgorithm } from "../../records/directory/directory.ts";
import type { ClientChanges } from "./client-schema.ts";
import { type KindOfClient, problem, type SettingProblem } from "./client-kinds.ts";

/** Of ID tokens, JWTs for APIs and assertions (section 5.4.1). `EdDSA` is Ed25519. */
export const SIGNATURES = ["PS256", "ES256", "EdDSA"] as const satisfies readonly IdTokenAlgorithm[];

/** @param alg of a token, an assertion or a key; `Ed25519` is the newer name of the same algorithm (RFC 9864). */
const isSignature = (alg: unknown): boolean => alg === "Ed25519" || SIGNATURES.some((each) => each === alg);

/** The settings of a new client that names none. @param algorithms with which the service signs. */
export function fapiDefaults({ people }: KindOfClient, algorithms: readonly unknown[]): ClientChanges {
  const common = { dpop: "required", error_status: "standard" } as const;
  const alg = SIGNATURES.find((each) => algorithms.includes(each));
  if (!people) return common;
  return {
    ...common,
    refresh_tokens: { rotate: false },
    ...(alg && { id_token_signed_response_alg: alg }),
  };
}

interface SettingRule {
  readonly section: string;
  /** What is wrong with the settings of a client. */
  readonly wrong: (client: ClientRecord, kind: KindOfClient) => readonly SettingProblem[];
}

const when = (isWrong: boolean, path: SettingProblem["path"], message: string): readonly SettingProblem[] =>
  isWrong ? [problem(path, message)] : [];

const SETTING_RULES: readonly SettingRule[] = [
  {
    section: "5.3.2.1: confidential clients, authenticated by private_key_jwt",
    wrong: ({ jwks, secrets }) =>
      when(jwks === undefined || secrets.length > 0, ["jwks"], "is required in place of a secret"),
  },
  {
    section: "5.4.1: PS256, ES256 or EdDSA; RSA keys have at least 2,048 bits, as those of every client",
    wrong: ({ jwks }) =>
      (jwks?.keys ?? []).flatMap(({ alg }, index) =>
        when(
          alg !== undefined && !isSignature(alg),
          ["jwks", "keys", index, "alg"],
          `must be ${SIGNATURES.join(", ")}`,
        ),
      ),
  },
  {
    section: "5.4.1: the algorithm of ID tokens",
    wrong: ({ id_token_signed_response_alg: alg }, { people }) =>
      when(people && !isSignature(alg), ["id_token_signed_response_alg"], `must be ${SIGNATURES.join(", ")}`),
  },
  {
    section: "5.3.2.1: tokens are bound to a key, by DPoP",
    wrong: ({ dpop }) => when(dpop !== "required", ["dpop"], "must be required"),
  },
  {
    section: "5.3.2.1: no password grant",
    wrong: ({ grant_types }) =>
      when(grant_types.includes("password"), ["grant_types"], "must not have password"),
  },
  {
    section: "5.3.2.1: refresh tokens don't rotate",
    wrong: ({ refresh_tokens: { rotate } }, { people }) =>
      when(people && rotate !== false, ["refresh_tokens", "rotate"], "must be false"),
  },
  {
    section: "5.3.2.2: answers travel over TLS only",
    wrong: ({ redirect_uris }) =>
      redirect_uris.flatMap((address, index) =>
        when(!address.startsWith("https://"), ["redirect_uris", index], "must be https"),
      ),
  },
  {
    section: "5.3.1: the statuses of RFC 6749, RFC 6750 and RFC 9449",
    wrong: ({ error_status }) => when(error_status !== "standard", ["error_status"], "must be standard"),
  },
];

/** What is wrong with a client of the profile. @param algorithms with which the service signs; left out: they were checked. */
export function fapiProblems(
  client: ClientRecord,
  kind: KindOfClient,
  algorithms: readonly unknown[] = SIGNATURES,
): SettingProblem[] {
  const message = `needs a signing key of the service for ${SIGNATURES.join(", ")}`;
  if (!algorithms.some(isSignature)) return [problem(["profile"], message)];
  return SETTING_RULES.flatMap(({ wrong }) => wrong(client, kind));
}

/** Where a request of the client is. */
export type FapiPlace = "authorization" | "pushed" | "credentials" | "token";

/** A request of the client. */
export interface FapiRequest {
  readonly deployment: "oauth2" | "openid";
  readonly parameter: (name: string) => string | undefined;
}

interface RequestRule {
  readonly section: string;
  readonly at: readonly FapiPlace[];
  readonly error: "invalid_client" | "invalid_request";
  readonly message: string;
  readonly isWrong: (request: FapiRequest) => boolean;
}

const REQUEST_RULES: readonly RequestRule[] = [
  {
    section: "5.3.2.1: the issuer is the audience of assertions, and the oauth2 deployment has none",
    at: ["authorization", "credentials", "token"],
    error: "invalid_client",
    message: "this client is known at the openid deployment only",
    isWrong: ({ deployment }) => deployment === "oauth2",
  },
  {
    section: "5.3.2.2: requests that were not pushed are refused",
    at: ["authorization"],
    error: "invalid_request",
    message: "the request must be pushed",
    isWrong: ({ parameter }) => parameter("request_uri") === undefined,
  },
  {
    section: "5.3.2.2: the authorization code flow",
    at: ["pushed"],
    error: "invalid_request",
    message: "response_type must be code",
    isWrong: ({ parameter }) => parameter("response_type") !== "code",
  },
  {
    section: "5.3.2.2: PKCE with S256",
    at: ["pushed"],
    error: "invalid_request",
    message: "code_challenge is missing, or its method is not S256",
    isWrong: ({ parameter }) => !parameter("code_challenge") || parameter("code_challenge_method") !== "S256",
  },
  {
    section: "5.3.2.2: redirect_uri is in the pushed request",
    at: ["pushed"],
    error: "invalid_request",
    message: "redirect_uri is missing",
    isWrong: ({ parameter }) => !parameter("redirect_uri"),
  },
];

/** The first rule that a request breaks. */
export function brokenRule(
  place: FapiPlace,
  request: FapiRequest,
): Pick<RequestRule, "error" | "message"> | undefined {
  return REQUEST_RULES.find(({ at, isWrong }) => at.includes(place) && isWrong(request));
}

/**
 * What is wrong with an assertion: its algorithm (section 5.4.1), or its audience, which is the issuer as one text (section
 * 5.3.2.1).
 */
export function assertionProblem(alg: unknown, aud: unknown, issuer: string): "key" | "audience" | undefined {
  if (!isSignature(alg)) return "key";
  return aud === issuer ? undefined : "audience";
}
