/** The keys of a service: from the configuration, or made at the first start and stored. */
import { createSecretKey, hash, type KeyObject, randomBytes } from "node:crypto";
import type { JWK } from "oidc-provider";
import type { RecordStore } from "../../adapters/record-store.ts";
import {
  SERVICE_KEY,
  type ServiceKeyName,
  type StoredServiceKey,
} from "../../records/directory/directory-kinds.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { type KnownSecret, requireSecrets } from "../../records/secrets.ts";
import type { Storage } from "../../records/storage.ts";
import type { Configuration } from "../../config/configuration.ts";
import { keyFileOf, makeSecret, readOrMakeKeyFile } from "../../config/keys.ts";
import { isInMemory } from "../../config/storage-address.ts";
import { fixedSigningKeys, openSigningKeys, type SigningKeys } from "./signing-keys.ts";
import { type Keys, keys as table, type SealingSecret } from "../operations/keys.ts";
import { facade, pageOf } from "../operations/operation.ts";
import { ConfigurationError, SignInError, StorageMissing } from "../../core/errors.ts";
import { createSealer, deriveKey, type Sealer } from "../../core/sealing.ts";
import { MAX_JWT_SECONDS } from "../operations/apis.ts";

export interface ServiceKeys {
  readonly sealer: Sealer;
  /** Signs cookies; the first signs, all verify. */
  readonly cookies: readonly string[];
  /** Signs ID tokens and logout tokens. */
  readonly signing: SigningKeys;
  /** The HMAC key for client secrets. */
  readonly clientSecrets: KeyObject;
  /** Sign forms and device cookies, and seal return paths. One for each of `cookies`: the first signs, all verify. */
  readonly forms: readonly KeyObject[];
  /** The HMAC key for names and addresses in rate limits. */
  readonly rateLimits: KeyObject;
  /** Makes keyed hashes of networks for the log. */
  readonly networks: KeyObject;
  /** The HMAC key for codes and links that are sent by mail, and for recovery codes. */
  readonly confirmations: KeyObject;
  /** The HMAC key for what seeds have made. */
  readonly seeds: KeyObject;
  /** The HMAC key for the codes that people type for their devices. */
  readonly userCodes: KeyObject;
  /** The HMAC key for nonces of DPoP proofs. */
  readonly proofs: KeyObject;
  /** The HMAC key for the index of the search for people. */
  readonly search: KeyObject;
  /** For what administrators read over HTTP and send back: tags of records, positions in lists, keys of requests. */
  readonly administration: KeyObject;
}

const UNUSED = "no server has used this storage yet";

/**
 * `keys.secrets`: from the configuration, from the file next to the database, or new ones for a storage in memory.
 * @param isUsed whether the storage has sealed records, so that a missing file can't be made.
 */
export async function readSecrets(
  { keys, storage }: Pick<Configuration, "keys" | "storage">,
  isUsed: boolean,
): Promise<readonly string[]> {
  if (keys.secrets !== undefined) return keys.secrets;
  if (isInMemory(storage)) return [makeSecret()];
  const file = keyFileOf(storage);
  if (file === undefined)
    throw new SignInError(
      "unusable_secrets",
      "keys.secrets is required for this storage: make one with openssl rand -base64 32",
    );
  return readOrMakeKeyFile(file, { mayCreate: !isUsed });
}

/** How a process opens a storage. */
export interface Opening {
  /**
   * Whether a server has used the storage; then nothing is written. Default: missing keys are made, and a first secret that the
   * storage has never seen becomes its newest.
   */
  readonly mustExist?: boolean;
}

/**
 * Inserts the value if absent and returns the stored one, so that any number of processes can start at the same time.
 * @throws StorageMissing if it is absent and must exist.
 */
async function ensureServiceKey(
  directory: DirectoryRecords,
  name: ServiceKeyName,
  { mustExist = false, make }: Opening & { readonly make: () => string },
): Promise<string> {
  const stored = await directory.findServiceKey(name);
  if (stored !== undefined) return stored;
  if (mustExist) throw new StorageMissing(UNUSED);
  return directory.ensureServiceKey(name, make());
}

