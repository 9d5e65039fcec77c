/** The keys of one service: from the configuration, or made at the first start and kept in the storage. */
import { createSecretKey, hash, type KeyObject, randomBytes } from "node:crypto";
import type { JWK } from "oidc-provider";
import type { DirectoryStore } from "./directory/directory.ts";
import { type Storage, UNFINISHED_COPY } from "./storage.ts";
import type { Configuration } from "../config/configuration.ts";
import { readOrMakeKeyFile } from "../config/keys.ts";
import { fixedSigningKeys, openSigningKeys, type SigningKeys } from "./domain/signing-keys.ts";
import { ConfigurationError, SignInError } from "./errors.ts";
import { createSealer, deriveKey, type Sealer } from "./sealing.ts";

export interface ServiceKeys {
  readonly sealer: Sealer;
  /** Signs cookies; the first signs, all verify. */
  readonly cookies: readonly string[];
  /** Sign ID tokens and logout tokens. */
  readonly signing: SigningKeys;
  /** Client secrets are kept as HMACs under this key. */
  readonly clientSecrets: KeyObject;
  /** Sign forms and device cookies, and seal where a sign-in leads; one for each of `cookies`: the first makes, all count. */
  readonly forms: readonly KeyObject[];
  /** Rate limits are counted under HMACs of names and addresses, made with this key. */
  readonly rateLimits: KeyObject;
}

/** What is sealed as the check value: a storage and the keys that open it belong together. */
const CHECK = "sign-in-service";

/** `keys.secrets`: configured, in the file beside the database, or for a storage in memory made anew. */
async function readSecrets({ keys, storage }: Configuration, isUsed: boolean): Promise<readonly string[]> {
  if (keys.secrets !== undefined) return keys.secrets;
  if (storage === "sqlite::memory:") return [randomBytes(32).toString("base64")];
  if (!storage.startsWith("sqlite:"))
    throw new SignInError("keys", "keys.secrets is required for this storage");
  return readOrMakeKeyFile(`${storage.slice("sqlite:".length)}.keys`, { mayCreate: !isUsed });
}

/** Insert if absent, then use what is read back: any number of processes may start at once. */
async function keepSealed(
  directory: DirectoryStore,
  sealer: Sealer,
  name: string,
  make: () => string,
): Promise<string> {
  const kept = (await directory.kept(name)) ?? (await directory.keep(name, sealer.seal(name, make())));
  return sealer.open(name, kept);
}

const curveAlgorithms: Readonly<Record<string, string>> = {
  "P-256": "ES256",
  "P-384": "ES384",
  "P-521": "ES512",
  Ed25519: "EdDSA",
};

/** A signing key says what it is called and with which algorithm it signs. */
function complete(key: JWK): JWK & { readonly kid: string; readonly alg: string } {
  const byType = key.kty === "RSA" ? "RS256" : (curveAlgorithms[key.crv ?? ""] ?? "ES256");
  const { kid = thumbprint(key), alg = byType } = key;
  return { ...key, use: "sig", kid, alg };
}

/** RFC 7638: what oidc-provider calls a key without a name, too. */
function thumbprint({ crv, e, kty, n, x, y }: JWK): string {
  return hash("sha256", JSON.stringify({ crv, e, kty, n, x, y }), "base64url");
}

const random = (): string => randomBytes(32).toString("base64");

/**
 * What seals under `keys.secrets`. The first opening of a storage decides which secrets belong to it.
 * @throws ConfigurationError while a copy into this storage is not finished.
 * @throws SignInError `keys` with one sentence when the secrets are not those with which this storage was begun.
 */
export async function openSealer(configuration: Configuration, directory: DirectoryStore): Promise<Sealer> {
  const [check, copy] = await Promise.all([directory.kept("check"), directory.kept(UNFINISHED_COPY)]);
  if (copy !== undefined) {
    throw new ConfigurationError([
      "config.storage: a copy into this storage is not finished: run `storage copy` again until it says so",
    ]);
  }
  const sealer = createSealer(await readSecrets(configuration, check !== undefined));
  const kept = check ?? (await directory.keep("check", sealer.seal("check", CHECK)));
  try {
    sealer.open("check", kept);
  } catch (cause) {
    throw new SignInError(
      "keys",
      "keys.secrets does not belong to this storage: restore the secrets with which it was begun",
      { cause },
    );
  }
  return sealer;
}

/** @throws as {@link openSealer}, and when a key that the storage keeps can't be opened. */
export async function loadServiceKeys(
  configuration: Configuration,
  { directory, keys: store }: Pick<Storage, "directory" | "keys">,
): Promise<ServiceKeys> {
  const { keys, lifetimes, clock } = configuration;
  const sealer = await openSealer(configuration, directory);
  const [cookies, signing, clientSecrets] = await Promise.all([
    keys.cookies ??
      keepSealed(directory, sealer, "cookie-keys", () => JSON.stringify([random()])).then(
        (text) => JSON.parse(text) as string[],
      ),
    keys.signing
      ? fixedSigningKeys(keys.signing.map(complete))
      : openSigningKeys({
          store,
          sealer,
          clock,
          // An ID token is a hint for signing out for as long as its session may live.
          usable: Math.max(lifetimes.idToken, lifetimes.sessionMax),
          every: keys.rotation?.signing,
        }),
    keepSealed(directory, sealer, "client-secret-key", random),
  ]);
  return {
    sealer,
    cookies,
    signing,
    clientSecrets: createSecretKey(clientSecrets, "base64"),
    forms: cookies.map((key) => createSecretKey(deriveKey(key, "sign-in-service forms"))),
    // Derived from a key that the storage keeps and nobody rotates, so all processes always count under the same names.
    rateLimits: createSecretKey(deriveKey(clientSecrets, "sign-in-service rate limits")),
  };
}
