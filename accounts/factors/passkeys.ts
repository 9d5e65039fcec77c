/**
 * Passkeys (WebAuthn Level 3): the requests to browsers, and the checks of their answers (decisions.md, Passkeys). The
 * caller keeps each challenge with its step. A challenge is answered once: the answer is recorded in the transaction
 * that accepts it, so of two processes that get the same answer, only one accepts it.
 */
import { hash, randomBytes } from "node:crypto";
import type * as webauthn from "@simplewebauthn/server";
import type * as webauthnHelpers from "@simplewebauthn/server/helpers";
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  type StoredPasskey,
  USED_CHALLENGE,
} from "../../records/factors/factor-kinds.ts";
import type { Records, Transaction } from "../../records/records.ts";
import { isDisabled } from "../account.ts";
import { fullName, type NamedPerson } from "../names.ts";
import { forgetWrongCodes } from "./codes.ts";
import type { NewPasskey } from "./factor.ts";

/** For whom passkeys are made, and where they may be used. */
export interface RelyingParty {
  /** The domain of new passkeys (`rpId`). */
  readonly id: string;
  /** Earlier domains, whose passkeys still work. */
  readonly previousIds: readonly string[];
  /** The origins of the deployments. */
  readonly origins: readonly string[];
  /** What authenticators show. */
  readonly name: string;
}

