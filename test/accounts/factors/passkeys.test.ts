/** Passkeys with an authenticator whose keys and signatures are real, over a real storage. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { decodeAttestationObject, isoCBOR } from "@simplewebauthn/server/helpers";
import { factorStateOf } from "../../../accounts/factors/factor.ts";
import type { Enrolment, Enrolments } from "../../../accounts/factors/enrolment.ts";
import { createPasskeys, type PasskeyChallenge, type Passkeys } from "../../../accounts/factors/passkeys.ts";
import { checkPasskeyDomains } from "../../../accounts/factors/factors.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { PASSKEY } from "../../../records/factors/factor-kinds.ts";
import {
  type AnswerOverrides,
  type AuthenticatorOptions,
  createAuthenticator,
  type PublicKeyCredentialJson,
  type TestAuthenticator,
} from "../../../testing/authenticator.ts";
import { totpCode } from "../../../testing/totp-code.ts";
import { AT, openPeople, PASSWORD, type PeopleStage, RELYING_PARTY } from "../people/stage.ts";

const ORIGIN = "https://login.example";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const REFUSED = { kind: "refused" };

let stage: PeopleStage;
let passkeys: Passkeys;
let enrolments: Enrolments;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  passkeys = stage.factors.passkeys as Passkeys;
  enrolments = stage.factors.enrolments as Enrolments;
  sub = await person("ada@example.com");
});

/** Somebody with an app, so that further factors need no code by mail. */
async function person(email: string): Promise<string> {
  const account = await stage.accounts.create({ email, password: PASSWORD, email_verified: true });
  await stage.accounts.addApp(account.sub, { secret: SECRET });
  return account.sub;
}

const record = async (who = sub) => (await stage.accounts.record(who)) as AccountRecord;

async function begin(who = sub): Promise<Enrolment> {
  const begun = await enrolments.begin(who, "place", undefined, AT);
  if (begun.kind !== "begun") throw new Error(begun.kind);
  return begun.enrolment;
}

function publicKeyOf({ passkey }: Enrolment) {
  if (passkey === null) throw new Error("no passkey is offered");
  return passkey.publicKey;
}

async function enrol(authenticator: TestAuthenticator, overrides?: AnswerOverrides, who = sub) {
  const enrolment = await begin(who);
  const credential = authenticator.create(publicKeyOf(enrolment), overrides);
  return enrolments.addPasskey(enrolment, credential, "Phone", {}, AT);
}

/** An authenticator with a passkey of the account. */
async function owned(options: Partial<AuthenticatorOptions> = {}, who = sub): Promise<TestAuthenticator> {
  const authenticator = createAuthenticator({ origin: ORIGIN, ...options });
  await expect(enrol(authenticator, {}, who)).resolves.toMatchObject({ kind: "changed" });
  return authenticator;
}

/** An authenticator with a passkey that the account has got while the service was this domain. */
async function madeFor(id: string): Promise<TestAuthenticator> {
  const authenticator = createAuthenticator({ origin: ORIGIN });
  const asked = publicKeyOf(await begin());
  const party = { ...RELYING_PARTY, id, previousIds: [] };
  const then = createPasskeys(party, stage.storage.records, stage.clock);
  const credential = authenticator.create({ ...asked, rp: { id } });
  const passkey = await then.checkNew(credential, asked.challenge, "Phone");
  if (passkey === undefined) throw new Error("the passkey was refused");
  const factor = { kind: "passkey", passkey, userHandle: asked.user.id } as const;
  await stage.accounts.addFactor(sub, factor, factorStateOf(await record()), {}, AT.caller);
  return authenticator;
}

/** Labels and values (RFC 9052 section 7). */
type CoseKey = Readonly<Record<number, number | Uint8Array>>;
const EXPONENT = Uint8Array.of(1, 0, 1);
const POINT = new Uint8Array(48).fill(1);

