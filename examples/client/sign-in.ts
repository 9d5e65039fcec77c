/** The two ways to sign in: OAuth 2.0 by hand, OpenID Connect with openid-client. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import * as openid from "openid-client";
import {
  type Call,
  type Claims,
  type Credentials,
  type DocumentedCalls,
  documentedCalls,
  endpointsOf,
  type Tokens,
} from "./documented-calls.ts";
import type { Deployment, Pending } from "./sessions.ts";

/** What a client has to know. */
export interface ClientSettings extends Credentials {
  /** Where the client itself is. */
  readonly url: string;
  /** Base URL of the OAuth 2.0 deployment. */
  readonly oauth2: string;
  /** Base URL of the OpenID Connect deployment: the issuer. */
  readonly openid: string;
}

/** The answer to an authorization request was not one to ours. */
export class WrongAnswer extends Error {}

/** A begun sign-in: where to send the browser, and what to remember meanwhile. */
export interface Begun {
  readonly location: string;
  readonly pending: Pending;
}

/** What comes of the answer. */
export interface Exchanged {
  readonly tokens: Tokens;
  readonly claims?: Claims;
}

/** One way to sign in. */
export interface SignIn {
  readonly calls: DocumentedCalls;
  begin(): Promise<Begun>;
  /**
   * Checks the answer that came to the redirect address and exchanges its code.
   * @param query of the answer, with the question mark.
   * @throws WrongAnswer when it does not belong to this sign-in.
   */
  finish(query: string, pending: Pending, calls: Call[]): Promise<Exchanged>;
  /** Where the browser signs out of the service itself; `undefined` when the deployment has no such address. */
  signOutAddress(idToken: string | undefined): Promise<string | undefined>;
}

/** The redirect address of a deployment, as it is registered. */
export function redirectAddress({ url }: Pick<ClientSettings, "url">, deployment: Deployment): string {
  return deployment === "oauth2" ? `${url}/callback` : `${url}/callback/openid`;
}

const random = (): string => randomBytes(32).toString("base64url");

function isSame(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** OAuth 2.0 on the documented paths. */
export function oauth2SignIn(settings: ClientSettings): SignIn {
  const endpoints = endpointsOf("oauth2", settings.oauth2);
  const calls = documentedCalls(endpoints, settings);
  const redirect_uri = redirectAddress(settings, "oauth2");
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
    async finish(query, pending, made) {
      const answer = new URLSearchParams(query);
      // The state comes first: nothing else in an answer that is not ours is believed.
      if (!isSame(answer.get("state") ?? "", pending.state)) throw new WrongAnswer("state");
      const code = answer.get("code");
      if (code === null) throw new WrongAnswer(answer.get("error") ?? "no code");
      return { tokens: await calls.tokens({ grant_type: "authorization_code", code, redirect_uri }, made) };
    },
    signOutAddress: () => Promise.resolve(undefined),
  };
}

/** The claims that fit into a table. */
function shown(claims: Readonly<Record<string, unknown>> = {}): Claims {
  return Object.fromEntries(
    Object.entries(claims).filter(
      (entry): entry is [string, string | number] =>
        typeof entry[1] === "string" || typeof entry[1] === "number",
    ),
  );
}

/** OpenID Connect with nothing but the issuer's address: openid-client finds the rest. */
export function openidSignIn(settings: ClientSettings): SignIn {
  const { client_id, client_secret } = settings;
  const redirect_uri = redirectAddress(settings, "openid");
  let discovered: Promise<openid.Configuration> | undefined;

  function discover(): Promise<openid.Configuration> {
    const authentication = openid.ClientSecretBasic(client_secret);
    // Plain http is for the demo, which stays on this machine.
    const execute = settings.openid.startsWith("http://127.") ? [openid.allowInsecureRequests] : [];
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
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
      });
      return { location: location.href, pending: { deployment: "openid", state, nonce, verifier } };
    },
    async finish(query, { state, nonce, verifier }, made) {
      const configuration = await discover();
      const answer = await openid.authorizationCodeGrant(configuration, new URL(redirect_uri + query), {
        expectedState: state,
        ...(nonce !== undefined && { expectedNonce: nonce }),
        ...(verifier !== undefined && { pkceCodeVerifier: verifier }),
        idTokenExpected: true,
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
