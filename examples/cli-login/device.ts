/**
 * A program without a browser, such as one on a server or a television: it shows a code, and waits until a person has connected it
 * (RFC 8628).
 *
 *     npx node examples/cli-login/device.ts http://localhost:3000/openid television
 */
import * as oidc from "openid-client";

const [, , issuer = "", clientId = ""] = process.argv;
if (issuer === "" || clientId === "") throw new TypeError("Usage: device.ts ISSUER CLIENT_ID");

// Only a service on your own machine may use http.
const execute = ["localhost", "127.0.0.1"].includes(new URL(issuer).hostname)
  ? [oidc.allowInsecureRequests]
  : [];
const provider = await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), { execute });

const codes = await oidc.initiateDeviceAuthorization(provider, { scope: "openid email" });
console.log(`Open ${codes.verification_uri} and enter the code ${codes.user_code}`);

try {
  // Polls at the interval that the service asks for, also when it asks to slow down.
  const tokens = await oidc.pollDeviceAuthorizationGrant(provider, codes);
  const { email } = await oidc.fetchUserInfo(provider, tokens.access_token, tokens.claims()?.sub ?? "");
  console.log(`Signed in as ${email}`);
} catch (error) {
  if (!(error instanceof oidc.ResponseBodyError)) throw error;
  // `access_denied`: the person refused. `expired_token`: nobody came.
  console.error(`Not signed in: ${error.error}`);
  process.exitCode = 1;
}
