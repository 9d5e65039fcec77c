/** Sign-in with OAuth 2.0, written by hand, and with OpenID Connect, using openid-client. */
import { randomBytes } from "node:crypto";
import * as openid from "openid-client";
import {
  type Call,
  CallFailed,
  type Claims,
  type Credentials,
  type DocumentedCalls,
  documentedCalls,
  endpointsOf,
  type Tokens,
} from "./documented-calls.ts";
import type { Deployment, Pending } from "./sessions.ts";

/** What the client needs to know. */
export interface ClientSettings extends Credentials {
  /** URL of the client. */
  readonly url: string;
  /** Base URL of the OAuth 2.0 deployment. */
  readonly oauth2: string;
  /** Base URL of the OpenID Connect deployment: the issuer. */
  readonly openid: string;
}

/** There is no sign-in with this authorization response. The message is for people. */
export class InvalidResponse extends Error {}

/** A started sign-in: where to redirect the browser, and what to remember until it returns. */
interface Begun {
  readonly location: string;
  readonly pending: Pending;
}

/** The result of a sign-in. */
interface Exchanged {
  readonly tokens: Tokens;
  readonly claims?: Claims;
}

/** Sign-in with one protocol. */
export interface SignIn {
  readonly calls: DocumentedCalls;
  begin(): Promise<Begun>;
  /**
   * Checks the response at the redirect URI and exchanges its code.
   * @param query Query string of the response, with the question mark.
   * @param pending What was remembered for its `state`.
   * @throws InvalidResponse if the person refused, or the response doesn't belong to this sign-in.
   */
  finish(query: string, pending: Pending, calls: Call[]): Promise<Exchanged>;
  /** The URL that signs out of the service, or `undefined` if the deployment has none. */
  signOutAddress(idToken: string | undefined): Promise<string | undefined>;
}

/** The registered redirect URI for a deployment. */
export function redirectUri({ url }: Pick<ClientSettings, "url">, deployment: Deployment): string {
  return deployment === "oauth2" ? `${url}/callback` : `${url}/callback/openid`;
}

const random = (): string => randomBytes(32).toString("base64url");

/** @param error of RFC 6749, section 4.1.2.1. */
function refusal(error: string): InvalidResponse {
  return new InvalidResponse(
    error === "access_denied"
      ? "You did not allow it, or went back."
      : `The sign-in service did not sign you in (${error}).`,
  );
}

/** OAuth 2.0 on the documented paths. */
export function oauth2SignIn(settings: ClientSettings): SignIn {
  const endpoints = endpointsOf("oauth2", settings.oauth2);
  const calls = documentedCalls(endpoints, settings);
  const redirect_uri = redirectUri(settings, "oauth2");
  return {
    calls,
    async begin() {
      const state = random();
      const { client_id } = settings;
      const query = new URLSearchParams({ client_id, response_type: "code", redirect_uri, state });
      return {
        location: `${endpoints.authorize}?${query.toString()}`,
        pending: { deployment: "oauth2", state },
      };
    },
    async finish(query, _pending, made) {
      const answer = new URLSearchParams(query);
      const code = answer.get("code");
      if (code === null) throw refusal(answer.get("error") ?? "no code");
      return { tokens: await calls.tokens({ grant_type: "authorization_code", code, redirect_uri }, made) };
    },
    signOutAddress: () => Promise.resolve(undefined),
  };
}

/** Claims that can be shown in a table. */
function shown(claims: Readonly<Record<string, unknown>> = {}): Claims {
  return Object.fromEntries(
    Object.entries(claims).filter(
      (entry): entry is [string, string | number] =>
        typeof entry[1] === "string" || typeof entry[1] === "number",
    ),
  );
}

/** What openid-client throws, as this client does. */
function inOurWords(error: unknown): unknown {
  if (error instanceof openid.AuthorizationResponseError) return refusal(error.error);
  if (error instanceof openid.ResponseBodyError) return new CallFailed(error.status, error.error);
  // An issuer, a nonce or a signature that is not the expected one.
  const isWrong = error instanceof openid.ClientError && /^OAUTH_(?:INVALID|JWT)/.test(error.code ?? "");
  return isWrong ? new InvalidResponse(`The answer is not for this sign-in: ${error.message}.`) : error;
}

/** An attribute of the demo. A service without it ignores the request. */
const DEPARTMENT = JSON.stringify({ id_token: { department: null } });

/** OpenID Connect. openid-client discovers everything from the issuer URL. */
export function openidSignIn(settings: ClientSettings): SignIn {
  const { client_id, client_secret } = settings;
  const redirect_uri = redirectUri(settings, "openid");
  let discovered: Promise<openid.Configuration> | undefined;

  function discover(): Promise<openid.Configuration> {
    const authentication = openid.ClientSecretBasic(client_secret);
    // Allow plain http only on loopback, for the demo.
    const execute = /^http:\/\/(?:127\.|localhost:)/.test(settings.openid)
      ? [openid.allowInsecureRequests]
      : [];
    discovered ??= openid
      .discovery(new URL(settings.openid), client_id, undefined, authentication, { execute })
      .catch((error: unknown) => {
        discovered = undefined;
        throw error;
      });
    return discovered;
  }

  return {
    calls: documentedCalls(endpointsOf("openid", settings.openid), settings),
    async begin() {
      const [state, nonce, verifier] = [random(), random(), openid.randomPKCECodeVerifier()];
      const location = openid.buildAuthorizationUrl(await discover(), {
        redirect_uri,
        scope: "openid",
        claims: DEPARTMENT,
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
      });
      return { location: location.href, pending: { deployment: "openid", state, nonce, verifier } };
    },
    async finish(query, { state, nonce, verifier }, made) {
      const configuration = await discover();
      const checks = {
        expectedState: state,
        ...(nonce !== undefined && { expectedNonce: nonce }),
        ...(verifier !== undefined && { pkceCodeVerifier: verifier }),
        idTokenExpected: true,
      };
      const answer = await openid
        .authorizationCodeGrant(configuration, new URL(redirect_uri + query), checks)
        .catch((error: unknown) => {
          throw inOurWords(error);
        });
      made.push({ method: "POST", url: configuration.serverMetadata().token_endpoint ?? "", status: 200 });
      const { access_token, refresh_token = "", expires_in = 0, id_token = "" } = answer;
      return {
        tokens: { access_token, refresh_token, expires_in, id_token },
        claims: shown(answer.claims()),
      };
    },
    async signOutAddress(idToken = "") {
      const address = openid.buildEndSessionUrl(await discover(), {
        id_token_hint: idToken,
        post_logout_redirect_uri: `${settings.url}/`,
      });
      return address.href;
    },
  };
}
