/**
 * An authenticator in memory, with the browser in front of it: makes and uses passkeys (WebAuthn) as a phone or a security
 * key does, for tests of pages and of the JSON interface. Its keys and signatures are real.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** The members of `PublicKeyCredentialCreationOptionsJSON` that it reads. */
interface CreationOptions {
  readonly challenge: string;
  readonly rp: { readonly id: string };
  readonly user: { readonly id: string };
  readonly pubKeyCredParams: readonly { readonly alg: number }[];
  readonly excludeCredentials?: readonly { readonly id: string }[];
}

/** The members of `PublicKeyCredentialRequestOptionsJSON` that it reads. */
interface RequestOptions {
  readonly challenge: string;
  readonly rpId: string;
  readonly allowCredentials?: readonly { readonly id: string }[];
}

/** `RegistrationResponseJSON` and `AuthenticationResponseJSON`. */
export interface PublicKeyCredentialJson {
  readonly id: string;
  readonly rawId: string;
  readonly type: "public-key";
  readonly clientExtensionResults: Readonly<Record<string, never>>;
  readonly response: Readonly<Record<string, string | readonly string[]>>;
}

/** What an answer says about itself. Defaults: what an honest browser and authenticator say. */
export interface AnswerOverrides {
  readonly type?: string;
  readonly challenge?: string;
  readonly origin?: string;
  readonly crossOrigin?: boolean;
  readonly topOrigin?: string;
  readonly rpId?: string;
  readonly userPresent?: boolean;
  readonly userVerified?: boolean;
  readonly backupEligible?: boolean;
  readonly backedUp?: boolean;
  readonly counter?: number;
  /** `null`: none is sent. */
  readonly userHandle?: string | null;
}

export interface AuthenticatorOptions {
  /** The origin of the page, such as `https://login.example`. */
  readonly origin: string;
  /** Whether its passkeys are copied to other devices, as a phone does. A security key does not. Default `true`. */
  readonly synced?: boolean;
  /** Whether it counts signatures, as old security keys do. Default `false`: the counter stays 0. */
  readonly counts?: boolean;
  /** -7 (ES256), -8 (EdDSA) or -257 (RS256). Default: the first that the service asks for. */
  readonly algorithm?: -7 | -8 | -257;
}

export interface TestAuthenticator {
  /** Makes a passkey. @throws Error if it has one that the options exclude. */
  create(options: CreationOptions, overrides?: AnswerOverrides): PublicKeyCredentialJson;
  /** Uses a passkey. @throws Error if it has none for the domain and the account. */
  get(options: RequestOptions, overrides?: AnswerOverrides): PublicKeyCredentialJson;
  /** The credential ids of its passkeys, oldest first. */
  readonly ids: readonly string[];
}

interface OwnPasskey {
  readonly id: string;
  readonly rpId: string;
  readonly userHandle: string;
  readonly key: KeyObject;
  readonly algorithm: number;
  counter: number;
}

const FLAGS = { present: 1, verified: 4, eligible: 8, backedUp: 16, attested: 64 } as const;
const ALGORITHMS: ReadonlySet<number> = new Set([-7, -8, -257]);

