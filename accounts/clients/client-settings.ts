/** Turns the settings of a client into members of its record. */
import { isDeepStrictEqual } from "node:util";
import type { ClientKind, ClientRecord, StoredLogo } from "../../records/directory/directory.ts";
import { InvalidArgument, NotApplicable } from "../../core/errors.ts";
import { type Setting, type SettingName, SETTINGS, unsetValue } from "./client-kinds.ts";
import {
  storedLogo,
  type CheckedClient,
  type ClientChanges,
  type IdentifiedClient,
} from "./client-schema.ts";

/** The settings that a record keeps as they are. */
const STORED = (Object.keys(SETTINGS) as SettingName[]).flatMap((name) => {
  const { stored }: Setting = SETTINGS[name];
  return stored === undefined ? [] : [{ name, stored }];
});

/** The settings that every record has, though nobody has to name them. */
type AlwaysStored = {
  [N in SettingName]: (typeof SETTINGS)[N] extends { readonly unset: unknown; readonly stored: "always" }
    ? N
    : never;
}[SettingName];

/** The settings in the record of a client of this kind that names none. */
export function unsetSettings(kind: ClientKind): Pick<ClientRecord, AlwaysStored> {
  const members = STORED.filter(({ stored }) => stored === "always").map(({ name }) => [
    name,
    unsetValue(kind, name),
  ]);
  return withoutAbsent(Object.fromEntries(members)) as Pick<ClientRecord, AlwaysStored>;
}

/** The record with the given settings. Of the two names of the password grant, `password_grant` wins. */
export function withSettings(before: ClientRecord, changes: ClientChanges): ClientRecord {
  const { first_party = before.first_party, second_factor = before.second_factor } = changes;
  const grants = changes.grant_types ?? before.grant_types;
  const others = grants.filter((grant) => grant !== "password");
  const password = changes.password_grant ?? grants.includes("password");
  if (others.length === 0 && !password)
    throw new InvalidArgument({ path: "grant_types", message: "must not be empty" });
  if (password && (!first_party || second_factor === "required")) {
    const which = first_party ? "a client with second_factor required" : "a third-party client";
    throw new InvalidArgument({ path: "password_grant", message: `${which} can't have the password grant` });
  }
  const { rotate, reuseWindow, sliding, maxAge } = changes.refresh_tokens ?? before.refresh_tokens;
  const logo = logoOf(before.client_id, changes);
  const named: Readonly<Record<string, unknown>> = {
    ...before,
    ...withoutAbsent(changes),
    grant_types: password ? [...others, "password"] : others,
    // Always in this order, so that equal text is an equal record.
    refresh_tokens: withoutAbsent({ rotate, reuseWindow, sliding, maxAge }),
    ...(logo !== undefined && { logo: logo && { type: logo.type, sha256: logo.sha256 } }),
  };
  const settings = STORED.map(({ name, stored }) => {
    const value = named[name];
    const isLeftOut = stored === "if set" && isDeepStrictEqual(value, unsetValue(before.kind, name));
    return [name, isLeftOut ? undefined : value];
  });
  const { secrets } = changes.jwks === undefined ? before : { secrets: [] };
  return withoutAbsent({ ...before, secrets, ...Object.fromEntries(settings) }) as ClientRecord;
}

/** The object without members that are `undefined`. */
function withoutAbsent(members: object): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
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

/** @throws NotApplicable when a seed names another kind or algorithm than the client has. */
export function refuseFixed(
  { kind, id_token_signed_response_alg: registered = "RS256" }: ClientRecord,
  { kind: named, id_token_signed_response_alg: algorithm = registered }: CheckedClient,
): void {
  if (named !== kind)
    throw new NotApplicable(`the client is registered as ${kind}, and its kind can't be changed`);
  if (algorithm !== registered)
    throw new NotApplicable(
      `the client is registered with ${registered}, and its id_token_signed_response_alg can't be changed`,
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