const curveAlgorithms: Readonly<Record<string, string>> = {
  "P-256": "ES256",
  "P-384": "ES384",
  "P-521": "ES512",
  Ed25519: "EdDSA",
};

/** Adds the name and the algorithm to a configured signing key. */
function complete(key: JWK): JWK & { readonly kid: string; readonly alg: string } {
  const byType = key.kty === "RSA" ? "RS256" : (curveAlgorithms[key.crv ?? ""] ?? "ES256");
  const { kid = thumbprint(key), alg = byType } = key;
  return { ...key, use: "sig", kid, alg };
}

/** RFC 7638, like the name that oidc-provider gives a key without one. */
function thumbprint({ crv, e, kty, n, x, y }: JWK): string {
  return hash("sha256", JSON.stringify({ crv, e, kty, n, x, y }), "base64url");
}

const random = (): string => randomBytes(32).toString("base64");

/** The calls of `service.keys`. @param secrets reads those that the storage knows. */
export function createKeys(
  { signing, sealer }: Pick<ServiceKeys, "signing" | "sealer">,
  secrets: () => Promise<readonly KnownSecret[]>,
): Keys {
  return facade(table, {
    list: async ({ input }) => pageOf(await signing.list(), ({ kid }) => kid, input),
    secrets: async ({ input }) => pageOf(shownSecrets(await secrets(), sealer.ids), ({ id }) => id, input),
    rotate: ({ caller }) => signing.rotate(caller),
    retire: ({ target: [kid], caller }) => signing.retire(kid, caller),
  });
}

/** What `service.keys.secrets()` lists. @param ids of `keys.secrets`, in their order. */
function shownSecrets(known: readonly KnownSecret[], ids: readonly string[]): SealingSecret[] {
  const newest = known.at(-1)?.id;
  const position = (id: string): number | null => (ids.includes(id) ? ids.indexOf(id) + 1 : null);
  return [
    ...known.map(({ id, needed, known_since }): SealingSecret => {
      const state = id === newest ? "newest" : needed ? "needed" : "replaced";
      return { id, state, position: position(id), known_since };
    }),
    ...ids
      .filter((id) => known.every((each) => each.id !== id))
      .map((id): SealingSecret => ({ id, state: "new", position: position(id), known_since: null })),
  ];
}

/** Why no service starts on a storage that a command has not finished. */
export const UNFINISHED = {
  copy: "a copy into this storage is not finished: run `storage copy` again until it reports that it is",
  renewal:
    "what had ended before this storage went back is not void yet: run `storage restored` or `storage promoted` again until it reports that it is",
  reset:
    "what the lost secrets had sealed is not void yet: run `keys reset --lost` again until it reports that it is",
} as const;

/**
 * The sealer for `keys.secrets`. The first start decides which secrets belong to a storage.
 * @param opening.isRenewing accepts a storage that is not renewed completely.
 * @param opening.asConfigured the first secret seals, even if no server has used it. Default: then the newest that the storage knows.
 * @throws ConfigurationError while a command has not finished to write this storage.
 * @throws SignInError `unusable_secrets` when the storage needs another secret, or the first one is not its newest.
 * @throws StorageMissing when the storage must exist, and no server has used it.
 */
export async function openSealer(
  configuration: Configuration,
  { directory, secrets }: Pick<Storage, "directory" | "secrets">,
  opening: Opening & { readonly isRenewing?: boolean; readonly asConfigured?: boolean } = {},
): Promise<Sealer> {
  const { mustExist = false, isRenewing = false, asConfigured = false } = opening;
  const [known, unfinished] = await Promise.all([secrets.read(), directory.unfinished()]);
  if (unfinished !== undefined && !(isRenewing && unfinished === "renewal"))
    throw new ConfigurationError([`config.storage: ${UNFINISHED[unfinished]}`]);
  if (known.length === 0 && mustExist) throw new StorageMissing(UNUSED);
  const configured = await readSecrets(configuration, known.length > 0);
  const sealer = createSealer(configured);
  requireSecrets(known, sealer.ids);
  if (!mustExist) {
    if (known.at(-1)?.id !== sealer.ids[0]) await secrets.admit(sealer.ids);
    return sealer;
  }
  // Until a server has started with a new first secret, commands seal with the one before: nobody else may have the new one.
  const newest = sealer.ids.indexOf(known.at(-1)?.id ?? "");
  return asConfigured ? sealer : createSealer(configured, newest);
}

