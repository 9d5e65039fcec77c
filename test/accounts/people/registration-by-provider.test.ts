/** Registration by somebody who came back from a provider, over a real storage: with and without our mail. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { UpstreamIdentity } from "../../../upstream/upstream.ts";
import type { RegistrationForm } from "../../../accounts/people/registration-form.ts";
import { IDENTITY } from "../../../records/people/identity-kinds.ts";
import { AT, from, openPeople, PASSWORD, type PeopleStage } from "./stage.ts";

const EMAIL = "ada@gmail.com";
const TERMS = { url: "https://example.org/terms", version: "1" };

let stage: PeopleStage;
beforeEach(async () => {
  stage = await openPeople({ fields: { username: "optional", name: "optional" }, terms: TERMS });
});

/** Who comes back from Google. */
const ada: UpstreamIdentity = {
  provider: "google",
  issuer: "https://accounts.google.com",
  subject: "1",
  email: EMAIL,
  vouched: true,
  name: "Ada",
  mfa: false,
};
const unvouched: UpstreamIdentity = { ...ada, vouched: false };
const ofCorp: UpstreamIdentity = {
  provider: "corp",
  issuer: "https://login.corp.example",
  subject: "1",
  email: "ada@staff.example",
  vouched: true,
  mfa: false,
};

function start(
  identity: UpstreamIdentity,
  parts: Partial<RegistrationForm> = {},
  { interaction = "i", at = AT } = {},
) {
  const form = { email: EMAIL, password: null, termsVersion: TERMS.version, identity, ...parts };
  return stage.registrations.start(interaction, form, at);
}
const confirm = (code: string, interaction = "i") => stage.registrations.confirm(interaction, { code }, AT);
const accounts = async () => (await stage.accounts.list()).items;
const identities = async () => (await stage.storage.records.all(IDENTITY.name)).length;
const sent = async () => (await stage.mails()).filter(({ to }) => to !== "");

