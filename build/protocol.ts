/** What clients see: endpoints, scopes and claims, and the codes of errors. */
import { createPersonFields, type PersonField } from "../accounts/profile-fields.ts";
import { PROBLEMS, TITLES } from "../administration/rest/problems.ts";
import { exitCodeOf } from "../cli/program/command-failure.ts";
import type { StandardAttribute } from "../config/attributes.ts";
import { type EndpointName, endpointPaths } from "../config/deployments.ts";
import { defaults } from "../config/schema.ts";
import { ERRORS, SignInError, type SignInErrorCode } from "../core/errors.ts";
import { createClaims, SIGN_IN_CLAIMS } from "../provider/claims.ts";
import { ROOT, withComments } from "./comments.ts";
import { type Page, pageWithTables, table } from "./page.ts";

/** What each endpoint is for. */
const PURPOSES: Readonly<Record<EndpointName, string>> = {
  authorize: "Starts a sign-in: `client_id`, `response_type=code`, `redirect_uri`, `state`, `scope`, `nonce`",
  token: "Exchanges a code, a refresh token, the code of a device or credentials for tokens",
  userinfo: "Basic user information: `sub`, `email`",
  userinfoAlias: "Basic user information: `sub`, `email`",
  profile: "Extended user information: also `name`, `surname`, `date_of_birth`, `gender`",
  profileAlias: "Extended user information: also `name`, `surname`, `date_of_birth`, `gender`",
  revoke: "Ends the access token in the header, or the `token` in the form (RFC 7009)",
  discovery: "Describes the deployment (OpenID Connect Discovery)",
  jwks: "The public keys of ID tokens and JWTs",
  par: "Takes authorization requests beforehand (RFC 9126)",
  introspect: "Says whether a token is active (RFC 7662); on `oauth2` once there is an API",
  standardUserinfo: "Standard user information (OpenID Connect Core 5.3)",
  device: "Codes for devices without a browser (RFC 8628)",
  logout: "Signs out (RP-Initiated Logout)",
  resume: "Goes on after the pages of a sign-in",
  interaction: "The pages of a sign-in, as HTML and as JSON",
  confirm: "Opens the links in mail",
  providerCallback: "Where another provider sends people back to",
  clientLogo: "The logo of a client",
  pageScript: "The script of the pages",
  account: "The account pages",
  logoutConfirm: "The form of the page that asks whether to sign out",
  logoutSuccess: "The page after signing out",
};

/** What browsers visit. The others are for clients. */
const FOR_BROWSERS: ReadonlySet<EndpointName> = new Set([
  "resume",
  "interaction",
  "confirm",
  "providerCallback",
  "clientLogo",
  "pageScript",
  "account",
  "logoutConfirm",
  "logoutSuccess",
]);

const KINDS = ["oauth2", "openid"] as const;

/** Where people type the address, the page has one of its own. */
const DEVICE_PAGE = "/device";

function endpointTable(isShown: (name: EndpointName) => boolean): string {
  const all = KINDS.flatMap((kind) =>
    endpointPaths[kind]
      .filter(({ name }) => isShown(name))
      .map(({ name, methods, path, below }) => ({
        kind,
        methods: methods.filter((each) => each !== "OPTIONS").join(", "),
        path: path.replace(/:.*$/u, "…") + (below && !path.includes(":") ? "/…" : ""),
        purpose: path === DEVICE_PAGE ? "The page for the code of a device" : PURPOSES[name],
      })),
  );
  const rows = Map.groupBy(all, ({ methods, path }) => `${methods} ${path}`);
  return table(
    ["Method", "Path", "Deployment", "Purpose"],
    [...rows.values()].map((same) => {
      const { methods, path, purpose } = same[0]!;
      const kinds = [...new Set(same.map(({ kind }) => kind))];
      return [methods, `\`${path}\``, kinds.length > 1 ? "both" : `\`${kinds.join()}\``, purpose];
    }),
  );
}