/** A challenge, to be kept with the step that shows it and with nothing else. It can be stored as JSON. */
export interface PasskeyChallenge {
  /** 32 random bytes, Base64url. */
  readonly challenge: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

const descriptors = z
  .array(
    section({
      type: z.literal("public-key"),
      id: z.string(),
      transports: z.array(z.string()).readonly().exactOptional(),
    }),
  )
  .readonly();

const requestOptions = section({
  challenge: z.string(),
  rpId: z.string(),
  timeout: z.int(),
  userVerification: z.literal("required"),
  allowCredentials: descriptors,
});

/** `PublicKeyCredentialRequestOptionsJSON` of WebAuthn section 5.1.9. */
export interface PasskeyRequest extends z.output<typeof requestOptions> {}
export const passkeyRequest: z.ZodType<PasskeyRequest, PasskeyRequest> = requestOptions;

const creation = section({
  challenge: z.string(),
  rp: section({ id: z.string(), name: z.string() }),
  user: section({ id: z.string(), name: z.string(), displayName: z.string() }),
  pubKeyCredParams: z.array(section({ type: z.literal("public-key"), alg: z.int() })).readonly(),
  timeout: z.int(),
  excludeCredentials: descriptors,
  authenticatorSelection: section({
    residentKey: z.literal("required"),
    requireResidentKey: z.literal(true),
    userVerification: z.literal("required"),
  }),
  attestation: z.literal("none"),
});

/** `PublicKeyCredentialCreationOptionsJSON` of WebAuthn section 5.1.8. */
export interface PasskeyCreation extends z.output<typeof creation> {}
export const passkeyCreation: z.ZodType<PasskeyCreation, PasskeyCreation> = creation;

/** A passkey that has signed a challenge: both factors in one. */
export interface UsedPasskey {
  readonly kind: "right";
  /** The account that it belongs to. */
  readonly account: AccountRecord;
  /** For `amr`: `swk` if it can be copied to other devices, `hwk` if it stays in one. */
  readonly backupEligible: boolean;
}

/** Whose passkey it is, which may be an account that does not exist yet. */
export type PasskeyOwner = NamedPerson & Partial<Pick<AccountRecord, "ways">>;

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Passkeys {
  readonly relyingParty: RelyingParty;
  /** A new challenge, for five minutes. */
  challenge(): PasskeyChallenge;
  /** The request of the first page, for any passkey of this service. It reveals nothing about accounts. */
  anyRequest(challenge: PasskeyChallenge): PasskeyRequest;
  /** The request after the right password, or in a session, for a passkey of this account. */
  accountRequest(account: AccountRecord, challenge: PasskeyChallenge): Promise<PasskeyRequest>;
  /** The request to make a new passkey. @param userHandle of the account. */
  creation(account: PasskeyOwner, challenge: string, userHandle: string): Promise<PasskeyCreation>;
  /**
   * Checks a new passkey. Nothing is stored: see `FactorChanges.addFactor`.
   * @param credential `RegistrationResponseJSON`, which may be anything.
   * @returns `undefined` if anything about it is wrong.
   */
  checkNew(credential: unknown, challenge: string, name: string): Promise<NewPasskey["passkey"] | undefined>;
  /**
   * Signs in with a passkey.
   * @param credential `AuthenticationResponseJSON`, which may be anything.
   * @param challenge as it was kept with the step; drop it afterwards, whatever the answer.
   * @param sub the account of the step, if it has one: a passkey of another account is refused.
   * @returns `refused` for an unknown passkey, a disabled account, one that signs in at its provider only, and a wrong signature alike.
   */
  use(
    credential: unknown,
    challenge: PasskeyChallenge,
    sub?: string,
  ): Promise<UsedPasskey | { readonly kind: "refused" }>;
}

const CHALLENGE_LIFETIME_MS = 300_000;
/** ES256, EdDSA with Ed25519, RS256 (RFC 9053, RFC 8812). */
const ALGORITHMS: readonly number[] = [-7, -8, -257];
const RSA_BYTES = { least: 256, most: 512 };
const MAX_COUNTER = 2 ** 32 - 1;

/** Base64url of at most this many bytes. */
const bytes = (most: number) =>
  z
    .string()
    .max(Math.ceil((most * 4) / 3))
    .regex(/^[\w-]*$/);

/** At most 1,023 bytes (WebAuthn section 6.5.1). */
const credentialId = bytes(1_023).min(1);
const clientDataJSON = bytes(4_096);

/** The members that are read; browsers send others too. */
const assertion = z.object({
  id: credentialId,
  rawId: credentialId,
  type: z.literal("public-key"),
  response: z.object({
    clientDataJSON,
    authenticatorData: bytes(4_096),
    signature: bytes(1_024),
    userHandle: bytes(64).nullish(),
  }),
});
const attestation = z.object({
  id: credentialId,
  rawId: credentialId,
  type: z.literal("public-key"),
  response: z.object({
    clientDataJSON,
    attestationObject: bytes(32_768),
    transports: z.array(z.string()).nullish(),
  }),
});

/** The transports of WebAuthn section 5.8.4. Others are dropped, so that nobody can store arbitrary text. */
const TRANSPORTS: ReadonlySet<string> = new Set(["ble", "hybrid", "internal", "nfc", "smart-card", "usb"]);

/** @param signsIn whether an account can sign in with a passkey alone. Default: every one can. */
export function createPasskeys(
  relyingParty: RelyingParty,
  records: Records,
  clock: Clock,
  signsIn: (account: AccountRecord) => boolean = () => true,
): Passkeys {
  const { id: rpId, previousIds, origins } = relyingParty;
  const rpIds = [rpId, ...previousIds];
  let library: Promise<Library> | undefined;
  /** The library, loaded with the first passkey and kept: import() looks modules up again each time. */
  const loaded = (): Promise<Library> => (library ??= loadLibrary());

  async function passkeysOf({ ways }: Partial<Pick<AccountRecord, "ways">>): Promise<StoredPasskey[]> {
    const refs = (ways?.passkey?.ids ?? []).map((id) => PASSKEY.ref(id));
    if (refs.length === 0) return [];
    const found = await records.store.get(refs);
    return found.flatMap((each) => (each === undefined ? [] : [each.value as unknown as StoredPasskey]));
  }

  return {
    relyingParty,
    challenge: () => ({
      challenge: randomBytes(32).toString("base64url"),
      expiresAt: Math.floor(clock.now()) + CHALLENGE_LIFETIME_MS,
    }),
    anyRequest: (challenge) => request(challenge, rpId, []),

    async accountRequest(account, challenge) {
      const own = await passkeysOf(account);
      // A request is for one domain: the current one, unless all passkeys are of earlier ones.
      const domain = rpIds.find((each) => own.some(({ rp_id }) => rp_id === each)) ?? rpId;
      return request(challenge, domain, own.filter(({ rp_id }) => rp_id === domain).map(descriptor));
    },

    async creation(account, challenge, userHandle) {
      const { email } = account;
      return {
        challenge,
        rp: { id: rpId, name: relyingParty.name },
        user: {
          id: userHandle,
          name: account.username ?? email,
          displayName: fullName(account) || email,
        },
        pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: "public-key", alg })),
        timeout: CHALLENGE_LIFETIME_MS,
        excludeCredentials: (await passkeysOf(account)).map(descriptor),
        authenticatorSelection: {
          residentKey: "required",
          requireResidentKey: true,
          userVerification: "required",
        },
        attestation: "none",
      };
    },

    async checkNew(credential, challenge, name) {
      const read = attestation.safeParse(credential);
      if (!read.success || isCrossOrigin(read.data.response.clientDataJSON)) return undefined;
      const { id, rawId, type, response } = read.data;
      const [{ verifyRegistrationResponse }, helpers] = await loaded();
      try {
        const { clientDataJSON: clientData, attestationObject } = response;
        const { verified, registrationInfo } = await verifyRegistrationResponse({
          response: {
            id,
            rawId,
            type,
            clientExtensionResults: {},
            response: {
              clientDataJSON: clientData,
              attestationObject: withoutStatement(attestationObject, helpers),
            },
          },
          expectedChallenge: challenge,
          expectedOrigin: [...origins],
          expectedRPID: rpId,
          requireUserPresence: true,
          requireUserVerification: true,
          supportedAlgorithmIDs: [...ALGORITHMS],
        });
        if (!verified || registrationInfo.credential.id !== id) return undefined;
        const { credential: made, credentialDeviceType, credentialBackedUp } = registrationInfo;
        if (!isSupportedKey(helpers.decodeCredentialPublicKey(made.publicKey))) return undefined;
        const transports = (response.transports ?? []).filter((each) => TRANSPORTS.has(each));
        return {
          id,
          public_key: Buffer.from(made.publicKey).toString("base64url"),
          counter: made.counter,
          transports: [...new Set(transports)],
          backup_eligible: credentialDeviceType === "multiDevice",
          backed_up: credentialBackedUp,
          rp_id: rpId,
          name,
        };
      } catch {
        // The library throws for each check that fails, and for what it can't parse.
        return undefined;
      }
    },

    async use(credential, challenge, sub) {
      const read = assertion.safeParse(credential);
      if (!read.success || challenge.expiresAt <= clock.now()) return { kind: "refused" };
      if (isCrossOrigin(read.data.response.clientDataJSON)) return { kind: "refused" };
      try {
        const used = await records.transact((tx) => verify(tx, read.data, challenge, sub));
        if (used !== undefined) return { kind: "right", ...used };
      } catch (error) {
        if (!(error instanceof AlreadyExists)) throw error;
      }
      return { kind: "refused" };
    },
  };

  /** Checks an assertion and records its use; `undefined` if anything about it is wrong. */
  async function verify(
    tx: Transaction,
    { id, rawId, type, response }: z.infer<typeof assertion>,
    { challenge, expiresAt }: PasskeyChallenge,
    sub: string | undefined,
  ): Promise<Omit<UsedPasskey, "kind"> | undefined> {
    const passkey = await tx.get(PASSKEY.ref(id));
    // A signature is always checked, so that the time does not reveal whether the passkey exists.
    const { sub: owner } = passkey ?? UNKNOWN_PASSKEY;
    const [stored, app] = await tx.getAll([ACCOUNT.ref(owner), AUTHENTICATOR_APP.ref(owner)]);
    const info = await verifiedAssertion(
      { id, rawId, type, response },
      challenge,
      passkey ?? { ...UNKNOWN_PASSKEY, id, rp_id: rpId },
    );
    if (passkey === undefined || info === undefined) return undefined;
    if (sub !== undefined && passkey.sub !== sub) return undefined;
    const account = stored;
    if (account?.ways.passkey?.ids.includes(id) !== true || isDisabled(account)) return undefined;
    if (sub === undefined && !signsIn(account)) return undefined;
    const { userHandle } = response;
    // If the account is not known yet, the user handle identifies it (WebAuthn section 7.2, step 6).
    if (userHandle === undefined || userHandle === null) {
      if (sub === undefined) return undefined;
    } else if (userHandle !== account.ways.passkey.user_handle) return undefined;
    if (!rpIds.includes(passkey.rp_id)) return undefined;
    if ((info.credentialDeviceType === "multiDevice") !== passkey.backup_eligible) return undefined;
    const digest = hash("sha256", challenge, "base64url");
    const answered = USED_CHALLENGE.record({ digest, expires_at_ms: expiresAt });
    tx.create(answered, () => new AlreadyExists("an answer to this challenge"));
    tx.put(
      PASSKEY.record({
        ...passkey,
        counter: Math.min(info.newCounter, MAX_COUNTER),
        backed_up: info.credentialBackedUp,
        last_used_at: seconds(clock),
      }),
    );
    forgetWrongCodes(tx, app);
    return { account, backupEligible: passkey.backup_eligible };
  }

  /** The checks of WebAuthn section 7.2 that the library makes, the counter among them. */
  async function verifiedAssertion(
    { id, rawId, type, response }: z.infer<typeof assertion>,
    challenge: string,
    passkey: Pick<StoredPasskey, "id" | "rp_id" | "public_key" | "counter">,
  ) {
    const [{ verifyAuthenticationResponse }] = await loaded();
    try {
      const { clientDataJSON: clientData, authenticatorData, signature } = response;
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        response: {
          id,
          rawId,
          type,
          clientExtensionResults: {},
          response: { clientDataJSON: clientData, authenticatorData, signature },
        },
        expectedChallenge: challenge,
        expectedOrigin: [...origins],
        expectedRPID: passkey.rp_id,
        requireUserVerification: true,
        credential: {
          id: passkey.id,
          publicKey: new Uint8Array(Buffer.from(passkey.public_key, "base64url")),
          counter: passkey.counter,
        },
      });
      return verified ? authenticationInfo : undefined;
    } catch {
      // The library throws for each check that fails, and for what it can't parse.
      return undefined;
    }
  }
}

