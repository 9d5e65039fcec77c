/** Registration by people themselves, over a real storage. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { StorageUnavailable } from "../../../core/errors.ts";
import type { Identities } from "../../../accounts/identities/identities.ts";
import { createPeople } from "../../../accounts/people/people.ts";
import type { PeopleServices } from "../../../accounts/people/requests.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import type { RegistrationForm } from "../../../accounts/people/registration-form.ts";
import { AT, from, openPeople, PASSWORD, PASSWORDS, type PeopleStage, wrongCode } from "./stage.ts";
import type { RegistrationRequest, RegistrationSettings } from "../../../config/pages.ts";
import { defaults } from "../../../config/schema.ts";

const FIELDS = {
  username: "optional",
  name: "required",
  surname: "optional",
  date_of_birth: "optional",
  gender: "optional",
} as const;
const TERMS = { url: "https://login.example/terms/{locale}", version: "2026-01" };

let stage: PeopleStage;
beforeEach(async () => {
  stage = await openPeople({ fields: FIELDS, terms: TERMS });
});

const GONE = { kind: "gone" };
const SENT = { kind: "sent" };
const FORM: RegistrationForm = {
  email: "ada@example.com",
  password: PASSWORD,
  username: "ada",
  name: "Ada",
  surname: "Lovelace",
  date_of_birth: "1990-12-10",
  gender: "female",
  termsVersion: "2026-01",
  locale: "pl",
};

const start = (parts: Partial<RegistrationForm> = {}, interaction = "i", at = AT) =>
  stage.registrations.start(interaction, { ...FORM, ...parts }, at);
const confirm = (proof: { code: string } | { link: string }, interaction = "i") =>
  stage.registrations.confirm(interaction, proof, AT);

/** Registers. @returns its code and link. */
async function registered(parts: Partial<RegistrationForm> = {}, interaction = "i") {
  await expect(start(parts, interaction)).resolves.toEqual(SENT);
  const { code, link } = await stage.mail();
  return { code, link };
}

/** Opens the stage anew. */
async function reopen(settings: RegistrationSettings): Promise<void> {
  stage = await openPeople(settings);
}

describe("a password that may be known from a breach", () => {
  it("is asked about after the local rules and the points, which only the mail gets back [D-BREACH-1]", async () => {
    const asked: string[] = [];
    const limits = { ...defaults.rateLimits, registrations: { points: 3, seconds: 3_600 } };
    stage = await openPeople({ fields: FIELDS }, limits, {
      isBreached: async (password) => asked.push(password) > 0 && password !== PASSWORD,
    });
    for (const password of ["short", "password1", "ada@example.com"])
      await expect(start({ password })).resolves.toMatchObject({ kind: "invalid" });
    expect(asked).toEqual([]);
    for (const password of ["breached once", "breached twice", "breached thrice"])
      await expect(start({ password })).resolves.toEqual({
        kind: "invalid",
        problems: { password: "breached" },
      });
    const more = await Promise.all(Array.from({ length: 20 }, () => start({ password: "breached" })));
    expect(new Set(more.map(({ kind }) => kind))).toEqual(new Set(["limited"]));
    expect(asked).toEqual(["breached once", "breached twice", "breached thrice"]);
    expect(await stage.mails()).toEqual([]);
    // The address can still get all its mail.
    for (let each = 0; each < 5; each += 1)
      await expect(start({}, "i", { ...AT, address: `198.51.100.${each}` })).resolves.toEqual(SENT);
  });

  it("gives all points back when it can't be hashed now [D-HASH-1]", async () => {
    const limits = { ...defaults.rateLimits, registrations: { points: 1, seconds: 3_600 } };
    let isBusy = true;
    stage = await openPeople({ fields: FIELDS }, limits, {
      hash: async (password, party) => {
        if (isBusy) throw new StorageUnavailable("busy");
        return PASSWORDS.hash(password, party);
      },
    });
    for (let each = 0; each < 20; each += 1) await expect(start()).rejects.toThrow("busy");
    isBusy = false;
    await expect(start()).resolves.toEqual(SENT);
  });
});

