/**
 * A command-line program that signs a person in with the browser of the system (RFC 8252). The answer comes to a port on this machine.
 *
 *     npx node examples/cli-login/loopback.ts http://localhost:3000/openid program
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import * as oidc from "openid-client";

const [, , issuer = "", clientId = ""] = process.argv;
if (issuer === "" || clientId === "") throw new TypeError("Usage: loopback.ts ISSUER CLIENT_ID");

// Only a service on your own machine may use http.
const execute = ["localhost", "127.0.0.1"].includes(new URL(issuer).hostname)
  ? [oidc.allowInsecureRequests]
  : [];
const provider = await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), { execute });

// Any free port: the service ignores the port of a loopback address.
const server = createServer().listen(0, "127.0.0.1");
await once(server, "listening");
const redirect_uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;

// The verifier never leaves this process: a program that steals the code can't use it.
const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
const expectedState = oidc.randomState();
const location = oidc.buildAuthorizationUrl(provider, {
  redirect_uri,
  scope: "openid email",
  state: expectedState,
  code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
  code_challenge_method: "S256",
});
console.log(`Open this address in your browser:\n${location.href}`);

/** What the browser shows at the end. It asks for no icon. */
const PAGE = `<!doctype html><link rel="icon" href="data:,"><p>Done. You can close this page and return to the program.</p>`;

/** Waits for the request that answers this sign-in. Every other request gets a 404. */
async function answer(): Promise<URL> {
  for (;;) {
    const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const url = new URL(request.url ?? "", redirect_uri);
    const isOurs = url.pathname === "/callback" && url.searchParams.get("state") === expectedState;
    response.writeHead(isOurs ? 200 : 404, { "content-type": "text/html; charset=utf-8" });
    response.end(isOurs ? PAGE : "Not found.");
    if (isOurs) return url;
  }
}

try {
  const tokens = await oidc.authorizationCodeGrant(provider, await answer(), {
    pkceCodeVerifier,
    expectedState,
  });
  const sub = tokens.claims()?.sub ?? "";
  const { email } = await oidc.fetchUserInfo(provider, tokens.access_token, sub);
  console.log(`Signed in as ${email}`);
  // Keep tokens.refresh_token in the key store of the system, and replace it at each use.
} catch (error) {
  if (!(error instanceof oidc.AuthorizationResponseError)) throw error;
  console.error(`Not signed in: ${error.error}`);
  process.exitCode = 1;
} finally {
  server.close();
  server.closeAllConnections();
}