/** Stands in for an unknown passkey. Nobody has its private key (a COSE key, ES256). */
const UNKNOWN_PASSKEY = {
  sub: "nobody",
  public_key:
    "pQECAyYgASFYIHav781PzOZ1qde_XwBegax3zcNbsJJmcv06vYX2reGnIlgg7EPRwCgPVFPNAZqKY2XTYM_ADIBdRno4YIeW_2XGrc4",
  counter: 0,
} as const;

type Library = readonly [typeof webauthn, typeof webauthnHelpers];

const request = (
  { challenge }: PasskeyChallenge,
  id: string,
  allowCredentials: PasskeyRequest["allowCredentials"],
): PasskeyRequest => ({
  challenge,
  rpId: id,
  timeout: CHALLENGE_LIFETIME_MS,
  userVerification: "required",
  allowCredentials,
});

function loadLibrary(): Promise<Library> {
  return Promise.all([import("@simplewebauthn/server"), import("@simplewebauthn/server/helpers")]);
}

function descriptor({ id, transports }: StoredPasskey): PasskeyRequest["allowCredentials"][number] {
  return { type: "public-key", id, ...(transports.length > 0 && { transports }) };
}

/**
 * Whether the browser says that a page of another origin asked for it, or says something that can't be read. The library
 * accepts that where the browser does not name the other origin.
 */
