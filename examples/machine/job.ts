/**
 * A job that calls an API for itself.
 *
 *     CLIENT_ID=… CLIENT_SECRET=… npx node examples/machine/job.ts ISSUER RESOURCE ADDRESS
 */
import * as oidc from "openid-client";

const [, , issuer = "", resource = "", address = ""] = process.argv;
const { CLIENT_ID = "", CLIENT_SECRET = "" } = process.env;
if (address === "" || CLIENT_ID === "") throw new TypeError("Usage: job.ts ISSUER RESOURCE ADDRESS");

// Only a service on your own machine may use http.
const execute = ["localhost", "127.0.0.1"].includes(new URL(issuer).hostname)
  ? [oidc.allowInsecureRequests]
  : [];
const authentication = oidc.ClientSecretBasic(CLIENT_SECRET);
const provider = await oidc.discovery(new URL(issuer), CLIENT_ID, undefined, authentication, { execute });

/** Calls the API with a new token. A job that calls often keeps the token until shortly before it expires. */
async function call(): Promise<Response> {
  const { access_token } = await oidc.clientCredentialsGrant(provider, { resource, scope: "articles:read" });
  return oidc.fetchProtectedResource(provider, access_token, new URL(address), "GET");
}

try {
  const response = await call();
  console.log(response.status, await response.text());
} catch (error) {
  // The challenge of the API, or of the service, says why.
  if (error instanceof oidc.WWWAuthenticateChallengeError) {
    const [challenge] = error.cause;
    console.error(`Refused: ${error.status} ${challenge?.parameters.error ?? ""}`);
  } else if (error instanceof oidc.ResponseBodyError) {
    console.error(`Refused: ${error.status} ${error.error}`);
  } else throw error;
  process.exitCode = 1;
}