const searchKeyOf = (clientSecrets: string): KeyObject => deriveKey(clientSecrets, "sign-in-service search");

/** The key of the search, for a command that needs no other. @throws as {@link openSealer}. */
export async function openSearchKey(
  configuration: Configuration,
  { directory, secrets }: Pick<Storage, "directory" | "secrets">,
): Promise<KeyObject> {
  const sealer = await openSealer(configuration, { directory, secrets }, { mustExist: true });
  const sealed = await directory.findServiceKey("client-secret-key");
  if (sealed === undefined) throw new StorageMissing(UNUSED);
  return searchKeyOf(sealer.open("client-secret-key", sealed));
}

/** The same of a storage that is checked; `undefined` if no server has used it, or its keys are others. */
export async function findSearchKey(store: RecordStore, sealer: Sealer): Promise<KeyObject | undefined> {
  const [found] = await store.get([SERVICE_KEY.ref("client-secret-key")]);
  if (found === undefined) return undefined;
  try {
    return searchKeyOf(sealer.open("client-secret-key", (found.value as unknown as StoredServiceKey).sealed));
  } catch {
    // The check of sealed values reports it.
    return undefined;
  }
}

/** @throws as {@link openSealer}, and when a stored key can't be opened. */
export async function loadServiceKeys(
  configuration: Configuration,
  { directory, secrets, keys: store }: Pick<Storage, "directory" | "secrets" | "keys">,
  { mustExist = false }: Opening = {},
): Promise<ServiceKeys> {
  const { keys, lifetimes, clock } = configuration;
  const sealer = await openSealer(configuration, { directory, secrets }, { mustExist });
  async function ensureSealed(name: ServiceKeyName, make: () => string): Promise<string> {
    const sealed = (): string => sealer.seal(name, make());
    return sealer.open(name, await ensureServiceKey(directory, name, { mustExist, make: sealed }));
  }
  const [cookies, signing, clientSecrets] = await Promise.all([
    keys.cookies ??
      ensureSealed("cookie-keys", () => JSON.stringify([random()])).then(
        (text) => JSON.parse(text) as string[],
      ),
    keys.signing
      ? fixedSigningKeys(keys.signing.map(complete))
      : openSigningKeys({
          store,
          sealer,
          clock,
          // An ID token can be a logout hint for as long as its session lives.
          usable: Math.max(lifetimes.idToken, lifetimes.sessionMax, MAX_JWT_SECONDS),
          every: keys.rotation?.signing,
          mustExist,
        }),
    ensureSealed("client-secret-key", random),
  ]);
  return {
    sealer,
    cookies,
    signing,
    clientSecrets: createSecretKey(clientSecrets, "base64"),
    forms: cookies.map((key) => deriveKey(key, "sign-in-service forms")),
    // Derived from a stored key that is never rotated, so that all processes count under the same names.
    rateLimits: deriveKey(clientSecrets, "sign-in-service rate limits"),
    networks: deriveKey(clientSecrets, "sign-in-service networks of the log"),
    confirmations: deriveKey(clientSecrets, "sign-in-service confirmations"),
    seeds: deriveKey(clientSecrets, "sign-in-service seeds"),
    userCodes: deriveKey(clientSecrets, "sign-in-service user codes"),
    proofs: deriveKey(clientSecrets, "sign-in-service proofs"),
    search: searchKeyOf(clientSecrets),
    administration: deriveKey(clientSecrets, "sign-in-service administration"),
  };
}