describe("a registration", () => {
  it("becomes an account when its address is confirmed, with what was entered [D-REGISTER-1]", async () => {
    await expect(start()).resolves.toEqual(SENT);
    await expect(stage.accounts.findByLogin("ada")).resolves.toBeUndefined();
    const mail = await stage.mail();
    expect(mail).toMatchObject({ kind: "confirm-registration", to: "ada@example.com", locale: "pl" });
    await expect(stage.registrations.pending("i")).resolves.toEqual({
      email: "ada@example.com",
      confirmed: false,
    });
    const result = await confirm(mail);
    const { password: _password, termsVersion, ...fields } = FORM;
    expect(result).toMatchObject({ kind: "created", record: { ...fields, terms_version: termsVersion } });
    const account = (await stage.accounts.findByLogin("ada"))!;
    expect(account).toMatchObject({ ...fields, email_verified: true, services: {}, user_id: 1 });
    await expect(stage.accounts.verifyPassword(account.sub, PASSWORD)).resolves.toBe(true);
    const { items: records } = await stage.storage.audit.list({ account: account.sub, limit: 2 });
    expect(records).toMatchObject([
      { action: "account.registered", actor: { kind: "account", id: account.sub }, client: "news" },
    ]);
    expect(JSON.stringify(records)).not.toMatch(/@example|Lovelace/);
    await expect(stage.mails()).resolves.toEqual([]);
    await expect(confirm(mail)).resolves.toEqual(GONE);
    await expect(stage.registrations.pending("i")).resolves.toBeUndefined();
  });

  it("stores and mails an address in its one form [D-ACCOUNT-2]", async () => {
    await expect(start({ email: "Ada@BÜCHER.example" })).resolves.toEqual(SENT);
    const mail = await stage.mail();
    expect(mail).toMatchObject({ to: "Ada@xn--bcher-kva.example" });
    await expect(confirm(mail)).resolves.toMatchObject({ record: { email: "Ada@xn--bcher-kva.example" } });
    const problems = { email: "invalid" };
    await expect(start({ email: "ａda@example.com" }, "j")).resolves.toMatchObject({ problems });
  });

  it("reserves nothing: the first to confirm an address wins, and the others end [D-REGISTER-1]", async () => {
    const first = await registered();
    const second = await registered({ name: "Eve" }, "j");
    await expect(confirm(second, "j")).resolves.toMatchObject({ kind: "created", record: { name: "Eve" } });
    await expect(confirm(first)).resolves.toEqual(GONE);
    await expect(stage.registrations.pending("i")).resolves.toBeUndefined();
  });

  it("of many at once becomes one account [D-REGISTER-1]", async () => {
    const interactions = ["a", "b", "c", "d"];
    const proofs: { readonly code: string; readonly link: string }[] = [];
    for (const interaction of interactions) proofs.push(await registered({}, interaction));
    const results = await Promise.all(
      interactions.flatMap((interaction, index) => [
        confirm({ code: proofs[index]!.code }, interaction),
        confirm({ link: proofs[index]!.link }, interaction),
      ]),
    );
    expect(results.filter(({ kind }) => kind === "created")).toHaveLength(1);
    expect(results.filter(({ kind }) => kind === "gone")).toHaveLength(7);
    expect((await stage.accounts.list()).items).toHaveLength(1);
  });

  it("says after the confirmation that a username is taken, and takes another one [D-REGISTER-2]", async () => {
    const { sub } = await stage.accounts.create({ email: "other@example.com", username: "Ada" });
    const { code, link } = await registered();
    await expect(stage.registrations.rename("i", "free", AT)).resolves.toEqual(GONE);
    await expect(confirm({ code })).resolves.toEqual({ kind: "username-taken" });
    await expect(stage.registrations.pending("i")).resolves.toMatchObject({ confirmed: true });
    await expect(stage.registrations.resend("i", AT)).resolves.toEqual(GONE);
    for (const name of ["ＡＤＡ", "ada"])
      await expect(stage.registrations.rename("i", name, AT)).resolves.toEqual({ kind: "username-taken" });
    await expect(stage.registrations.rename("i", "a@b", AT)).resolves.toEqual({
      kind: "invalid",
      problem: "invalid",
    });
    await expect(stage.registrations.rename("j", "free", AT)).resolves.toEqual(GONE);
    const names = ["free", "free", "free"].map((name) => stage.registrations.rename("i", name, AT));
    const results = await Promise.all(names);
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["created", "gone", "gone"]);
    await expect(stage.accounts.findByLogin("free")).resolves.toMatchObject({ email: "ada@example.com" });
    await expect(stage.accounts.find(sub)).resolves.toMatchObject({ username: "Ada" });
    await expect(confirm({ link })).resolves.toEqual(GONE);
  });

  it("can be finished without a username that is taken", async () => {
    await stage.accounts.create({ email: "other@example.com", username: "ada" });
    await confirm(await registered());
    await expect(stage.registrations.rename("i", null, AT)).resolves.toMatchObject({
      kind: "created",
      record: { username: null },
    });
  });

  it("belongs to its interaction: a code or link counts for no other [D-REGISTER-3]", async () => {
    const { code, link } = await registered();
    await registered({ email: "eve@example.com", username: "eve" }, "j");
    await expect(confirm({ code }, "j")).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    await expect(confirm({ link }, "j")).resolves.toEqual(GONE);
    await expect(confirm({ link }, "")).resolves.toEqual(GONE);
    await expect(confirm({ link })).resolves.toMatchObject({ kind: "created" });
  });

  it("of somebody else's address goes nowhere without the mail [D-CODE-2]", async () => {
    const { code } = await registered();
    for (const triesLeft of [4, 3, 2, 1, 0])
      await expect(confirm({ code: wrongCode(code) })).resolves.toEqual({ kind: "wrong", triesLeft });
    await expect(confirm({ code })).resolves.toEqual({ kind: "wrong", triesLeft: 0 });
    await expect(stage.accounts.list()).resolves.toMatchObject({ items: [] });
  });

  it("is replaced by the next of its interaction, and gets a new code when asked [D-CODE-1]", async () => {
    const resend = (interaction: string) => stage.registrations.resend(interaction, AT);
    await expect(resend("i")).resolves.toEqual(GONE);
    const wrong = await registered({ email: "typo@example.com" });
    const right = await registered();
    await expect(confirm(wrong)).resolves.toMatchObject({ kind: "gone" });
    await expect(resend("i")).resolves.toEqual(SENT);
    const again = await stage.mail();
    expect(again).toMatchObject({ kind: "confirm-registration", to: "ada@example.com" });
    await expect(confirm({ link: right.link })).resolves.toEqual(GONE);
    await expect(confirm({ code: right.code })).resolves.toMatchObject({ kind: "wrong" });
    await expect(confirm({ code: again.code })).resolves.toMatchObject({ kind: "created" });
    await expect(resend("i")).resolves.toEqual(GONE);
  });

  it("is nothing that a forgotten password knows: no mail goes to an address that only waits [D-RESET-5]", async () => {
    await start({ email: "new@example.com", password: PASSWORD });
    await stage.mail();
    await expect(stage.passwordResets.start("j", "new@example.com", AT)).resolves.toEqual({ kind: "sent" });
    // As for any name that nobody has.
    expect((await stage.mails()).map(({ to }) => to)).toEqual([""]);
  });

  it("is over after an hour", async () => {
    const { link } = await registered();
    stage.clock.advance(3_600);
    await expect(confirm({ link })).resolves.toEqual(GONE);
    await expect(stage.registrations.resend("i", AT)).resolves.toEqual(GONE);
  });
});