/** The same credential with another statement of its authenticator, or another key. */
function withAttestation(credential: PublicKeyCredentialJson, fmt: string, key?: CoseKey) {
  const bytes = new Uint8Array(Buffer.from(String(credential.response["attestationObject"]), "base64url"));
  const authData = decodeAttestationObject(bytes).get("authData");
  const head = 55 + Buffer.from(credential.id, "base64url").length;
  const cose = key && new Map(Object.entries(key).map(([label, value]) => [Number(label), value]));
  const changed = cose && Buffer.concat([authData.subarray(0, head), isoCBOR.encode(cose)]);
  const statement = { alg: -7, sig: new Uint8Array(70), x5c: [Uint8Array.of(48, 0)] };
  const attestationObject = isoCBOR.encode(
    new Map<string, unknown>([
      ["fmt", fmt],
      ["attStmt", new Map(Object.entries(fmt === "none" ? {} : statement))],
      ["authData", changed === undefined ? authData : new Uint8Array(changed)],
    ]) as Parameters<typeof isoCBOR.encode>[0],
  );
  const encoded = Buffer.from(attestationObject).toString("base64url");
  return { ...credential, response: { ...credential.response, attestationObject: encoded } };
}

/** Asks for any passkey and answers. */
function answer(
  authenticator: TestAuthenticator,
  overrides: AnswerOverrides = {},
  challenge: PasskeyChallenge = passkeys.challenge(),
): readonly [PublicKeyCredentialJson, PasskeyChallenge] {
  return [authenticator.get(passkeys.anyRequest(challenge), overrides), challenge];
}

async function signIn(authenticator: TestAuthenticator, overrides?: AnswerOverrides, who?: string) {
  const [credential, challenge] = answer(authenticator, overrides);
  return passkeys.use(credential, challenge, who);
}

