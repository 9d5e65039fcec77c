/** The users of Auth0: lines of an export, with or without the hashes that its support adds, or the list of its bulk import. */
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

/** The providers that have another name there. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([["google-oauth2", "google"]]);

const ENCODINGS: ReadonlyMap<unknown, BufferEncoding> = new Map([
  ["base64", "base64"],
  ["hex", "hex"],
  ["utf8", "utf8"],
]);

/** A part of `custom_password_hash` in Base64. */
function encoded(part: unknown): string {
  const encoding = ENCODINGS.get(member(part, "encoding") ?? "utf8");
  const value = member(part, "value");
  if (encoding === undefined || typeof value !== "string")
    throw new UnusableAccount("has a password hash that can't be read");
  return Buffer.from(value, encoding).toString("base64");
}

/** `custom_password_hash` as a text that an import takes. */
function customHash(custom: unknown): string {
  const [hash, salt, algorithm] = [
    member(custom, "hash"),
    member(custom, "salt"),
    member(custom, "algorithm"),
  ];
  const value = textIn(member(hash, "value")) ?? "";
  if (!["utf8", undefined].includes(member(member(custom, "password"), "encoding") as string | undefined))
    throw new UnusableAccount("has a password that was hashed in another encoding than UTF-8");
  switch (algorithm) {
    case "argon2":
    case "bcrypt":
    case "ldap":
    case "pbkdf2":
      return value;
    case "scrypt": {
      const [N, r, p] = ["cost", "blockSize", "parallelization"].map((name) => Number(member(custom, name)));
      return `$scrypt$ln=${Math.log2(N ?? 0)},r=${r},p=${p}$${encoded(salt)}$${encoded({ encoding: "base64", ...Object(hash) })}`;
    }
    case "sha256":
    case "sha512": {
      const order = member(salt, "position") === "suffix" ? "password-salt" : "salt-password";
      return `$salted-${algorithm}$o=${order}$${salt === undefined ? "" : encoded(salt)}$${encoded(hash)}`;
    }
    default:
      throw new UnusableAccount("has a password hash of an algorithm that this service does not take");
  }
}

function passwordHash(user: unknown): string | undefined {
  const custom = member(user, "custom_password_hash");
  if (custom !== undefined) return customHash(custom);
  return textIn(member(user, "password_hash")) ?? textIn(member(user, "passwordHash"));
}

/** The identifier: a name of the connection and a bar in front, except in the file of the hashes. */
function idOf(user: unknown): string | undefined {
  const own = textIn(member(user, "user_id"));
  if (own !== undefined) return own.includes("|") ? own : `auth0|${own}`;
  const oid = textIn(member(member(user, "_id"), "$oid"));
  return oid === undefined ? undefined : `auth0|${oid}`;
}

/** Custom data that this service has as attributes. */
function* attributeTexts(user: unknown): Generator<readonly [string, string]> {
  for (const metadata of ["user_metadata", "app_metadata"])
    for (const [name, value] of Object.entries(Object(member(user, metadata))))
      if (["string", "number", "boolean"].includes(typeof value)) yield [name, String(value)];
}

function identitiesOf(user: unknown, known: Known) {
  const found = elementsIn(member(user, "identities")).flatMap((each) => {
    const name = String(member(each, "provider"));
    if (name === "auth0") return [];
    // Connections of OpenID Connect have names of their own.
    const key = name === "oidc" ? String(member(each, "connection")) : (PROVIDERS.get(name) ?? name);
    const subject = member(each, "user_id");
    if (known.providers.has(key))
      return [{ provider: key, subject: typeof subject === "number" ? String(subject) : subject }];
    leaveOut(known, `provider ${key}`);
    return [];
  });
  return found.length === 0 ? undefined : found;
}

/** The secret of an authenticator app. Other factors have no place here. */
function appOf(user: unknown, known: Known) {
  const factors = elementsIn(member(user, "mfa_factors"));
  const totp = factors.find((each) => member(each, "totp") !== undefined);
  for (const each of factors) if (each !== totp) leaveOut(known, `factor ${Object.keys(Object(each))[0]}`);
  return totp === undefined ? undefined : { secret: member(member(totp, "totp"), "secret") };
}

/** A user as an import takes it. @throws UnusableAccount */
export function readAuth0(user: unknown, known: Known): unknown {
  const of = (name: string): unknown => member(user, name);
  return withoutNothing({
    sub: idOf(user),
    email: textIn(of("email")),
    email_verified: of("email_verified") === true,
    username: textIn(of("username")),
    name: textIn(of("given_name")),
    surname: textIn(of("family_name")),
    locale: textIn(of("locale")),
    attributes: attributesFrom(known, attributeTexts(user)),
    disabled: of("blocked") === true ? true : undefined,
    password_hash: passwordHash(user),
    app: appOf(user, known),
    identities: identitiesOf(user, known),
  });
}