describe("the answer to a registration", () => {
  it("is the same for a known address, whose owner is told without a code [D-REGISTER-4]", async () => {
    await stage.accounts.create({ email: "ADA@example.com", locale: "en" });
    await expect(start({ email: "Ada@Example.com" })).resolves.toEqual(SENT);
    const mail = await stage.mail();
    expect(mail).toMatchObject({
      kind: "known-address",
      to: "Ada@example.com",
      locale: "en",
      code: "",
      link: "",
    });
    await expect(confirm({ code: "00000000" })).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    await expect(stage.registrations.resend("i", AT)).resolves.toEqual(SENT);
    await expect(stage.mail()).resolves.toMatchObject({ kind: "known-address" });
  });

  it.each<[string, Partial<RegistrationForm>, object]>([
    ["no address", { email: "" }, { email: "required" }],
    ["no password", { password: "" }, { password: "required" }],
    ["no required name", { name: "" }, { name: "required" }],
    ["old terms", { termsVersion: "2025-01" }, { termsVersion: "terms" }],
    ["no terms", { termsVersion: undefined }, { termsVersion: "terms" }],
    ["an address in a header", { email: "a@b.example\r\nBcc: eve@example.com" }, { email: "invalid" }],
    ["two addresses", { email: "a@b.example, c@d.example" }, { email: "invalid" }],
    ["an address with a name", { email: "Eve <eve@example.com>" }, { email: "invalid" }],
    ["an @ in a username", { username: "eve@example.com" }, { username: "invalid" }],
    ["a date that does not exist", { date_of_birth: "1990-02-30" }, { date_of_birth: "invalid" }],
    ["a date in the future", { date_of_birth: "2999-01-01" }, { date_of_birth: "invalid" }],
    ["a date before 1850", { date_of_birth: "1849-12-31" }, { date_of_birth: "invalid" }],
    ["a direction override in a name", { surname: "Love\u202elace" }, { surname: "invalid" }],
    ["a domain without a dot", { email: "eve@localhost" }, { email: "invalid" }],
    ["a line break in a name", { surname: "Love\nlace" }, { surname: "invalid" }],
    ["a choice that the page does not offer", { gender: "a text" }, { gender: "invalid" }],
    ["its own name as password", { password: "Ada Lovelace" }, { password: "name" }],
    ["the name of the service as password", { password: "example" }, { password: "too-short" }],
    [
      "10,000 characters",
      {
        email: `${"x".repeat(9_988)}@example.com`,
        password: "x".repeat(10_000),
        username: "x".repeat(10_000),
        name: "x".repeat(10_000),
        date_of_birth: "1".repeat(10_000),
      },
      {
        email: "invalid",
        password: "too-long",
        username: "invalid",
        name: "invalid",
        date_of_birth: "invalid",
      },
    ],
  ])("names %s", async (_what, parts, problems) => {
    await expect(start(parts)).resolves.toEqual({ kind: "invalid", problems });
    await expect(stage.mails()).resolves.toEqual([]);
  });

  it("is a limit after 100 an hour from one address, and after 5 from it to one recipient [D-REGISTER-5, D-MAILLIMIT-1]", async () => {
    const limited = { kind: "limited", retryAfter: 3_600 };
    await stage.accounts.create({ email: "known@example.com" });
    for (const email of ["known@example.com", "new@example.com"]) {
      for (let count = 0; count < 5; count += 1)
        await expect(start({ email }, `${email}${count}`, from(9))).resolves.toEqual(SENT);
      await expect(start({ email }, "i", from(9))).resolves.toMatchObject(limited);
      await expect(stage.registrations.resend(`${email}1`, from(9))).resolves.toMatchObject(limited);
      await expect(start({ email }, "i", from(10))).resolves.toEqual(SENT);
    }
    for (let count = 0; count < 100; count += 1)
      await expect(start({ email: `person${count}@example.com` }, `i${count}`, from(77))).resolves.toEqual(
        SENT,
      );
    await expect(start({ email: "last@example.com" }, "i", from(77))).resolves.toMatchObject(limited);
    expect(stage.refusals.map(({ detail }) => detail?.["limit"])).toContain("registrations");
  }, 30_000);

  it("says at most ten times that a username is taken [D-NAME-8]", async () => {
    await reopen({ fields: { username: "optional" } });
    await stage.accounts.create({ email: "bob@example.com", username: "bob" });
    const { code } = await registered({ username: "bob" });
    await expect(confirm({ code })).resolves.toEqual({ kind: "username-taken" });
    const rename = (username: string) => stage.registrations.rename("i", username, AT);
    // The confirmation has already said it once.
    for (let count = 0; count < 9; count += 1)
      await expect(rename("bob")).resolves.toEqual({ kind: "username-taken" });
    await expect(rename("bob")).resolves.toEqual({ kind: "limited", retryAfter: 3_600 });
    await expect(rename("free")).resolves.toMatchObject({ kind: "limited" });
    await expect(confirm({ code })).resolves.toMatchObject({ kind: "limited" });
    stage.clock.advance(3_599);
    await expect(rename("free")).resolves.toMatchObject({ kind: "limited" });
    // Without a username, nothing is revealed.
    await expect(stage.registrations.rename("i", null, AT)).resolves.toMatchObject({ kind: "created" });
  });

  it("drops what the form does not ask for [D-REGISTER-9]", async () => {
    await reopen({});
    const { code } = await registered({ username: "x".repeat(10_000), termsVersion: "made up" });
    await expect(confirm({ code })).resolves.toMatchObject({
      kind: "created",
      record: { email: "ada@example.com", username: null, name: null, gender: null },
    });
  });
});

