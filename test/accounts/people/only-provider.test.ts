/** An account in the domain of a provider with `only` changes neither its password nor its address by mail. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { AT, NEW_PASSWORD, openPeople, PASSWORD, type PeopleStage } from "./stage.ts";

const CORP = {
  issuer: "https://login.corp.example",
  client_id: "sign-in",
  name: "Corp",
  domains: ["corp.example", "intranet"],
  only: true,
};
const GONE = { kind: "gone" };

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({
    email: "ann@corp.example",
    email_verified: true,
    password: PASSWORD,
  }));
});

describe("an account that signs in at its provider only", () => {
  it("gets no reset, not even one that was asked for before [D-PROV-11]", async () => {
    const { passwordResets } = stage.withProviders({ corp: CORP });
    await stage.passwordResets.start(undefined, "ann@corp.example", AT);
    const { link } = await stage.mail();
    await expect(passwordResets.finish({ link }, NEW_PASSWORD, AT)).resolves.toEqual(GONE);
    await expect(stage.accounts.verifyPassword(sub, PASSWORD)).resolves.toBe(true);
    await expect(passwordResets.start(undefined, "ann@corp.example", AT)).resolves.toEqual({ kind: "sent" });
    expect((await stage.mails()).filter(({ to }) => to !== "")).toEqual([]);
  });

  it("keeps its address, also when the change was asked for before [D-PROV-13]", async () => {
    const { addressChanges } = stage.withProviders({ corp: CORP });
    await stage.addressChanges.start(sub, "ann@else.example", AT);
    const { code } = await stage.mail();
    await expect(addressChanges.confirm(sub, { code }, AT)).resolves.toEqual(GONE);
    await expect(addressChanges.start(sub, "ann@else.example", AT)).resolves.toEqual(GONE);
    await expect(stage.mails()).resolves.toEqual([]);
    await expect(stage.accounts.find(sub)).resolves.toMatchObject({ email: "ann@corp.example" });
  });
});

describe("a domain of a provider", () => {
  it("needs no dot in an address that a person enters [D-NAME-2]", async () => {
    const bob = await stage.accounts.create({ email: "bob@example.com" });
    const { addressChanges } = stage.withProviders({ corp: CORP });
    await expect(addressChanges.start(bob.sub, "bob@elsewhere", AT)).resolves.toEqual({ kind: "invalid" });
    await expect(addressChanges.start(bob.sub, "bob@intranet", AT)).resolves.toEqual({ kind: "sent" });
  });

  it("has registrations by its provider only [D-PROV-12]", async () => {
    const { registrations } = stage.withProviders({ corp: CORP });
    const form = { email: "new@corp.example", password: PASSWORD };
    await expect(registrations.start("interaction", form, AT)).resolves.toMatchObject({
      problems: { email: "domain" },
    });
  });
});