export const endpointsPage: Page = pageWithTables("docs/reference/endpoints.md", () => ({
  endpoints: endpointTable((name) => !FOR_BROWSERS.has(name)),
  "addresses of pages": endpointTable((name) => FOR_BROWSERS.has(name)),
}));

/** What the claims mean that no field of the person has. */
const CLAIMS: Readonly<Record<string, string>> = {
  sub: "Identifier of the account, a UUID; never changes",
  email: "E-mail address",
  email_verified: "Whether the address is confirmed to be the person's",
  name: "Given name and family name",
  phone_number_verified:
    "Whether the number is confirmed: `false`, unless an operator or an import says otherwise",
  updated_at: "When the profile last changed, in seconds since the epoch",
  roles: "The names of the person's roles in the service of the client",
  acr: "How strong the sign-in was: `urn:sign-in-service:acr:…`",
  amr: "What was shown in the sign-in (RFC 8176)",
  auth_time: "When the person signed in, in seconds since the epoch",
  iss: "The issuer: the base URL of the deployment",
  sid: "Identifier of the session, for clients with a `backchannel_logout_uri`",
};

const ATTRIBUTES = {
  phone_number: true,
  address: true,
  nickname: true,
  website: true,
  zoneinfo: true,
} as const satisfies Record<StandardAttribute, true>;

const codes = (list: readonly string[]): string => list.map((each) => `\`${each}\``).join(", ");

export const claimsPage: Page = pageWithTables("docs/reference/claims.md", () => {
  const fields = createPersonFields({ ...defaults, accounts: { attributes: ATTRIBUTES } });
  const claims = createClaims(fields);
  const plain = createClaims(createPersonFields(defaults));
  const names = [...fields.ofClaim].map(([claim, { name }]) => [claim, name as PersonField] as const);
  const comments = withComments(ROOT, (commentsOf) =>
    commentsOf(
      { file: "accounts/profile-fields.ts", name: "PERSON_FIELDS" },
      names.map(([, name]) => [name]),
    ),
  );
  const meaning = new Map([
    ...names.map(([claim, name]) => [claim, comments.get(name)?.description ?? ""] as const),
    ...Object.entries(CLAIMS),
  ]);
  const everywhere = (scope: string): boolean => claims.effectiveScope(scope, "oauth2") === scope;
  const all = new Set([...[...claims.ofScope.values()].flat(), ...SIGN_IN_CLAIMS]);
  return {
    scopes: table(
      ["Scope", "Deployment", "Claims"],
      [...claims.ofScope].map(([scope, has]) => [
        `\`${scope}\``,
        everywhere(scope) ? "both" : "`openid`",
        codes(has),
      ]),
    ),
    claims: table(
      ["Claim", "Scope", "Meaning"],
      [...all].map((claim) => {
        const scopes = [...claims.ofScope].filter(([, has]) => has.includes(claim)).map(([scope]) => scope);
        const isAttribute =
          CLAIMS[claim] === undefined &&
          ![...plain.ofScope.values()].flat().includes(claim) &&
          scopes.length > 0;
        const means = isAttribute ? `The attribute \`${claim}\`, if it is switched on` : meaning.get(claim);
        if (means === undefined) throw new Error(`${claim}: nothing says what it means`);
        return [`\`${claim}\``, codes(scopes), means];
      }),
    ),
  };
});

const isOfLibrary = (code: string): code is SignInErrorCode => Object.hasOwn(ERRORS, code);

export const errorsPage: Page = pageWithTables("docs/reference/errors.md", () => ({
  codes: table(
    ["Code", "Means", "Status", "Exit code"],
    Object.entries(PROBLEMS).map(([code, status]) => [
      `\`${code}\``,
      TITLES[code as keyof typeof TITLES],
      String(status),
      isOfLibrary(code) ? String(exitCodeOf(new SignInError(code, ""))) : "only over HTTP",
    ]),
  ),
}));
