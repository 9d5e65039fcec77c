/** What linking an identity needs, over a real storage: the rule that the sign-in and the account page share. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { IdentityProvider } from "../../../config/providers.ts";
import type { UpstreamIdentity } from "../../../upstream/upstream.ts";
import { isInDomains, type StartedLinking } from "../../../accounts/identities/linking.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { AT, from, openPeople, PASSWORD, type PeopleStage, wrongCode } from "../people/stage.ts";

const PLACE = "the sign-in";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const BY_PASSWORD = ["pwd"];
const BY_PASSKEY = ["hwk", "user", "mfa"];
const BY_BOTH = ["pwd", "otp", "mfa"];

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  sub = await newAccount("ada@example.com");
});

/** Of somebody at Google. The address is that of Ada's account here: it must link nothing by itself. */
const ada: UpstreamIdentity = {
  provider: "google",
  issuer: "https://accounts.google.com",
  subject: "1",
  email: "ada@example.com",
  vouched: true,
  mfa: true,
};
const ofCorp: UpstreamIdentity = {
  ...ada,
  provider: "corp",
  issuer: "https://login.corp.example",
  email: "ada@staff.example",
};

async function newAccount(email: string, password: string | null = PASSWORD): Promise<string> {
  const account = { email, email_verified: true, ...(password !== null && { password }) };
  return (await stage.accounts.import(account)).sub;
}
const recordOf = async (of = sub) => (await stage.accounts.record(of)) as AccountRecord;
const need = async (amr: readonly string[], started: Partial<StartedLinking> = {}, of = sub) =>
  stage.linking.need(await recordOf(of), { identity: ada, ...started }, amr);

async function mailedCode(identity = ada, of = sub, place = PLACE): Promise<string> {
  await expect(stage.linking.sendCode(await recordOf(of), identity, place, AT)).resolves.toMatchObject({
    kind: "sent",
  });
  return (await stage.mail()).code;
}
const prove = (code: string, identity = ada, of = sub, place = PLACE) =>
  stage.linking.prove(of, identity, place, code, AT);

async function link(
  amr: readonly string[],
  { confirmed, identity = ada, of = sub }: Partial<StartedLinking> & { readonly of?: string } = {},
) {
  const { sessions_generation } = await recordOf(of);
  const started = { identity, ...(confirmed && { confirmed }) };
  return stage.linking.link(of, started, amr, { sessions_generation }, AT);
}
const owner = async (identity = ada) => (await stage.identities.find(identity))?.sub;

describe("what is missing", () => {
  it("is a code from the mailbox for an account without a second factor [D-PROV-119]", async () => {
    await expect(need(BY_PASSWORD)).resolves.toBe("code");
    await expect(need(BY_PASSWORD, { confirmed: true })).resolves.toBe("nothing");
  });

  it("is the second factor, and no code, for an account with one", async () => {
    await stage.accounts.addApp(sub, { secret: SECRET });
    await expect(need(BY_PASSWORD)).resolves.toBe("sign-in");
    await expect(need(BY_PASSWORD, { confirmed: true })).resolves.toBe("sign-in");
    await expect(need(BY_BOTH)).resolves.toBe("nothing");
    // What a provider says of a second factor counts for nothing here.
    await expect(need(["pwd", "fed", "fed-mfa"])).resolves.toBe("sign-in");
  });

  it.each([
    ["another provider", ["fed"]],
    ["a code by mail", ["email"]],
    ["nothing", []],
  ])("is a sign-in with the password or a passkey after %s [D-PROV-120]", async (_what, amr) => {
    await expect(need(amr, { confirmed: true })).resolves.toBe("sign-in");
    await expect(link(amr, { confirmed: true })).resolves.toEqual({ kind: "sign-in" });
    await expect(owner()).resolves.toBeUndefined();
  });

  it("is a code by mail and another one for an account with neither password nor passkey", async () => {
    const bare = await newAccount("bare@example.com", null);
    await expect(need(["fed"], { confirmed: true }, bare)).resolves.toBe("sign-in");
    await expect(need(["email"], {}, bare)).resolves.toBe("code");
    await expect(need(["email"], { confirmed: true }, bare)).resolves.toBe("nothing");
  });

  it("can't be helped for an identity of another account, or a second one of the provider [D-PROV-121]", async () => {
    const other = await newAccount("grace@example.com");
    await expect(link(BY_PASSWORD, { confirmed: true, of: other })).resolves.toMatchObject({
      kind: "linked",
    });
    await expect(need(BY_PASSWORD, { confirmed: true })).resolves.toBe("taken");
    await expect(link(BY_PASSWORD, { confirmed: true })).resolves.toEqual({ kind: "taken" });
    const second = { ...ada, subject: "2" };
    await expect(need(BY_PASSWORD, { identity: second }, other)).resolves.toBe("full");
    await expect(link(BY_PASSWORD, { confirmed: true, identity: second, of: other })).resolves.toEqual({
      kind: "full",
    });
    await expect(owner()).resolves.toBe(other);
  });
});