describe("with the address that the provider vouches for", () => {
  it("the account is made at once, with a confirmed address, the identity and no mail [D-PROV-110]", async () => {
    const started = await start(ada, { name: "Ada L." });
    expect(started).toMatchObject({
      kind: "created",
      record: { email: EMAIL, email_verified: true, name: "Ada L.", terms_version: "1" },
      identity: ada,
    });
    const owner = await stage.identities.find(ada);
    expect(owner?.ways).toMatchObject({ provider: { links: [{ provider: "google", registered: true }] } });
    expect(owner?.ways.password).toBeUndefined();
    expect(await sent()).toEqual([]);
  });

  it("somebody whose account was deleted comes back as somebody new [D-PROV-110]", async () => {
    await start(ada);
    const former = await stage.identities.find(ada);
    await stage.accounts.delete(former?.sub ?? "");
    await expect(stage.identities.find(ada)).resolves.toBeUndefined();
    await expect(start(ada, {}, { interaction: "j" })).resolves.toMatchObject({ kind: "created" });
    const owner = await stage.identities.find(ada);
    expect(owner?.email).toBe(EMAIL);
    expect(owner?.sub).not.toBe(former?.sub);
  });

  it("a password of the form counts for nothing: there is none [D-PROV-111]", async () => {
    await expect(start(ada, { password: PASSWORD })).resolves.toMatchObject({ kind: "created" });
    const owner = await stage.identities.find(ada);
    await expect(stage.accounts.verifyPassword(owner?.sub ?? "", PASSWORD)).resolves.toBe(false);
  });

  it.each([
    ["in another case", "Ada@gmail.com"],
    ["of somebody else", "victim@gmail.com"],
    ["that looks the same", "аda@gmail.com"],
  ])("an address %s is confirmed by our own mail [D-PROV-112]", async (_what, email) => {
    await expect(start(ada, { email })).resolves.toEqual({ kind: "sent" });
    expect(await accounts()).toEqual([]);
    const { to, code } = await stage.mail();
    expect(to).toBe(email);
    await expect(confirm(code)).resolves.toMatchObject({
      kind: "created",
      record: { email, email_verified: true },
      identity: ada,
    });
  });

  it("an address that has an account, of whatever state, is never linked or registered [D-PROV-113]", async () => {
    const { sub } = await stage.accounts.create({ email: EMAIL, password: PASSWORD, email_verified: true });
    await expect(start(ada)).resolves.toEqual({ kind: "address-known" });
    await stage.accounts.disable(sub);
    await expect(start(ada)).resolves.toEqual({ kind: "address-known" });
    expect([await identities(), (await accounts()).length, await sent()]).toEqual([0, 1, []]);
  });

  it("two first sign-ins at once make one account [D-PROV-114]", async () => {
    const started = await Promise.all(["i", "j", "k"].map((interaction) => start(ada, {}, { interaction })));
    expect(started.map(({ kind }) => kind).filter((kind) => kind === "created")).toHaveLength(1);
    // The others find the identity, or the address, and never make another account.
    expect([await identities(), (await accounts()).length]).toEqual([1, 1]);
    await expect(start(ada, { email: EMAIL })).resolves.toEqual({ kind: "identity-known" });
  });

  it("a taken username is a problem of the form, at most ten times", async () => {
    await stage.accounts.create({ email: "grace@example.com", username: "ada", password: PASSWORD });
    for (let i = 0; i < 10; i += 1)
      await expect(start(ada, { username: "ada" })).resolves.toEqual({
        kind: "invalid",
        problems: { username: "taken" },
      });
    await expect(start(ada, { username: "ada" })).resolves.toMatchObject({ kind: "limited" });
    await expect(start(ada)).resolves.toMatchObject({ kind: "created" });
  });

  it("the registrations of a network are limited, and mail that others asked for stops nobody [D-PROV-115]", async () => {
    for (let i = 0; i < 40; i += 1) await start(unvouched, {}, { interaction: `mail-${i}`, at: from(i) });
    await expect(start(ada, {}, { at: from(1_000) })).resolves.toMatchObject({ kind: "created" });
    const invalid = { termsVersion: "0" };
    await expect(start(ada, invalid)).resolves.toMatchObject({ kind: "invalid" });
    let answer = await start({ ...ada, subject: "2" });
    for (let i = 0; i < 100 && answer.kind !== "limited"; i += 1)
      answer = await start({ ...ada, subject: "2" });
    expect(answer).toMatchObject({ kind: "limited", whose: "network" });
  });

  it("the check of the configuration decides, and never sees what the provider says besides the form", async () => {
    const asked: object[] = [];
    const registrations = stage.registrationsWith({
      check: (request) => {
        asked.push(request);
        return false;
      },
    });
    const form = { email: EMAIL, password: null, identity: ada };
    await expect(registrations.start("i", form, AT)).resolves.toEqual({ kind: "refused" });
    expect(asked).toEqual([{ email: EMAIL, client_id: "news", address: AT.address }]);
    expect(await accounts()).toEqual([]);
  });
});

