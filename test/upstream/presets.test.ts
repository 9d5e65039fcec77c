/** What is special about Google, Microsoft, Apple and GitHub, and what each claim brings about. */
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { ProvidersInput } from "../../config/providers.ts";
import type { ProviderPerson } from "../../testing/index.ts";
import type { UpstreamFault, UpstreamIdentity } from "../../upstream/upstream.ts";
import { createStage, type Stage } from "./stage.ts";

const stages: Stage[] = [];
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.close();
});

async function opened(...settings: Parameters<typeof createStage>): Promise<Stage> {
  const stage = await createStage(...settings);
  stages.push(stage);
  return stage;
}

/** What comes of it: an identity, or the reason of a fault. */
type Outcome = Partial<UpstreamIdentity> | "lied" | "refused" | "stranger";

async function outcome(stage: Stage): Promise<unknown> {
  return stage.travel().catch((error: unknown) => (error as UpstreamFault).reason);
}

async function expectOutcome(stage: Stage, person: ProviderPerson, expected: Outcome): Promise<void> {
  stage.provider.signIn(person);
  const came = await outcome(stage);
  if (typeof expected === "string") expect(came).toBe(expected);
  else expect(came).toMatchObject(expected);
}

describe("any provider", () => {
  const vouched = { email: "ada@example.org", vouched: true };
  const unvouched = { email: "ada@example.org", vouched: false };
  it.each<[trustsEmail: boolean, claims: Readonly<Record<string, unknown>>, expected: Outcome]>([
    [true, { email: "ada@example.org", email_verified: true }, vouched],
    [true, { email: "ada@example.org", email_verified: "true" }, vouched],
    [true, { email: "ada@example.org", email_verified: "false" }, unvouched],
    [true, { email: "ada@example.org", email_verified: 1 }, unvouched],
    [true, { email: "ada@example.org", email_verified: ["true"] }, unvouched],
    [true, { email: "ada@example.org" }, unvouched],
    [true, { email_verified: true }, { vouched: false }],
    [false, { email: "ada@example.org", email_verified: true }, unvouched],
  ])(
    "vouches for an address only if it is trusted to (%s), and says so: %j [D-PROV-22]",
    async (trustsEmail, claims, expected) => {
      await expectOutcome(await opened({ provider: { trustsEmail } }), { sub: "1", ...claims }, expected);
    },
  );

  it("vouches for no address that its ID token does not have [D-PROV-22]", async () => {
    const stage = await opened({
      provider: { trustsEmail: true },
      options: { userinfoOnly: ["email", "email_verified"] },
    });
    await expectOutcome(stage, { sub: "1", email: "ada@example.org", email_verified: true }, unvouched);
  });

  it.each<[email: unknown]>([
    [`${"a".repeat(250)}@example.org`],
    ["ada@example.org\nBcc: eve@example.org"],
    ["ada"],
    ["@"],
    ["ada@eve@example.org"],
    [["ada@example.org"]],
    [{ toString: "ada@example.org" }],
    ["ada\u0000@example.org"],
  ])("has an address that is none, which is left out: %j", async (email) => {
    const stage = await opened({ provider: { trustsEmail: true } });
    stage.provider.signIn({ sub: "1", email: email as string, email_verified: true });
    const came = await stage.travel();
    expect(came.email).toBeUndefined();
    expect(came.vouched).toBe(false);
  });

  it.each<[claims: Readonly<Record<string, unknown>>, expected: Pick<UpstreamIdentity, "name" | "surname">]>([
    [
      { given_name: " Ada ", family_name: "Lovelace" },
      { name: "Ada", surname: "Lovelace" },
    ],
    [{ name: "Ada Lovelace" }, { name: "Ada Lovelace" }],
    [{ name: "Ada Lovelace", family_name: "Lovelace" }, { surname: "Lovelace" }],
    [{ given_name: "a".repeat(101), family_name: "𝒜".repeat(100) }, { surname: "𝒜".repeat(100) }],
    [{ given_name: "Ada\u0007", family_name: 7 }, {}],
    [{ given_name: "  ", family_name: "\uD800" }, {}],
  ])("has names that fit the fields, or none: %j", async (claims, expected) => {
    const stage = await opened();
    stage.provider.signIn({ sub: "1", ...claims });
    const { name, surname } = await stage.travel();
    expect({ ...(name && { name }), ...(surname && { surname }) }).toEqual(expected);
  });

  it.each(["__proto__", "constructor", "ADA", "ada", "a b", "é", "e\u0301", "s".repeat(255), "7"])(
    "has a subject that is taken as it is: %j [D-PROV-23]",
    async (sub) => {
      await expectOutcome(await opened(), { sub }, { subject: sub });
      expect(Object.prototype).not.toHaveProperty("provider");
    },
  );

  it.each(["", "s".repeat(256), "a\u0000", "a\nb", "\uD800"])(
    "has a subject that can't be one: %j [D-PROV-23]",
    async (sub) => {
      await expectOutcome(await opened(), { sub }, "lied");
    },
  );

  const FIVE_MINUTES = 300;
  it.each<[trustsMfa: boolean, amr: unknown, age: number | null, mfa: boolean]>([
    [true, ["pwd", "mfa"], 0, true],
    [true, ["mfa"], FIVE_MINUTES, true],
    [true, ["mfa"], FIVE_MINUTES + 1, false],
    [true, ["mfa"], -10, true],
    [true, ["mfa"], -11, false],
    [true, ["mfa"], null, false],
    [true, ["pwd", "otp"], 0, false],
    [true, "mfa", 0, false],
    [true, undefined, 0, false],
    [false, ["mfa"], 0, false],
  ])(
    "has asked for a second factor, if it is trusted (%s): amr %j, %s s ago: %s [D-PROV-24]",
    async (trustsMfa, amr, age, mfa) => {
      const stage = await opened({ provider: { trustsMfa } });
      const now = Math.floor(stage.clock.now() / 1000);
      const auth_time = age === null ? null : now - age;
      stage.provider.signIn({ sub: "1", auth_time, ...(amr !== undefined && { amr: amr as string[] }) });
      const came = await stage.travel();
      expect(came.mfa).toBe(mfa);
      expect(came.auth_time ?? 0).toBeLessThanOrEqual(now);
    },
  );

  it("says when somebody signed in, but no time that has not come [D-PROV-25]", async () => {
    const stage = await opened();
    const now = Math.floor(stage.clock.now() / 1000);
    await expectOutcome(stage, { sub: "1", auth_time: now - 3600 }, { auth_time: now - 3600 });
    await expectOutcome(stage, { sub: "1", auth_time: now + 5 }, { auth_time: now });
    stage.provider.signIn({ sub: "1", auth_time: now + 600 });
    expect(await stage.travel()).not.toHaveProperty("auth_time");
    stage.provider.signIn({ sub: "1", auth_time: null });
    expect(await stage.travel()).not.toHaveProperty("auth_time");
  });

  it("is asked for a fresh sign-in, the address that was typed, and the language [D-PROV-26]", async () => {
    const stage = await opened();
    await stage.travel({ fresh: true, loginHint: "ada@example.org", locale: "pl" });
    await stage.travel({ maxAge: 60 });
    const [fresh, aged] = stage.provider.requests.filter(({ endpoint }) => endpoint === "authorize");
    expect(fresh?.parameters).toMatchObject({
      prompt: "login",
      max_age: "0",
      login_hint: "ada@example.org",
      ui_locales: "pl",
    });
    expect(aged?.parameters).toMatchObject({ max_age: "60" });
    expect(aged?.parameters).not.toHaveProperty("prompt");
  });
});