export function createAuthenticator({
  origin,
  synced = true,
  counts = false,
  algorithm: fixed,
}: AuthenticatorOptions): TestAuthenticator {
  const passkeys: OwnPasskey[] = [];

  function authenticatorData(passkey: OwnPasskey, overrides: AnswerOverrides, attested?: Buffer): Buffer {
    const {
      rpId = passkey.rpId,
      userPresent = true,
      userVerified = true,
      backupEligible = synced,
      backedUp = synced,
      counter = passkey.counter,
    } = overrides;
    const flags =
      (userPresent ? FLAGS.present : 0) |
      (userVerified ? FLAGS.verified : 0) |
      (backupEligible ? FLAGS.eligible : 0) |
      (backedUp ? FLAGS.backedUp : 0) |
      (attested === undefined ? 0 : FLAGS.attested);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter);
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), count, attested ?? Buffer.alloc(0)]);
  }

  function clientData(type: string, challenge: string, overrides: AnswerOverrides): Buffer {
    const { topOrigin } = overrides;
    return Buffer.from(
      JSON.stringify({
        type: overrides.type ?? type,
        challenge: overrides.challenge ?? challenge,
        origin: overrides.origin ?? origin,
        crossOrigin: overrides.crossOrigin ?? false,
        ...(topOrigin !== undefined && { topOrigin }),
      }),
    );
  }

  return {
    create({ challenge, rp, user, pubKeyCredParams, excludeCredentials = [] }, overrides = {}) {
      if (excludeCredentials.some(({ id }) => passkeys.some((own) => own.id === id)))
        throw new Error("InvalidStateError: this authenticator has a passkey of the account");
      const offered = pubKeyCredParams.map(({ alg }) => alg);
      const algorithm = fixed ?? offered.find((alg) => ALGORITHMS.has(alg)) ?? -7;
      const { publicKey, privateKey } = keyPair(algorithm);
      const id = randomBytes(16);
      const passkey: OwnPasskey = {
        id: id.toString("base64url"),
        rpId: rp.id,
        userHandle: user.id,
        key: privateKey,
        algorithm,
        counter: counts ? 1 : 0,
      };
      passkeys.push(passkey);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(id.length);
      const attested = Buffer.concat([Buffer.alloc(16), length, id, coseKey(publicKey, algorithm)]);
      const attestationObject = Buffer.concat([
        Buffer.from([0xa3]),
        cborText("fmt"),
        cborText("none"),
        cborText("attStmt"),
        Buffer.from([0xa0]),
        cborText("authData"),
        cborBytes(authenticatorData(passkey, overrides, attested)),
      ]);
      return credential(passkey.id, {
        clientDataJSON: clientData("webauthn.create", challenge, overrides).toString("base64url"),
        attestationObject: attestationObject.toString("base64url"),
        transports: synced ? ["hybrid", "internal"] : ["usb"],
      });
    },

    get({ challenge, rpId, allowCredentials = [] }, overrides = {}) {
      const allowed = new Set(allowCredentials.map(({ id }) => id));
      const passkey = passkeys.findLast(
        (own) => own.rpId === rpId && (allowed.size === 0 || allowed.has(own.id)),
      );
      if (passkey === undefined) throw new Error("NotAllowedError: no passkey for this account");
      if (counts) passkey.counter += 1;
      const data = authenticatorData(passkey, overrides);
      const client = clientData("webauthn.get", challenge, overrides);
      const digest = passkey.algorithm === -8 ? null : "sha256";
      const signature = sign(digest, Buffer.concat([data, sha256(client)]), passkey.key);
      const { userHandle = passkey.userHandle } = overrides;
      return credential(passkey.id, {
        clientDataJSON: client.toString("base64url"),
        authenticatorData: data.toString("base64url"),
        signature: signature.toString("base64url"),
        ...(userHandle !== null && { userHandle }),
      });
    },

    get ids() {
      return passkeys.map(({ id }) => id);
    },
  };
}

function credential(id: string, response: PublicKeyCredentialJson["response"]): PublicKeyCredentialJson {
  return { id, rawId: id, type: "public-key", clientExtensionResults: {}, response };
}

function sha256(data: string | Buffer): Buffer {
  return createHash("sha256").update(data).digest();
}

function keyPair(algorithm: number): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
  if (algorithm === -8) return generateKeyPairSync("ed25519");
  if (algorithm === -257) return generateKeyPairSync("rsa", { modulusLength: 2048 });
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

/** A public key as COSE (RFC 9053). */
function coseKey(key: KeyObject, algorithm: number): Buffer {
  const jwk = key.export({ format: "jwk" });
  if (algorithm === -8) return cborMap([1, 1], [3, algorithm], [-1, 6], [-2, jwk.x]);
  if (algorithm === -257) return cborMap([1, 3], [3, algorithm], [-1, jwk.n], [-2, jwk.e]);
  return cborMap([1, 2], [3, algorithm], [-1, 1], [-2, jwk.x], [-3, jwk.y]);
}

/** @param pairs labels, each with a number or with bytes in Base64url. */
function cborMap(...pairs: readonly (readonly [number, number | string | undefined])[]): Buffer {
  const items = pairs.flatMap(([label, value = ""]) => [
    cborInteger(label),
    typeof value === "number" ? cborInteger(value) : cborBytes(Buffer.from(value, "base64url")),
  ]);
  return Buffer.concat([cborHead(5, pairs.length), ...items]);
}

/** The head of a CBOR item (RFC 8949 section 3). */
function cborHead(major: number, size: number): Buffer {
  if (size < 24) return Buffer.from([(major << 5) | size]);
  if (size < 256) return Buffer.from([(major << 5) | 24, size]);
  return Buffer.from([(major << 5) | 25, size >> 8, size & 255]);
}

const cborInteger = (value: number): Buffer => (value < 0 ? cborHead(1, -1 - value) : cborHead(0, value));
const cborBytes = (bytes: Buffer): Buffer => Buffer.concat([cborHead(2, bytes.length), bytes]);
const cborText = (text: string): Buffer => Buffer.concat([cborHead(3, text.length), Buffer.from(text)]);