describe("the configuration of registrations", () => {
  it("lets a domain in that it lists, also without a dot, here and at a change of address [D-NAME-2]", async () => {
    await reopen({ domains: ["corp"] });
    await expect(start({ email: "a@CORP" })).resolves.toEqual(SENT);
    const { sub } = await stage.accounts.create({ email: "b@corp" });
    await expect(stage.addressChanges.start(sub, "c@corp", AT)).resolves.toEqual(SENT);
    await expect(stage.addressChanges.start(sub, "c@localhost", AT)).resolves.toEqual({ kind: "invalid" });
  });

  it("lets only some domains in, not their subdomains or look-alikes [D-REGISTER-9]", async () => {
    await reopen({ domains: ["example.com"] });
    for (const email of [
      "a@sub.example.com",
      "a@example.com.evil.example",
      "a@example.org",
      "a@xexample.com",
    ])
      await expect(start({ email })).resolves.toEqual({ kind: "invalid", problems: { email: "domain" } });
    for (const email of ["a@example.com", "b@EXAMPLE.com"])
      await expect(start({ email })).resolves.toEqual(SENT);
  });

  it("has a check that may refuse, and that gets no password [D-REGISTER-9]", async () => {
    const seen: RegistrationRequest[] = [];
    await reopen({
      fields: FIELDS,
      check: async (request) => (seen.push(request), request.email !== "eve@example.com"),
    });
    await stage.accounts.create({ email: "eve@example.com" });
    await expect(start({ email: "eve@example.com" })).resolves.toEqual({ kind: "refused" });
    await expect(stage.mails()).resolves.toEqual([]);
    await expect(start()).resolves.toEqual(SENT);
    const { password: _password, termsVersion: _terms, ...entered } = FORM;
    expect(seen[1]).toEqual({ ...entered, client_id: "news", address: AT.address });
    expect(JSON.stringify(seen)).not.toContain(PASSWORD);
  });

  it.each<[string, NonNullable<RegistrationSettings["check"]>]>([
    ["fails", () => Promise.reject(new Error("ada@example.com"))],
    [
      "throws",
      () => {
        throw new TypeError("no");
      },
    ],
    ["never answers", () => new Promise(() => undefined)],
  ])("stores nothing when its check %s", async (_what, check) => {
    await reopen({ check });
    await expect(start()).rejects.toMatchObject({
      code: "storage_unavailable",
      message: expect.not.stringContaining("ada"),
    });
    await expect(stage.registrations.pending("i")).resolves.toBeUndefined();
  });
});