/** `hd`: the domains that may sign in; claims: what Google says; and what happens. */
const GOOGLE: readonly [hd: string[] | undefined, claims: Readonly<Record<string, unknown>>, Outcome][] = [
  [undefined, { email: "ada@gmail.com", email_verified: true }, { vouched: true }],
  [undefined, { email: "Ada@GMAIL.com", email_verified: "true" }, { vouched: true }],
  [undefined, { email: "ada@gmail.com", email_verified: false }, { vouched: false }],
  [undefined, { email: "ada@corp.example", email_verified: true, hd: "corp.example" }, { vouched: true }],
  [undefined, { email: "ada@corp.example", email_verified: true }, { vouched: false }],
  [undefined, { email: "ada@corp.example", email_verified: true, hd: "" }, { vouched: false }],
  [undefined, { email: "ada@corp.example", email_verified: true, hd: ["corp.example"] }, { vouched: false }],
  [undefined, { email: "ada@gmail.com.example", email_verified: true }, { vouched: false }],
  [undefined, { email: "ada@xgmail.com", email_verified: true }, { vouched: false }],
  [
    ["corp.example"],
    { email: "ada@corp.example", email_verified: true, hd: "corp.example" },
    { vouched: true },
  ],
  [["corp.example"], { email: "ada@corp.example", email_verified: true }, "stranger"],
  [["corp.example"], { email: "ada@gmail.com", email_verified: true }, "stranger"],
  [["corp.example"], { email: "ada@other.example", email_verified: true, hd: "other.example" }, "stranger"],
  [["corp.example"], { email: "ada@corp.example", email_verified: true, hd: ["corp.example"] }, "stranger"],
  [
    ["corp.example", "b.example"],
    { email: "ada@b.example", email_verified: true, hd: "b.example" },
    { vouched: true },
  ],
];