describe("with an address that nobody vouches for", () => {
  it("known and unknown ones get the same answer and as many mails, without a word of the provider [D-PROV-116]", async () => {
    await stage.accounts.create({ email: "known@gmail.com", password: PASSWORD, email_verified: true });
    const hostile = { ...unvouched, name: "Visit evil.example", surname: "now" };
    for (const email of ["known@gmail.com", EMAIL])
      await expect(start({ ...hostile, email }, { email })).resolves.toEqual({ kind: "sent" });
    const mails = await sent();
    expect(mails.map(({ kind, to }) => [kind, to])).toEqual([
      ["known-address", "known@gmail.com"],
      ["confirm-registration", EMAIL],
    ]);
    expect(JSON.stringify(mails)).not.toMatch(/evil|google/i);
    await expect(confirm("00000000")).resolves.toMatchObject({ kind: "wrong" });
    expect(await identities()).toBe(0);
  });

  it("the identity of the form that was confirmed counts, not that of a later one", async () => {
    await start(unvouched);
    const { code } = await stage.mail();
    await start({ ...unvouched, subject: "2" });
    await expect(confirm(code)).resolves.toMatchObject({ kind: "wrong" });
    await expect(confirm((await stage.mail()).code)).resolves.toMatchObject({ kind: "created" });
    await expect(stage.identities.find(ada)).resolves.toBeUndefined();
    await expect(stage.identities.find({ ...ada, subject: "2" })).resolves.toMatchObject({ email: EMAIL });
  });

  it("of two who confirm with one identity, one gets an account", async () => {
    await start(unvouched, { email: "one@example.com" }, { interaction: "i" });
    const one = (await stage.mail()).code;
    await start(unvouched, { email: "two@example.com" }, { interaction: "j" });
    const two = (await stage.mail()).code;
    const ended = await Promise.all([confirm(one, "i"), confirm(two, "j")]);
    expect(ended.map(({ kind }) => kind).toSorted()).toEqual(["created", "identity-known"]);
    expect([await identities(), (await accounts()).length]).toEqual([1, 1]);
  });

  it("a taken username is said after the confirmation, and another one makes the account", async () => {
    await stage.accounts.create({ email: "grace@example.com", username: "ada", password: PASSWORD });
    await start(unvouched, { username: "ada" });
    await expect(confirm((await stage.mail()).code)).resolves.toEqual({ kind: "username-taken" });
    await expect(stage.registrations.rename("i", "ada-2", AT)).resolves.toMatchObject({
      kind: "created",
      record: { username: "ada-2" },
      identity: unvouched,
    });
  });
});

describe("where a provider is the only way in for a domain", () => {
  const domain = { kind: "invalid", problems: { email: "domain" } };

  it("an address outside its domains is refused, and one of its domains by any other provider [D-PROV-117]", async () => {
    await expect(start(ofCorp, { email: "ada@staff.example" })).resolves.toMatchObject({ kind: "created" });
    await expect(start({ ...ofCorp, subject: "2" }, { email: "ada@gmail.com" })).resolves.toEqual(domain);
    const posing = { ...ada, email: "boss@staff.example" };
    await expect(start(posing, { email: "boss@staff.example" })).resolves.toEqual(domain);
    // Nobody learns from that which accounts there are.
    await expect(start(posing, { email: "ada@staff.example" })).resolves.toEqual(domain);
    expect(await sent()).toEqual([]);
  });
});

describe("what a provider says", () => {
  it.each([
    ["an address that is none", { email: "not an address" }],
    ["no address", { email: undefined }],
    ["an address of 10 kB", { email: `${"a".repeat(10_000)}@gmail.com` }],
    ["an address with a line break", { email: `${EMAIL}\n` }],
  ])("%s confirms nothing [D-PROV-118]", async (_what, { email }) => {
    const { email: _email, ...rest } = ada;
    const identity = email === undefined ? rest : { ...rest, email };
    await expect(start(identity)).resolves.toEqual({ kind: "sent" });
    await expect(start(identity, { email: email ?? "" })).resolves.toMatchObject({ kind: "invalid" });
    expect(await accounts()).toEqual([]);
  });

  it("takes __proto__ as a name and as a subject like any other text", async () => {
    const identity = { ...ada, subject: "__proto__", name: "__proto__" };
    await expect(start(identity, { name: "__proto__" })).resolves.toMatchObject({
      kind: "created",
      record: { name: "__proto__" },
    });
    await expect(stage.identities.find(identity)).resolves.toMatchObject({ email: EMAIL });
    await expect(stage.identities.find({ ...ada, subject: "constructor" })).resolves.toBeUndefined();
  });
});
