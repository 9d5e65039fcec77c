/** The users of a Keycloak realm, as `kc.sh export` writes them: in one file with the realm, or in files of their own. */
import {
  attributesFrom,
  elementsIn,
  type Known,
  leaveOut,
  member,
  textIn,
  UnusableAccount,
  withoutNothing,
} from "./known.ts";

/** The part of a credential that is JSON in a text. */
function partOf(credential: unknown, name: "secretData" | "credentialData"): unknown {
  try {
    return JSON.parse(String(member(credential, name)));
  } catch {
    throw new UnusableAccount("has a credential that can't be read");
  }
}

const base64 = (value: unknown): string => (typeof value === "string" ? value : "").replace(/=+$/u, "");

/** The first value of a parameter: Keycloak keeps lists. */
const first = (parameters: unknown, name: string): string => String(elementsIn(member(parameters, name))[0]);

/** The hash as a text that an import takes. @throws UnusableAccount for an algorithm that Keycloak does not have itself. */
function passwordHash(credential: unknown): string {
  const [data, secret] = [partOf(credential, "credentialData"), partOf(credential, "secretData")];
  const rounds = Number(member(data, "hashIterations"));
  const [salt, value] = [base64(member(secret, "salt")), base64(member(secret, "value"))];
  const algorithm = member(data, "algorithm");
  switch (algorithm) {
    case "pbkdf2":
      return `$pbkdf2-sha1$${rounds}$${salt}$${value}`;
    case "pbkdf2-sha256":
    case "pbkdf2-sha512":
      return `$${algorithm}$${rounds}$${salt}$${value}`;
    case "argon2": {
      const parameters = member(data, "additionalParameters");
      const version = first(parameters, "version") === "1.0" ? 16 : 19;
      const cost = `m=${first(parameters, "memory")},t=${rounds},p=${first(parameters, "parallelism")}`;
      return `$argon2${first(parameters, "type")}$v=${version}$${cost}$${salt}$${value}`;
    }
    default:
      throw new UnusableAccount("has a password hash of an algorithm that this service does not know");
  }
}

/** RFC 4648. */
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

function toBase32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/gu) ?? [])
    .map((five) => BASE32[Number.parseInt(five.padEnd(5, "0"), 2)])
    .join("");
}

/** The secret of an authenticator app, as people scan it. @throws UnusableAccount for codes that this service does not check. */
function appSecret(credential: unknown): string {
  const [data, secret] = [partOf(credential, "credentialData"), partOf(credential, "secretData")];
  const isUsual =
    member(data, "subType") === "totp" &&
    Number(member(data, "digits")) === 6 &&
    Number(member(data, "period")) === 30 &&
    member(data, "algorithm") === "HmacSHA1";
  if (!isUsual)
    throw new UnusableAccount("has an authenticator app of another kind than SHA-1, 6 digits, 30 seconds");
  const value = textIn(member(secret, "value")) ?? "";
  // Keycloak makes a text of letters and digits, and uses its characters as the bytes of the secret.
  return member(data, "secretEncoding") === "BASE32" ? value : toBase32(Buffer.from(value));
}

/** Keycloak's attributes are lists of texts. `locale` is a field here. */
function* attributeTexts(attributes: unknown): Generator<readonly [string, string]> {
  for (const [name, values] of Object.entries(Object(attributes)))
    if (name !== "locale") yield [name, textIn(elementsIn(values)[0]) ?? ""];
}

/** The roles in clients that have the keys of services here. */
function assignments(clientRoles: unknown, known: Known) {
  const roles: [string, string[]][] = [];
  for (const [client, names] of Object.entries(Object(clientRoles))) {
    const ours = known.services.get(client);
    if (ours === undefined) {
      leaveOut(known, `roles of the client ${client}`);
      continue;
    }
    const given = elementsIn(names).map(String);
    for (const name of given)
      if (!ours.includes(name)) leaveOut(known, `role ${name} of the client ${client}`);
    roles.push([client, given.filter((name) => ours.includes(name))]);
  }
  if (roles.length === 0) return {};
  return {
    services: Object.fromEntries(roles.map(([key]) => [key, null])),
    roles: Object.fromEntries(roles.filter(([, names]) => names.length > 0)),
  };
}

const MILLISECONDS = 1_000;

/** A user as an import takes it; `undefined` for the account of a client. @throws UnusableAccount */
export function readKeycloak(user: unknown, known: Known): unknown {
  if (member(user, "serviceAccountClientId") !== undefined) return undefined;
  const of = (name: string): unknown => member(user, name);
  const [email, username] = [textIn(of("email")), textIn(of("username"))];
  const credentials = elementsIn(of("credentials"));
  const ofType = (type: string): unknown => credentials.find((each) => member(each, "type") === type);
  const [password, otp] = [ofType("password"), ofType("otp")];
  for (const each of credentials)
    if (each !== password && each !== otp) leaveOut(known, `credential ${String(member(each, "type"))}`);
  const created = Math.floor(Number(of("createdTimestamp")) / MILLISECONDS);
  const linked_at = Number.isSafeInteger(created) && created > 0 ? created : undefined;
  const identities = elementsIn(of("federatedIdentities")).flatMap((each) => {
    const provider = String(member(each, "identityProvider"));
    if (known.providers.has(provider))
      return [withoutNothing({ provider, subject: member(each, "userId"), linked_at })];
    leaveOut(known, `provider ${provider}`);
    return [];
  });
  for (const name of ["realmRoles", "groups"])
    for (const each of elementsIn(of(name))) leaveOut(known, `${name} ${String(each)}`);
  const attributes = of("attributes");
  return withoutNothing({
    sub: of("id"),
    email,
    email_verified: of("emailVerified") === true,
    // A realm whose people sign in with their addresses has them as names.
    username: username?.toLowerCase() === email?.toLowerCase() ? undefined : username,
    name: textIn(of("firstName")),
    surname: textIn(of("lastName")),
    locale: textIn(elementsIn(member(attributes, "locale"))[0]),
    attributes: attributesFrom(known, attributeTexts(attributes)),
    disabled: of("enabled") === false ? true : undefined,
    password_hash: password === undefined ? undefined : passwordHash(password),
    app: otp === undefined ? undefined : { secret: appSecret(otp) },
    identities: identities.length === 0 ? undefined : identities,
    ...assignments(of("clientRoles"), known),
  });
}