async function createGoogle(hd: string[] | undefined): Promise<Stage> {
  const options = { client_id: "google-client", client_secret: "google-secret" };
  return opened({ key: "google", options, provider: { ...options, ...(hd && { hd }) } });
}

describe("Google", () => {
  it.each(GOOGLE)("hd %j, claims %j: %j [D-PROV-27]", async (hd, claims, expected) => {
    const stage = await createGoogle(hd);
    await expectOutcome(stage, { sub: "1", ...claims }, expected);
    const [, authorization] = stage.provider.requests;
    expect(authorization?.parameters["hd"]).toBe(hd && (hd.length > 1 ? "*" : hd[0]));
  });

  it("shows its list of accounts in place of a fresh sign-in, which it can't prove [D-PROV-26]", async () => {
    const stage = await createGoogle(undefined);
    await stage.travel({ fresh: true, locale: "de" });
    const [, authorization] = stage.provider.requests;
    expect(authorization?.parameters).toMatchObject({ prompt: "select_account", hl: "de" });
    expect(authorization?.parameters).not.toHaveProperty("max_age");
  });
});

const TENANT = "11111111-2222-3333-4444-555555555555";
const OTHER = "99999999-2222-3333-4444-555555555555";
const OID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
const MICROSOFT = "https://login.microsoftonline.com";