describe("the code", () => {
  it("goes to the confirmed address, names the provider only, and links nothing by itself [D-PROV-119]", async () => {
    const hostile = { ...ada, name: "evil.example", email: "evil@gmail.com" };
    await stage.linking.sendCode(await recordOf(), hostile, PLACE, AT);
    const { kind, to, code, link: token, mail } = await stage.mail();
    expect([kind, to, token]).toEqual(["confirm-identity", "ada@example.com", ""]);
    expect(mail.params["provider"]).toBe("google");
    expect(JSON.stringify(mail)).not.toContain("evil");
    await expect(prove(wrongCode(code), hostile)).resolves.toMatchObject({ kind: "wrong", triesLeft: 4 });
    await expect(prove(code, hostile)).resolves.toEqual({ kind: "proven" });
    await expect(prove(code, hostile)).resolves.toEqual({ kind: "gone" });
    await expect(owner()).resolves.toBeUndefined();
  });

  it.each([
    ["identity", { ...ada, subject: "2" }, PLACE],
    ["sign-in", ada, "another"],
  ])("is not right for another %s [D-PROV-122]", async (_what, identity, place) => {
    const code = await mailedCode();
    await expect(prove(code, identity, sub, place)).resolves.toEqual({ kind: "gone" });
  });

  it("is not right for another account, nor to add a factor; and one for a factor links nothing", async () => {
    const other = await newAccount("grace@example.com");
    await expect(prove(await mailedCode(), ada, other)).resolves.toEqual({ kind: "gone" });
    const enrolments = stage.factors.enrolments!;
    await expect(enrolments.begin(sub, PLACE, await mailedCode(), AT)).resolves.toEqual({ kind: "gone" });
    await enrolments.sendCode(sub, PLACE, AT);
    const { code } = await stage.mail();
    const unused = await mailedCode();
    await expect(prove(code)).resolves.toMatchObject({ kind: "wrong" });
    await expect(prove(unused)).resolves.toEqual({ kind: "proven" });
  });

  it("goes to the address before it for seven days after a change [D-PROV-123]", async () => {
    await stage.addressChanges.start(sub, "thief@example.com", AT);
    await stage.addressChanges.confirm(sub, { code: (await stage.mail()).code }, AT);
    await stage.mails();
    const sendTo = async () => {
      await stage.linking.sendCode(await recordOf(), ada, PLACE, from(1));
      return (await stage.mail()).to;
    };
    await expect(sendTo()).resolves.toBe("ada@example.com");
    stage.clock.advance(7 * 86_400 + 1);
    await expect(sendTo()).resolves.toBe("thief@example.com");
  });

  it("goes to nobody for a disabled account, with the same answer", async () => {
    const record = await recordOf();
    const answer = await stage.linking.sendCode(record, ada, PLACE, AT);
    await stage.mails();
    await stage.accounts.disable(sub);
    await expect(stage.linking.sendCode(await recordOf(), ada, PLACE, AT)).resolves.toEqual(answer);
    expect((await stage.mails()).map(({ to }) => to)).toEqual([""]);
    await expect(prove("00000000")).resolves.toMatchObject({ kind: "wrong" });
  });

  it.each([
    [
      "the password",
      async (): Promise<unknown> => stage.accounts.setPassword(sub, "a lighthouse in the fog"),
    ],
    ["the factors", async (): Promise<unknown> => stage.accounts.addApp(sub, { secret: SECRET })],
    ["the sessions", async (): Promise<unknown> => stage.accounts.endSessions(sub)],
  ])("ends when %s of the account change", async (_what, change) => {
    const code = await mailedCode();
    await change();
    await expect(prove(code)).resolves.toEqual({ kind: "gone" });
  });
});