function isCrossOrigin(clientData: string): boolean {
  try {
    const read: unknown = JSON.parse(Buffer.from(clientData, "base64url").toString("utf8"));
    if (typeof read !== "object" || read === null) return true;
    const { crossOrigin = false } = read as { readonly crossOrigin?: unknown };
    return crossOrigin !== false || "topOrigin" in read;
  } catch {
    return true;
  }
}

/**
 * The attestation object without its statement, as if the authenticator had sent none, which is what it was asked for.
 * Checking a statement would parse a stranger's certificates and fetch the revocation lists that they name, but decide
 * nothing.
 * @throws if it can't be decoded.
 */
function withoutStatement(
  attestationObject: string,
  { isoCBOR, decodeAttestationObject }: Library[1],
): string {
  const decoded = decodeAttestationObject(new Uint8Array(Buffer.from(attestationObject, "base64url")));
  const authData = decoded.get("authData");
  const encoded = isoCBOR.encode(
    new Map<string, string | Uint8Array | Map<string, string>>([
      ["fmt", "none"],
      ["attStmt", new Map<string, string>()],
      ["authData", authData],
    ]),
  );
  return Buffer.from(encoded).toString("base64url");
}

/** COSE labels (RFC 9052 section 7, RFC 9053 section 7, RFC 8230 section 4). */
const COSE = { kty: 1, alg: 3, crv: -1, n: -1 } as const;

/** Whether the type, curve and size of the key are those of its algorithm (WebAuthn section 5.8.5). */
function isSupportedKey(key: unknown): boolean {
  const members = key as ReadonlyMap<number, unknown>;
  const [kty, alg, curve] = [members.get(COSE.kty), members.get(COSE.alg), members.get(COSE.crv)];
  if (alg === -7) return kty === 2 && curve === 1;
  if (alg === -8) return kty === 1 && curve === 6;
  const modulus = members.get(COSE.n);
  if (alg !== -257 || kty !== 3 || !ArrayBuffer.isView(modulus)) return false;
  return modulus.byteLength >= RSA_BYTES.least && modulus.byteLength <= RSA_BYTES.most;
}