/** `tenants`: whose accounts may sign in; claims: what Microsoft says; and what happens. */
const TENANTS: readonly [tenants: string[] | "any", claims: Readonly<Record<string, unknown>>, Outcome][] = [
  ["any", { tid: TENANT, oid: OID }, { issuer: `${MICROSOFT}/${TENANT}/v2.0`, subject: `${TENANT}:${OID}` }],
  ["any", { tid: OTHER, oid: OID }, { issuer: `${MICROSOFT}/${OTHER}/v2.0`, subject: `${OTHER}:${OID}` }],
  [[TENANT], { tid: TENANT, oid: OID }, { issuer: `${MICROSOFT}/${TENANT}/v2.0` }],
  [[TENANT, OTHER], { tid: OTHER, oid: OID }, { issuer: `${MICROSOFT}/${OTHER}/v2.0` }],
  [[TENANT, OTHER], { tid: OID, oid: OID }, "stranger"],
  // Whoever owns a tenant writes any address there (nOAuth): it says nothing of who somebody is, nor whose mailbox it is.
  ["any", { tid: OTHER, oid: OID, email: "ada@corp.example" }, { email: "ada@corp.example", vouched: false }],
  ["any", { tid: OTHER, oid: OID, email: "ada@corp.example", email_verified: true }, { vouched: false }],
  ["any", { tid: OTHER, oid: OID, email: "ada@corp.example", xms_edov: true }, { vouched: false }],
  [[TENANT], { tid: TENANT, oid: OID, email: "ada@corp.example" }, { vouched: false }],
  [[TENANT], { tid: TENANT, oid: OID, email: "ada@corp.example", email_verified: true }, { vouched: false }],
  // The issuer of another tenant than its own.
  [[TENANT], { tid: OTHER, oid: OID }, "lied"],
  ["any", { oid: OID }, "lied"],
  ["any", { tid: TENANT }, "lied"],
  ["any", { tid: TENANT, oid: `${OID}:${OID}` }, "lied"],
  ["any", { tid: TENANT, oid: OID.toUpperCase() }, "lied"],
  ["any", { tid: `${TENANT}/v2.0/..`, oid: OID }, "lied"],
];

describe("Microsoft", () => {
  it.each(TENANTS)("tenants %j, claims %j: %j [D-PROV-28]", async (tenants, claims, expected) => {
    const stage = await elsewhere("microsoft", { tenants });
    await expectOutcome(stage, { sub: "of this client", ...claims }, expected);
    const address = tenants === "any" ? "common" : tenants.length === 1 ? TENANT : "organizations";
    expect(stage.provider.requests[0]?.url).toBe(
      `${MICROSOFT}/${address}/v2.0/.well-known/openid-configuration`,
    );
  });

  it("is believed about an address only with a list of tenants, and if it says that it checked it [D-PROV-28]", async () => {
    const stage = await elsewhere("microsoft", { tenants: [TENANT], trustsEmail: true });
    const person = { sub: "1", tid: TENANT, oid: OID, email: "ada@corp.example" };
    await expectOutcome(stage, person, { vouched: false });
    await expectOutcome(stage, { ...person, email_verified: true }, { vouched: true });
  });

  it("signs for personal accounts with keys that count for no tenant [D-PROV-28]", async () => {
    const stage = await elsewhere("microsoft", { tenants: "any" });
    stage.provider.keyIssuer = `${MICROSOFT}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0`;
    await expectOutcome(stage, { sub: "1", tid: TENANT, oid: OID }, "lied");
    stage.provider.keyIssuer = `${MICROSOFT}/{tenantid}/v2.0`;
    stage.clock.advance(3600);
    await expectOutcome(stage, { sub: "1", tid: TENANT, oid: OID }, { subject: `${TENANT}:${OID}` });
  });
});

const parse = (part: string): unknown => JSON.parse(Buffer.from(part, "base64url").toString());

describe("Apple", () => {
  it("gets a secret that its key has signed, comes back with a form, and names nobody [D-PROV-29]", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const secrets: string[] = [];
    const stage = await opened({
      key: "apple",
      options: { client_id: "com.example.web", isSecret: (secret) => secrets.push(secret) > 0 },
      provider: {
        client_id: "com.example.web",
        team_id: "TEAM123456",
        key_id: "KEY1234567",
        private_key: String(privateKey.export({ format: "pem", type: "pkcs8" })),
      },
    });
    const person = {
      sub: "000123.abc.0456",
      email: "x7@privaterelay.appleid.com",
      email_verified: "true",
    } as const;
    stage.provider.signIn({ ...person, name: "Ada", given_name: "Ada" });
    const first = await stage.travel();
    expect(first).toMatchObject({ subject: person.sub, email: person.email, vouched: true });
    expect(first).not.toHaveProperty("name");
    expect(stage.provider.requests[1]?.parameters).toMatchObject({
      response_mode: "form_post",
      scope: "openid email",
    });
    // Apple takes no secret that is older than six months.
    stage.clock.advance(200 * 86_400);
    await stage.travel();
    const now = Math.floor(stage.clock.now() / 1000);
    expect(secrets).toHaveLength(2);
    const [header = "", payload = "", signature = ""] = secrets[1]!.split(".");
    expect(parse(header)).toEqual({ alg: "ES256", kid: "KEY1234567" });
    expect(parse(payload)).toEqual({
      iss: "TEAM123456",
      sub: "com.example.web",
      aud: stage.provider.issuer,
      iat: now,
      exp: now + 300,
    });
    const key = {
      key: createPublicKey(publicKey.export({ format: "pem", type: "spki" })),
      dsaEncoding: "ieee-p1363",
    } as const;
    expect(
      verify("sha256", Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, "base64url")),
    ).toBe(true);
  });
});

