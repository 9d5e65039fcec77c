/** A single-page application: it signs people in with the code flow and PKCE, and keeps no secret. */
import * as oauth from "oauth4webapi";

const { issuer, clientId } = document.body.dataset;
const client = { client_id: clientId };
const clientAuth = oauth.None();
const redirectUri = `${location.origin}/`;
// Only a service on your own machine may use http.
const options = {
  [oauth.allowInsecureRequests]: ["localhost", "127.0.0.1"].includes(new URL(issuer).hostname),
};

const server = await oauth
  .discoveryRequest(new URL(issuer), options)
  .then((response) => oauth.processDiscoveryResponse(new URL(issuer), response));

// All tabs share the tokens. A script that an attacker injects into this page can read them, so prevent that: set a
// Content-Security-Policy, and load no scripts from elsewhere.
const stored = () => JSON.parse(localStorage.getItem("tokens") ?? "null");
const store = (tokens) => localStorage.setItem("tokens", JSON.stringify({ ...stored(), ...tokens }));

const atOf = (key) => JSON.parse(localStorage.getItem(key)).at;
/**
 * Sign-ins that have not come back yet, the oldest first. Each is an entry of its own: several tabs may sign in at once, and
 * one that began in this tab may come back in another, through a link in a mail.
 */
const begun = () => {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith("sign-in "));
  return keys.toSorted((one, other) => atOf(one) - atOf(other));
};

async function signIn() {
  const verifier = oauth.generateRandomCodeVerifier();
  const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()];
  for (const key of begun().slice(0, -4)) localStorage.removeItem(key);
  localStorage.setItem(`sign-in ${state}`, JSON.stringify({ verifier, nonce, at: Date.now() }));
  const url = new URL(server.authorization_endpoint);
  url.search = new URLSearchParams({
    client_id: clientId,
    response_type: "code",
    redirect_uri: redirectUri,
    scope: "openid email",
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  location.assign(url);
}

/** The browser has come back with a code, or with an error. */
async function finish() {
  const url = new URL(location.href);
  // The code must not stay in the address.
  history.replaceState(null, "", "/");
  const state = url.searchParams.get("state") ?? "";
  const pending = localStorage.getItem(`sign-in ${state}`);
  // An answer counts once, and nobody else can make this browser take theirs.
  localStorage.removeItem(`sign-in ${state}`);
  if (pending === null) throw new Error("this sign-in has ended");
  const { verifier, nonce } = JSON.parse(pending);
  const parameters = oauth.validateAuthResponse(server, client, url, state);
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    clientAuth,
    parameters,
    redirectUri,
    verifier,
    options,
  );
  store(
    await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: nonce,
      requireIdToken: true,
    }),
  );
}

/** Each refresh returns a new refresh token. Tabs that refresh at once all get the same answer. */
async function refresh() {
  const { refresh_token } = stored();
  const response = await oauth.refreshTokenGrantRequest(server, client, clientAuth, refresh_token, options);
  store(await oauth.processRefreshTokenResponse(server, client, response));
}

async function email() {
  const { access_token, id_token } = stored();
  // The ID token was validated when it came from the token endpoint.
  const { sub } = JSON.parse(atob(id_token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  const response = await oauth.userInfoRequest(server, client, access_token, options);
  return (await oauth.processUserInfoResponse(server, client, sub, response)).email;
}

function signOut() {
  const url = new URL(server.end_session_endpoint);
  url.search = new URLSearchParams({
    id_token_hint: stored().id_token,
    post_logout_redirect_uri: redirectUri,
  });
  localStorage.removeItem("tokens");
  location.assign(url);
}

async function show(text) {
  const isSignedIn = stored() !== null;
  const status = text ?? (isSignedIn ? `Signed in as ${await email()}` : "Not signed in");
  for (const [id, visible] of [
    ["sign-in", !isSignedIn],
    ["refresh", isSignedIn],
    ["sign-out", isSignedIn],
  ])
    document.getElementById(id).hidden = !visible;
  document.getElementById("status").textContent = status;
}

const failed = (error) => show(`Not signed in: ${error.error ?? error.message}`);

/** Signs the person out if the work fails, and shows the error. */
async function attempt(work) {
  try {
    await work();
    await show();
  } catch (error) {
    localStorage.removeItem("tokens");
    await failed(error);
  }
}

const on = (id, work) => document.getElementById(id).addEventListener("click", work);
on("sign-in", () => void signIn());
on("refresh", () => void attempt(refresh));
on("sign-out", signOut);
const query = new URLSearchParams(location.search);
let problem;
try {
  if (query.has("code") || query.has("error")) await finish();
} catch (error) {
  problem = error;
}
// An answer that fails, such as somebody else's, doesn't sign out who is signed in.
await (problem !== undefined && stored() === null ? failed(problem) : attempt(async () => undefined));