describe("the terms of use", () => {
  it("that somebody accepted are stored on the account, without a PROFILE_CHANGED [D-REGISTER-8]", async () => {
    const { accounts, storage } = stage;
    const result = await confirm(await registered());
    const { sub, updated_at } = (result as { readonly record: AccountRecord }).record;
    stage.clock.advance(60);
    const caller = { actor: { kind: "account", id: sub } } as const;
    for (const version of ["2027-01", "2027-01"])
      await expect(accounts.acceptTerms(sub, version, caller)).resolves.toBe(true);
    await expect(accounts.acceptTerms("nobody", "2027-01", caller)).resolves.toBe(false);
    await expect(accounts.record(sub)).resolves.toMatchObject({ terms_version: "2027-01", updated_at });
    expect(await accounts.find(sub)).not.toHaveProperty("terms_version");
    await expect(storage.deliveries.list({ limit: 9 })).resolves.toEqual([]);
    const { items: records } = await storage.audit.list({ account: sub, limit: 9 });
    expect(records.map(({ action }) => action)).toEqual(["account.terms_accepted", "account.registered"]);
  });
});

describe("without mail", () => {
  it("there is no registration, and a warning says so", () => {
    const texts: string[] = [];
    const interactions = { ...defaults.interactions, registration: true };
    const peopleOf = (configuration: object): string[] => {
      const services = { configuration, storage: {}, onWarning: (text: string) => void texts.push(text) };
      return Object.keys(createPeople(services as unknown as PeopleServices, {} as Identities));
    };
    const signIn = { emailCode: true };
    expect(peopleOf({ interactions, signIn })).toEqual(["confirmations"]);
    expect(texts).toEqual([
      "signIn.emailCode is off: the codes come by mail, and `mail` is not set",
      "interactions.registration is off: people confirm their address by mail, and `mail` is not set",
    ]);
    const mail = { send: () => Promise.resolve() };
    const off = { interactions: defaults.interactions, providers: [], mail, signIn: defaults.signIn };
    expect(peopleOf(off)).toEqual([
      "confirmations",
      "freshCodes",
      "linking",
      "passwordResets",
      "addressChanges",
    ]);
    expect(texts).toHaveLength(2);
  });
});
