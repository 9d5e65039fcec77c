/** Registration without a password, over a real storage: the account is made together with its passkey. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { RegistrationForm } from "../../../accounts/people/registration-form.ts";
import { AT, openPeople, PASSWORD, type PeopleStage } from "./stage.ts";

const FIELDS = { username: "optional", name: "required", surname: "optional" } as const;

let stage: PeopleStage;
beforeEach(async () => {
  stage = await openPeople({ fields: FIELDS, passwordless: true });
});

const GONE = { kind: "gone" };
const OWNER = { email: "ada@example.com", username: "ada", name: "Ada", surname: "Lovelace" };
/** What the form does not ask for. */
const UNSET = { date_of_birth: null, gender: null, locale: null, portal: null };
const NEEDED = { kind: "passkey-needed", owner: { ...OWNER, ...UNSET } };

/** Registers. @returns the code. */
async function registered(parts: Partial<RegistrationForm> = {}, interaction = "i"): Promise<string> {
  const form = { ...OWNER, password: null, ...parts };
  await expect(stage.registrations.start(interaction, form, AT)).resolves.toEqual({ kind: "sent" });
  return (await stage.mail()).code;
}

const confirm = (code: string, interaction = "i") => stage.registrations.confirm(interaction, { code }, AT);

/** Confirms an address. */
const confirmed = async (parts: Partial<RegistrationForm> = {}, interaction = "i") =>
  confirm(await registered(parts, interaction), interaction);

const factorOf = (id: string) => ({
  kind: "passkey" as const,
  userHandle: `handle of ${id}`,
  passkey: {
    id,
    public_key: "key",
    counter: 0,
    transports: [],
    backup_eligible: true,
    backed_up: true,
    rp_id: "localhost",
    name: "Phone",
  },
});
const complete = (sub: string, interaction = "i", id = sub) =>
  stage.registrations.complete(interaction, { sub, factor: factorOf(id) }, AT);
const kindsOf = (results: readonly { readonly kind: string }[]) => results.map(({ kind }) => kind).toSorted();
const stored = async () =>
  (await stage.storage.records.all("passkey")).length +
  (await stage.storage.records.all("recovery-codes")).length;