/** What GitHub's user API answers, and what happens. */
const GITHUB: readonly [user: Readonly<Record<string, unknown>>, emails: unknown, Outcome][] = [
  [
    { id: 7, login: "ada", name: "Ada Lovelace" },
    [
      { email: "old@example.org", primary: false, verified: true },
      { email: "ada@example.org", primary: true, verified: true },
    ],
    {
      issuer: "https://github.com",
      subject: "7",
      email: "ada@example.org",
      vouched: true,
      name: "Ada Lovelace",
    },
  ],
  [{ id: 7 }, [{ email: "ada@example.org", primary: true, verified: false }], { vouched: false }],
  [{ id: 7 }, [{ email: "ada@example.org", primary: true, verified: "true" }], { vouched: false }],
  // The address that a person shows in public may be anybody's.
  [{ id: 7, email: "eve@example.org" }, [{ email: "ada@example.org", verified: true }], { vouched: false }],
  [{ id: 7 }, [], { subject: "7", vouched: false }],
  [{ id: 7 }, { message: "Not Found" }, "lied"],
  [{ id: "7" }, [], "lied"],
  [{ id: 7.5 }, [], "lied"],
  [{ id: -7 }, [], "lied"],
  [{ id: 2 ** 60 }, [], "lied"],
  [{ login: "ada" }, [], "lied"],
];

describe("GitHub", () => {
  it.each(GITHUB)("user %j, addresses %j: %j [D-PROV-30]", async (user, emails, expected) => {
    const stage = await elsewhere("github", { trustsEmail: true });
    await expectOutcome(stage, { sub: "unused", ...user, emails }, expected);
  });

  it("is believed about an address only with `trustsEmail`, has fixed hosts, and its errors have status 200 [D-PROV-30]", async () => {
    const stage = await elsewhere("github", {});
    const emails = [{ email: "ada@example.org", primary: true, verified: true }];
    await expectOutcome(stage, { sub: "1", id: 7, emails }, { email: "ada@example.org", vouched: false });
    expect(stage.provider.requests.map(({ url }) => url.replace(/\?.*/, ""))).toEqual([
      "https://github.com/login/oauth/authorize",
      "https://github.com/login/oauth/access_token",
      "https://api.github.com/user",
      "https://api.github.com/user/emails",
    ]);
    expect(stage.provider.requests[0]?.parameters).toMatchObject({
      scope: "read:user user:email",
      code_challenge_method: "S256",
    });
    stage.provider.lies.set("error with status 200");
    expect(await outcome(stage)).toBe("refused");
    expect(stage.lines.at(-1)).toContain("bad_verification_code");
  });
});

/** A provider whose hosts are fixed: its requests come to the test provider. */
async function elsewhere(
  key: "microsoft" | "github",
  settings: Partial<ProvidersInput[string]>,
): Promise<Stage> {
  const client = { client_id: "a-client", client_secret: "a-secret" };
  return opened({ key, options: client, isElsewhere: true, provider: { ...settings, ...client } });
}