describe("a passkey", () => {
  it.each([
    ["ES256", -7, true],
    ["EdDSA", -8, true],
    ["RS256", -257, false],
  ] as const)("of %s is added and signs in [D-FACTOR-36]", async (_name, algorithm, synced) => {
    const authenticator = await owned({ algorithm, synced });
    await expect(signIn(authenticator)).resolves.toMatchObject({
      kind: "right",
      account: { sub },
      backupEligible: synced,
    });
    const [id] = authenticator.ids;
    const now = Math.floor(stage.clock.now() / 1000);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({
      passkeys: [{ id, name: "Phone", added_at: now, last_used_at: now, backed_up: synced }],
    });
  });

  it("is asked for by the options that WebAuthn and the decisions name [D-FACTOR-1, D-FACTOR-31, D-FACTOR-36]", async () => {
    const authenticator = await owned();
    const challenge = passkeys.challenge();
    expect(Buffer.from(challenge.challenge, "base64url")).toHaveLength(32);
    expect(passkeys.anyRequest(challenge)).toMatchObject({
      rpId: "login.example",
      userVerification: "required",
      allowCredentials: [],
    });
    const [id] = authenticator.ids;
    const request = await passkeys.accountRequest(await record(), challenge);
    expect(request.allowCredentials).toMatchObject([{ id, type: "public-key" }]);
    const creation = publicKeyOf(await begin());
    expect(creation).toMatchObject({
      rp: { id: "login.example" },
      attestation: "none",
      excludeCredentials: [{ id }],
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    });
    expect(Buffer.from(creation.user.id, "base64url")).toHaveLength(32);
    expect(() => authenticator.create(creation)).toThrow(/InvalidStateError/);
  });

  it.each<readonly [string, AnswerOverrides]>([
    ["another type", { type: "webauthn.get" }],
    ["another challenge", { challenge: "AAAA" }],
    ["another origin", { origin: "https://login.example.evil.example" }],
    ["an origin with another port", { origin: "https://login.example:8443" }],
    ["plain http", { origin: "http://login.example" }],
    ["a page in a frame", { crossOrigin: true }],
    ["a page in a frame, named", { crossOrigin: true, topOrigin: "https://evil.example" }],
    ["another rpId", { rpId: "evil.example" }],
    ["an earlier rpId", { rpId: "old.example" }],
    ["nobody present", { userPresent: false }],
    ["nobody verified", { userVerified: false }],
    ["a backup without eligibility", { backupEligible: false, backedUp: true }],
  ])("is not added with %s", async (_what, overrides) => {
    const authenticator = createAuthenticator({ origin: ORIGIN });
    await expect(enrol(authenticator, overrides)).resolves.toEqual({ kind: "wrong" });
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ passkeys: [] });
  });

  it.each<readonly [string, CoseKey]>([
    ["RS256 with 1,024 bits", { 1: 3, 3: -257, [-1]: new Uint8Array(128).fill(255), [-2]: EXPONENT }],
    ["RS256 with 8,192 bits", { 1: 3, 3: -257, [-1]: new Uint8Array(1_024).fill(255), [-2]: EXPONENT }],
    ["RSA with SHA-1", { 1: 3, 3: -65_535, [-1]: new Uint8Array(256).fill(255), [-2]: EXPONENT }],
    ["RSA that says ES256", { 1: 3, 3: -7, [-1]: new Uint8Array(256).fill(255), [-2]: EXPONENT }],
    ["ES256 on another curve", { 1: 2, 3: -7, [-1]: 2, [-2]: POINT, [-3]: POINT }],
    ["ES384", { 1: 2, 3: -35, [-1]: 2, [-2]: POINT, [-3]: POINT }],
    ["EdDSA on another curve", { 1: 1, 3: -8, [-1]: 7, [-2]: POINT }],
    ["no algorithm", { 1: 2, [-1]: 1, [-2]: POINT, [-3]: POINT }],
  ])("is not added with a key of %s", async (_what, key) => {
    const enrolment = await begin();
    const credential = createAuthenticator({ origin: ORIGIN }).create(publicKeyOf(enrolment));
    const made = withAttestation(credential, "none", key);
    await expect(enrolments.addPasskey(enrolment, made, "Phone", {}, AT)).resolves.toEqual({ kind: "wrong" });
  });

  it("is added whatever its authenticator attests, which is not looked at, and keeps known transports [D-FACTOR-36]", async () => {
    const enrolment = await begin();
    const authenticator = createAuthenticator({ origin: ORIGIN });
    const credential = authenticator.create(publicKeyOf(enrolment));
    const { response } = withAttestation(credential, "packed");
    const transports = ["internal", "usb", "usb", "<script>", "x".repeat(5_000)];
    const attested = { ...credential, response: { ...response, transports } };
    await expect(enrolments.addPasskey(enrolment, attested, "Phone", {}, AT)).resolves.toMatchObject({
      kind: "changed",
    });
    await expect(signIn(authenticator)).resolves.toMatchObject({ kind: "right" });
    const { allowCredentials } = await passkeys.accountRequest(await record(), passkeys.challenge());
    expect(allowCredentials).toEqual([
      { type: "public-key", id: credential.id, transports: ["internal", "usb"] },
    ]);
  });

  it.each<readonly [string, AnswerOverrides]>([
    ["another type", { type: "webauthn.create" }],
    ["another challenge", { challenge: "AAAA" }],
    ["another origin", { origin: "https://evil.example" }],
    ["a page in a frame", { crossOrigin: true }],
    ["a page in a frame, named", { topOrigin: "https://evil.example" }],
    ["another rpId", { rpId: "evil.example" }],
    ["nobody present", { userPresent: false }],
    ["nobody verified", { userVerified: false }],
    ["changed backup eligibility", { backupEligible: false, backedUp: false }],
    ["another user handle", { userHandle: Buffer.alloc(32).toString("base64url") }],
    ["no user handle and no account", { userHandle: null }],
  ])("signs nobody in with %s [D-FACTOR-32]", async (_what, overrides) => {
    const authenticator = await owned();
    await expect(signIn(authenticator, overrides)).resolves.toEqual(REFUSED);
    await expect(signIn(authenticator)).resolves.toMatchObject({ kind: "right" });
  });

  it("is accepted from the origin of the other deployment, and without a user handle where the account is known [D-FACTOR-32]", async () => {
    const authenticator = await owned();
    const elsewhere = { origin: "https://id.login.example" };
    await expect(signIn(authenticator, elsewhere)).resolves.toMatchObject({ kind: "right" });
    await expect(signIn(authenticator, { userHandle: null }, sub)).resolves.toMatchObject({ kind: "right" });
  });

  it("signs nobody in with a signature, or data, that was changed", async () => {
    const authenticator = await owned();
    for (const member of ["signature", "authenticatorData", "clientDataJSON"]) {
      const [credential, challenge] = answer(authenticator);
      const bytes = Buffer.from(String(credential.response[member]), "base64url");
      const last = bytes.length - 1;
      bytes[last] = (bytes[last] ?? 0) ^ 1;
      const response = { ...credential.response, [member]: bytes.toString("base64url") };
      await expect(passkeys.use({ ...credential, response }, challenge)).resolves.toEqual(REFUSED);
    }
  });

  it("answers a challenge once within five minutes, even at two processes at the same moment [D-FACTOR-31]", async () => {
    const authenticator = await owned();
    const [credential, challenge] = answer(authenticator);
    const other = stage.otherFactors().passkeys as Passkeys;
    const results = await Promise.all(
      [passkeys, other, passkeys, other].map((who) => who.use(credential, challenge)),
    );
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["refused", "refused", "refused", "right"]);
    await expect(passkeys.use(credential, challenge)).resolves.toEqual(REFUSED);
    const [late, asked] = answer(authenticator);
    stage.clock.advance(300);
    await expect(passkeys.use(late, asked)).resolves.toEqual(REFUSED);
  });

  it("of another account is refused where the account is known", async () => {
    const eve = await person("eve@example.com");
    const hers = await owned({}, eve);
    await expect(signIn(hers, {}, sub)).resolves.toEqual(REFUSED);
    await expect(signIn(hers, {}, eve)).resolves.toMatchObject({ kind: "right", account: { sub: eve } });
  });

  it.each([
    ["the account is disabled", () => stage.accounts.disable(sub)],
    ["the account is deleted", () => stage.accounts.delete(sub)],
    ["it was removed", (id: string) => stage.accounts.removeFactor(sub, id)],
    ["all were removed", () => stage.accounts.removeFactors(sub)],
  ])("is refused like an unknown one once %s", async (_what, act) => {
    const authenticator = await owned();
    await act(authenticator.ids[0] ?? "");
    await expect(signIn(authenticator)).resolves.toEqual(REFUSED);
    const unknown = createAuthenticator({ origin: ORIGIN });
    unknown.create(publicKeyOf(await begin(await person("bob@example.com"))));
    await expect(signIn(unknown)).resolves.toEqual(REFUSED);
  });

  it("with a counter must count up; one that never counts may stay at 0 [D-FACTOR-34]", async () => {
    const key = await owned({ counts: true, synced: false });
    await expect(signIn(key)).resolves.toMatchObject({ kind: "right" });
    await expect(signIn(key, { counter: 2 })).resolves.toEqual(REFUSED);
    await expect(signIn(key, { counter: 0 })).resolves.toEqual(REFUSED);
    await expect(signIn(key, { counter: 4_294_967_295 })).resolves.toMatchObject({ kind: "right" });
    await expect(signIn(key, { counter: 5 })).resolves.toEqual(REFUSED);
    const phone = await owned();
    for (let count = 0; count < 3; count += 1)
      await expect(signIn(phone)).resolves.toMatchObject({ kind: "right" });
  });

  it("with a counter is counted up once by two processes at the same moment [D-FACTOR-34]", async () => {
    const key = await owned({ counts: true, synced: false });
    const other = stage.otherFactors().passkeys as Passkeys;
    // Each has a challenge of its own: what a copy of the key would answer.
    const results = await Promise.all(
      [passkeys, other, passkeys, other].map((who) => who.use(...answer(key, { counter: 7 }))),
    );
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["refused", "refused", "refused", "right"]);
    await expect(signIn(key, { counter: 7 })).resolves.toEqual(REFUSED);
    await expect(signIn(key, { counter: 8 })).resolves.toMatchObject({ kind: "right" });
  });

  it("belongs to one account: its id can't be added to another one [D-FACTOR-36]", async () => {
    const authenticator = await owned();
    const eve = await person("eve@example.com");
    const enrolment = await begin(eve);
    const made = createAuthenticator({ origin: ORIGIN });
    const credential = made.create(publicKeyOf(enrolment));
    const [id = ""] = authenticator.ids;
    // An id of the same length, in the signed data as well.
    const object = Buffer.from(String(credential.response["attestationObject"]), "base64url");
    const own = Buffer.from(credential.id, "base64url");
    Buffer.from(id, "base64url").copy(object, object.indexOf(own));
    const response = { ...credential.response, attestationObject: object.toString("base64url") };
    const stolen = { ...credential, id, rawId: id, response };
    for (const each of [
      stolen,
      { ...credential, id, rawId: id },
      { ...credential, id: "AAAA", rawId: "AAAA" },
    ])
      await expect(enrolments.addPasskey(enrolment, each, "Mine", {}, AT)).resolves.toEqual({
        kind: "wrong",
      });
    await expect(signIn(authenticator)).resolves.toMatchObject({ account: { sub } });
  });

  it("is refused whatever else comes in its place", async () => {
    const authenticator = await owned();
    const [credential, challenge] = answer(authenticator);
    const hostile: readonly unknown[] = [
      undefined,
      null,
      "",
      7,
      [],
      {},
      { ...credential, id: { toString: "x" } },
      { ...credential, rawId: "AAAA" },
      { ...credential, type: "password" },
      { ...credential, response: null },
      { ...credential, response: { ...credential.response, clientDataJSON: "bnVsbA" } },
      { ...credential, response: { ...credential.response, clientDataJSON: "e30" } },
      { ...credential, response: { ...credential.response, authenticatorData: "" } },
      { ...credential, response: { ...credential.response, signature: "A".repeat(100_000) } },
      { ...credential, id: "A".repeat(100_000) },
      JSON.parse('{"__proto__":{"id":"x"}}'),
    ];
    for (const each of hostile) {
      await expect(passkeys.use(each, challenge)).resolves.toEqual(REFUSED);
      await expect(passkeys.checkNew(each, challenge.challenge, "x")).resolves.toBeUndefined();
    }
    const garbage = {
      clientDataJSON: credential.response["clientDataJSON"],
      attestationObject: "oWNmbXRkbm9uZQ",
    };
    await expect(
      passkeys.checkNew({ ...credential, response: garbage }, challenge.challenge, "x"),
    ).resolves.toBeUndefined();
  });

  it("lets a stopped app accept codes again [D-FACTOR-26]", async () => {
    const authenticator = await owned();
    for (let count = 0; count < 100; count += 1) {
      if (count % 5 === 0) stage.clock.advance(900);
      await stage.factors.codes.useApp(sub, "000000", AT);
    }
    stage.clock.advance(900);
    const code = () => totpCode(SECRET, stage.clock.now());
    await expect(stage.factors.codes.useApp(sub, code(), AT)).resolves.toEqual({ kind: "stopped" });
    await expect(signIn(authenticator)).resolves.toMatchObject({ kind: "right" });
    await expect(stage.factors.codes.useApp(sub, code(), AT)).resolves.toEqual({ kind: "right" });
  });

  it("keeps a service from starting under a domain for which it does not work [D-FACTOR-38]", async () => {
    await owned();
    const { records } = stage.storage;
    await expect(checkPasskeyDomains(records, RELYING_PARTY)).resolves.toBeUndefined();
    const moved = { ...RELYING_PARTY, id: "new.example" };
    await expect(checkPasskeyDomains(records, moved)).rejects.toMatchObject({
      code: "invalid_configuration",
    });
    const named = { ...moved, previousIds: ["login.example"] };
    await expect(checkPasskeyDomains(records, named)).resolves.toBeUndefined();
  });

  it("of an earlier domain is asked for where there is none of the current one, and signs in [D-FACTOR-38]", async () => {
    const earlier = await madeFor("old.example");
    const asked = await passkeys.accountRequest(await record(), passkeys.challenge());
    expect([asked.rpId, asked.allowCredentials.map(({ id }) => id)]).toEqual(["old.example", earlier.ids]);
    const challenge = passkeys.challenge();
    const request = await passkeys.accountRequest(await record(), challenge);
    await expect(passkeys.use(earlier.get(request), challenge, sub)).resolves.toMatchObject({
      kind: "right",
    });
    // In the name of the current domain it answers nothing.
    const wrong = passkeys.challenge();
    const forged = earlier.get({ ...wrong, rpId: "old.example" }, { rpId: "login.example" });
    await expect(passkeys.use(forged, wrong)).resolves.toEqual(REFUSED);

    const current = await owned();
    const again = await passkeys.accountRequest(await record(), passkeys.challenge());
    expect([again.rpId, again.allowCredentials.map(({ id }) => id)]).toEqual(["login.example", current.ids]);
    expect(publicKeyOf(await begin()).excludeCredentials.map(({ id }) => id)).toEqual([
      ...earlier.ids,
      ...current.ids,
    ]);
  });

  it("signs nobody in once the service has given its domain up", async () => {
    const authenticator = await owned();
    const [credential, challenge] = answer(authenticator);
    const party = { ...RELYING_PARTY, id: "new.example", previousIds: [] };
    const moved = createPasskeys(party, stage.storage.records, stage.clock);
    await expect(moved.use(credential, challenge)).resolves.toEqual(REFUSED);
  });

  it("leaves nothing behind once it is removed", async () => {
    const authenticator = await owned();
    await stage.accounts.removeFactor(sub, authenticator.ids[0] ?? "");
    await expect(
      stage.storage.records.find(PASSKEY.ref(authenticator.ids[0] ?? "")),
    ).resolves.toBeUndefined();
  });

  it("is limited to ten for each account", async () => {
    for (let count = 0; count < 10; count += 1) await owned();
    await expect(enrolments.begin(sub, "place", undefined, AT)).resolves.toEqual({ kind: "gone" });
  });
});