describe("a registration without a password", () => {
  it("becomes an account together with its passkey, and not before [D-FACTOR-42]", async () => {
    await expect(complete("a")).resolves.toEqual(GONE);
    const code = await registered();
    await expect(complete("a")).resolves.toEqual(GONE);
    await expect(confirm(code)).resolves.toEqual(NEEDED);
    await expect(stage.accounts.list()).resolves.toMatchObject({ items: [] });
    await expect(stage.registrations.pending("i")).resolves.toMatchObject({ confirmed: true });
    await expect(stage.registrations.resend("i", AT)).resolves.toEqual(GONE);
    await expect(complete("a")).resolves.toMatchObject({
      kind: "created",
      record: { sub: "a", ...OWNER, email_verified: true, ways: { passkey: { ids: ["a"] } } },
      recoveryCodes: { length: 10 },
    });
    await expect(stage.accounts.factors("a")).resolves.toMatchObject({
      app: null,
      passkeys: [{ id: "a", name: "Phone" }],
      recovery_codes_left: 10,
    });
    await expect(stage.accounts.record("a")).resolves.not.toHaveProperty("ways.password");
    const { items: records } = await stage.storage.audit.list({ account: "a", limit: 2 });
    expect(records).toMatchObject([{ action: "account.registered", detail: { factor: "passkey" } }]);
    const { kind, to, link } = await stage.mail();
    expect([kind, to]).toEqual(["factors-changed", "ada@example.com"]);
    await expect(complete("b")).resolves.toEqual(GONE);
    // If the owner of the mailbox did not register, everything ends, and they choose a password.
    await expect(stage.factors.enrolments?.undo(link, AT)).resolves.toMatchObject({ kind: "undone" });
    await expect(stage.accounts.factors("a")).resolves.toMatchObject({
      passkeys: [],
      recovery_codes_left: 0,
    });
  });

  it("of one address in two browsers becomes one account, and the other one ends", async () => {
    await confirmed({ username: "one" }, "i");
    await confirmed({ username: "two" }, "j");
    const results = await Promise.all([
      complete("a", "i"),
      complete("b", "i"),
      complete("c", "j"),
      complete("d", "j"),
    ]);
    expect(kindsOf(results)).toEqual(["created", "gone", "gone", "gone"]);
    expect((await stage.accounts.list()).items).toHaveLength(1);
    await expect(stored()).resolves.toBe(2);
    for (const interaction of ["i", "j"])
      await expect(stage.registrations.pending(interaction)).resolves.toBeUndefined();
  });

  it("ends at the confirmation, or at the passkey, if the address is taken meanwhile", async () => {
    const code = await registered();
    await confirmed({ username: "eve" }, "j");
    await stage.accounts.create({ email: "ada@example.com" });
    await expect(confirm(code)).resolves.toEqual(GONE);
    await expect(complete("a", "j")).resolves.toEqual(GONE);
    await expect(stored()).resolves.toBe(0);
  });

  it("stores nothing if the username is taken meanwhile, and goes on with another one", async () => {
    await stage.accounts.create({ email: "other@example.com", username: "eve" });
    await expect(confirmed({ username: "eve" })).resolves.toEqual({ kind: "username-taken" });
    await expect(stage.registrations.rename("i", "EVE", AT)).resolves.toEqual({ kind: "username-taken" });
    await expect(stage.registrations.rename("i", "ada", AT)).resolves.toEqual(NEEDED);
    await stage.accounts.create({ email: "third@example.com", username: "ada" });
    await expect(complete("a")).resolves.toEqual({ kind: "username-taken" });
    await expect(stored()).resolves.toBe(0);
    const needed = { kind: "passkey-needed", owner: { ...OWNER, ...UNSET, username: null } };
    await expect(stage.registrations.rename("i", null, AT)).resolves.toEqual(needed);
    await expect(complete("a")).resolves.toMatchObject({ kind: "created", record: { username: null } });
  });

  it("says at most ten times that a username is taken, at the passkey too", async () => {
    await stage.accounts.create({ email: "other@example.com", username: "ada" });
    await confirmed();
    for (let count = 0; count < 9; count += 1) await complete("a");
    await expect(complete("a")).resolves.toEqual({ kind: "limited", retryAfter: 3_600 });
  });

  it("takes no passkey of another account", async () => {
    await confirmed({}, "i");
    await confirmed({ email: "eve@example.com", username: "eve" }, "j");
    const results = await Promise.all([complete("a", "i", "one"), complete("b", "j", "one")]);
    expect(kindsOf(results)).toEqual(["created", "passkey-taken"]);
    expect((await stage.accounts.list()).items).toHaveLength(1);
    const [again] = results[0]?.kind === "created" ? ["j"] : ["i"];
    await expect(complete("c", again, "other")).resolves.toMatchObject({ kind: "created" });
  });

  it("is another one after the person goes back and chooses a password", async () => {
    await confirmed();
    const code = await registered({ password: PASSWORD });
    await expect(complete("a")).resolves.toEqual(GONE);
    await stage.accounts.create({ email: "other@example.com", username: "ada" });
    await expect(confirm(code)).resolves.toEqual({ kind: "username-taken" });
    await expect(complete("a")).resolves.toEqual(GONE);
  });

  it("can't be begun without the setting, and ends when it is turned off", async () => {
    const code = await registered();
    await confirmed({ username: "eve" }, "j");
    const off = stage.registrationsWith({ fields: FIELDS });
    await expect(off.start("k", { ...OWNER, password: null }, AT)).resolves.toEqual({
      kind: "invalid",
      problems: { password: "required" },
    });
    await expect(off.confirm("i", { code }, AT)).resolves.toEqual(GONE);
    await expect(off.resend("i", AT)).resolves.toEqual(GONE);
    await expect(off.rename("j", "free", AT)).resolves.toEqual(GONE);
    await expect(off.complete("j", { sub: "a", factor: factorOf("a") }, AT)).resolves.toEqual(GONE);
    expect([off.settings.passwordless, stage.registrations.settings.passwordless]).toEqual([undefined, true]);
    await expect(stage.accounts.list()).resolves.toMatchObject({ items: [] });
  });
});