describe("the link", () => {
  it("is made for whoever has shown everything, and not before [D-PROV-119]", async () => {
    await expect(link(BY_PASSWORD)).resolves.toEqual({ kind: "code" });
    await expect(owner()).resolves.toBeUndefined();
    await prove(await mailedCode());
    await expect(link(BY_PASSWORD, { confirmed: true })).resolves.toMatchObject({ kind: "linked" });
    await expect(owner()).resolves.toBe(sub);
  });

  it("needs no code after a passkey", async () => {
    await stage.accounts.addApp(sub, { secret: SECRET });
    await expect(link(BY_PASSKEY)).resolves.toMatchObject({ kind: "linked" });
  });

  it("is not made once the account has changed: the person begins again [D-PROV-124]", async () => {
    const session = { sessions_generation: (await recordOf()).sessions_generation };
    await stage.accounts.endSessions(sub);
    const started = { identity: ada, confirmed: true } as const;
    await expect(stage.linking.link(sub, started, BY_PASSWORD, session, AT)).resolves.toEqual({
      kind: "changed",
    });
    await stage.accounts.disable(sub);
    await expect(link(BY_PASSWORD, { confirmed: true })).resolves.toEqual({ kind: "changed" });
    await expect(owner()).resolves.toBeUndefined();
  });

  it("goes to one of two accounts that link one identity at once [D-PROV-121]", async () => {
    const other = await newAccount("grace@example.com");
    const ended = await Promise.all([sub, other].map((of) => link(BY_PASSWORD, { confirmed: true, of })));
    expect(ended.map(({ kind }) => kind).toSorted()).toEqual(["linked", "taken"]);
  });
});

describe("where a provider is the only way in for a domain", () => {
  let employee: string;
  beforeEach(async () => {
    employee = await newAccount("ada@staff.example");
  });

  it("a code from the mailbox stands in for the sign-in, and the second factor is asked for besides [D-PROV-125]", async () => {
    const identity = ofCorp;
    await expect(need([], { identity }, employee)).resolves.toBe("code");
    await expect(need([], { identity, confirmed: true }, employee)).resolves.toBe("nothing");
    await stage.accounts.addApp(employee, { secret: SECRET });
    await expect(need([], { identity, confirmed: true }, employee)).resolves.toBe("sign-in");
    await expect(need(["otp", "mfa"], { identity }, employee)).resolves.toBe("code");
    await expect(link(["otp", "mfa"], { identity, confirmed: true, of: employee })).resolves.toMatchObject({
      kind: "linked",
    });
  });

  it("its accounts have no other provider, and it has no others [D-PROV-117]", async () => {
    await expect(need(BY_PASSWORD, { confirmed: true }, employee)).resolves.toBe("domain");
    await expect(link(BY_PASSWORD, { confirmed: true, of: employee })).resolves.toEqual({ kind: "domain" });
    const guest = { ...ofCorp, email: "ada@gmail.com" };
    await expect(need([], { identity: guest, confirmed: true }, employee)).resolves.toBe("domain");
    const { email: _none, ...nameless } = ofCorp;
    await expect(need([], { identity: nameless, confirmed: true }, employee)).resolves.toBe("domain");
  });
});

describe("the domains of providers", () => {
  const providers = [
    { key: "google", domains: [], only: false },
    { key: "club", domains: ["club.example"], only: false },
    { key: "corp", domains: ["staff.example"], only: true },
  ] as readonly Partial<IdentityProvider>[] as readonly IdentityProvider[];

  it.each([
    ["google", "ada@gmail.com", true],
    ["google", "ada@club.example", true],
    ["google", undefined, true],
    ["google", "ada@staff.example", false],
    ["club", "ada@club.example", true],
    ["club", "ada@gmail.com", false],
    ["club", "ada@staff.example", false],
    ["club", undefined, false],
    ["corp", "ada@staff.example", true],
    ["corp", "ada@gmail.com", false],
    ["corp", undefined, false],
    [undefined, "ada@club.example", true],
    [undefined, "ada@staff.example", false],
  ])("with %s, %s: %s [D-PROV-117]", (key, email, expected) => {
    expect(isInDomains(providers, key, email)).toBe(expected);
  });
});
