/** Turns the settings of a client into members of its record. */
import type { ClientRecord, StoredLogo } from "../../records/directory/directory.ts";
import { DEFAULT_KIND } from "./client-kinds.ts";
import { storedLogo, type ClientChanges, type IdentifiedClient } from "./client-schema.ts";

/** The record with the given settings. Of the two names of the password grant, `password_grant` wins. */
export function withSettings(before: ClientRecord, changes: ClientChanges): ClientRecord {
  const grants = changes.grant_types ?? before.grant_types;
  const others = grants.filter((grant) => grant !== "password");
  const password = changes.password_grant ?? grants.includes("password");
  const { rotate, reuseWindow, sliding, maxAge } = changes.refresh_tokens ?? before.refresh_tokens;
  const {
    client_uri: _home,
    policy_uri: _policy,
    tos_uri: _terms,
    logo: _logo,
    native: _native,
    origins: _origins,
    apis: _apis,
    second_factor: _required,
    ...rest
  } = before;
  const native = changes.native ?? before.native ?? false;
  const origins = changes.origins === undefined ? before.origins : changes.origins;
  const apis = changes.apis ?? before.apis ?? {};
  const { first_party = before.first_party, second_factor = before.second_factor } = changes;
  const record: ClientRecord = {
    ...rest,
    ...(second_factor === "required" && { second_factor }),
    ...(native && { native }),
    ...(origins && { origins }),
    ...(changes.jwks !== undefined && { jwks: changes.jwks, secrets: [] }),
    name: changes.name ?? before.name,
    service: changes.service ?? before.service,
    redirect_uris: changes.redirect_uris ?? before.redirect_uris,
    post_logout_redirect_uris: changes.post_logout_redirect_uris ?? before.post_logout_redirect_uris,
    backchannel_logout_uri:
      changes.backchannel_logout_uri === undefined
        ? before.backchannel_logout_uri
        : changes.backchannel_logout_uri,
    grant_types: password ? [...others, "password"] : others,
    first_party,
    refresh_tokens: {
      ...(rotate === undefined ? {} : { rotate }),
      ...(reuseWindow === undefined ? {} : { reuseWindow }),
      ...(sliding === undefined ? {} : { sliding }),
      ...(maxAge === undefined ? {} : { maxAge }),
    },
    error_status: changes.error_status ?? before.error_status,
    ...(Object.keys(apis).length > 0 && { apis }),
    ...lookOf(before, changes),
  };
  if (record.grant_types.length === 0) throw new TypeError("grant_types: must not be empty");
  if (password && (!first_party || second_factor === "required")) {
    const which = first_party ? "a client with second_factor required" : "a third-party client";
    throw new TypeError(`password_grant: ${which} can't have the password grant`);
  }
  return record;
}

/** The members of the record for the look of a client, without those that are not set. */
function lookOf(
  before: ClientRecord,
  changes: ClientChanges,
): Pick<ClientRecord, "client_uri" | "policy_uri" | "tos_uri" | "logo"> {
  const logo = logoOf(before.client_id, changes);
  const after = {
    client_uri: changes.client_uri === undefined ? before.client_uri : changes.client_uri,
    policy_uri: changes.policy_uri === undefined ? before.policy_uri : changes.policy_uri,
    tos_uri: changes.tos_uri === undefined ? before.tos_uri : changes.tos_uri,
    logo: logo === undefined ? before.logo : logo && { type: logo.type, sha256: logo.sha256 },
  };
  return Object.fromEntries(
    Object.entries(after).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** The logo to store; `null`: none; `undefined`: the same as before. */
export function logoOf(
  client_id: string,
  { logo }: Pick<ClientChanges, "logo">,
): StoredLogo | null | undefined {
  return logo === undefined || logo === null ? logo : storedLogo(client_id, logo);
}

/** What a seed sets of a client that exists: what it names, but for credentials, which may have been rotated. */
export function seededChanges({
  kind: _kind,
  id_token_signed_response_alg: _algorithm,
  client_secret: _secret,
  jwks: _keys,
  client_id: _id,
  ...settings
}: IdentifiedClient): ClientChanges {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

/** @throws TypeError when a seed names another kind or algorithm than the client has. */
export function refuseFixed(
  { kind, id_token_signed_response_alg: registered = "RS256" }: ClientRecord,
  seeded: IdentifiedClient,
): void {
  const { kind: named = DEFAULT_KIND, id_token_signed_response_alg: algorithm = registered } = seeded;
  if (named !== kind)
    throw new TypeError(`client.kind: the client is registered as ${kind}, and that can't be changed`);
  if (algorithm !== registered)
    throw new TypeError(
      `client.id_token_signed_response_alg: the client is registered with ${registered}, and that can't be changed`,
    );
}

/** Members that are not settings. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(["created_at", "updated_at", "tokens_epoch"]);

/** The names of the settings that differ. */
export function changedMembers(before: ClientRecord, after: ClientRecord): string[] {
  const members = Object.keys({ ...before, ...after }) as (keyof ClientRecord)[];
  return members
    .filter((member) => !OWN_MEMBERS.has(member))
    .filter((member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]))
    .map((member) => (member === "secrets" ? "client_secret" : member));
}
