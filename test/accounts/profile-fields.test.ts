import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { causedBy } from "../../accounts/plan.ts";
import {
  DOCUMENTED_FIELDS,
  OWN_FIELDS,
  PERSON_FIELD_NAMES,
  PERSON_FIELDS,
  type PersonField,
  shownName,
} from "../../accounts/profile-fields.ts";
import { accountCommands } from "../../cli/accounts.ts";
import { REGISTRATION_FIELDS } from "../../config/pages.ts";
import { consentFields } from "../../interactions/protocol.ts";
import { ALL_FIELDS, claimsAbout } from "../../provider/claims.ts";
import { everyPage, pagesWith } from "../interactions/every-page.ts";
import { type Domain, openDomain } from "./open-domain.ts";

/** Two values of each field. */
const VALUES: Readonly<Record<PersonField, readonly [string, string]>> = {
  username: ["ada", "lovelace"],
  name: ["Ada", "Augusta"],
  surname: ["Byron", "Lovelace"],
  date_of_birth: ["1990-12-10", "1990-12-11"],
  gender: ["female", "other"],
  locale: ["en", "pl"],
  portal: ["first", "second"],
};

let domain: Domain;
beforeAll(async () => {
  domain = await openDomain();
  for (const key of VALUES.portal) await domain.directory.portals.put(key, { name: key });
});
afterAll(() => domain.storage.close());

const html = everyPage(pagesWith(), "en");

let count = 0;
const email = (): string => `person${(count += 1)}@example.com`;

async function recordOf(sub: string): Promise<AccountRecord> {
  const record = await domain.accounts.record(sub);
  if (record === undefined) throw new Error("no such account");
  return record;
}

describe.each(PERSON_FIELD_NAMES)("the field %s of a person", (field) => {
  const { claim, isDocumented, notifies, input } = PERSON_FIELDS[field];
  const [first, second] = VALUES[field];

  it("is created, changed, removed, imported and shown", async () => {
    const { accounts } = domain;
    const created = await accounts.create({ email: email(), [field]: first });
    expect(created[field]).toBe(first);
    expect((await accounts.update(created.sub, { [field]: second }))[field]).toBe(second);
    expect((await accounts.find(created.sub))?.[field]).toBe(second);
    expect((await accounts.update(created.sub, { [field]: null }))[field]).toBeNull();
    const imported = await accounts.import({ email: email(), [field]: first });
    expect(imported[field]).toBe(first);
    await accounts.delete(created.sub);
    await accounts.delete(imported.sub);
  });

  it("has one rule for each way in", async () => {
    const { accounts } = domain;
    const { sub } = await accounts.create({ email: email() });
    const wrong = "\u{202e}";
    const problem = PERSON_FIELDS[field].problem(wrong);
    expect(problem).toBeDefined();
    const refused = (what: string): TypeError => new TypeError(`${what}.${field}: ${problem}`);
    await expect(accounts.create({ email: email(), [field]: wrong })).rejects.toThrow(refused("account"));
    await expect(accounts.import({ email: email(), [field]: wrong })).rejects.toThrow(refused("account"));
    await expect(accounts.update(sub, { [field]: wrong })).rejects.toThrow(refused("account"));
  });

  it("is in claims, consents and notifications as its row says", async () => {
    const { sub } = await domain.accounts.create({ email: email(), [field]: first });
    const record = await recordOf(sub);
    const values = Object.entries(claimsAbout(record)).filter(([, value]) => value === first);
    expect(values.filter(([name]) => name !== "name")).toEqual(claim === undefined ? [] : [[claim, first]]);
    expect(consentFields(["profile"], []).includes(shownName(field))).toBe(claim !== undefined);
    expect(consentFields([ALL_FIELDS], []).includes(field)).toBe(isDocumented);
    expect(causedBy(record, { ...record, [field]: second })).toEqual(notifies ? ["PROFILE_CHANGED"] : []);
  });

  it("is in the forms of the pages if people set it", () => {
    const isIn = (page: string): boolean => (html.get(page) ?? "").includes(`name="${field}"`);
    expect(isIn("account-profile")).toBe(input !== undefined);
    expect(isIn("register")).toBe(input !== undefined && field !== "locale");
  });

  it("has an option of accounts create and accounts update", () => {
    const form: unknown = expect.stringContaining(`--${field.replaceAll("_", "-")} `);
    for (const command of ["create", "update"]) {
      const { options = [] } = accountCommands.find(({ words }) => words[1] === command) ?? {};
      expect(options).toContainEqual({ form, about: expect.stringMatching(/./u) });
    }
  });

  it.each(["en", "de", "pl", "uk"])("has a label in %s if people see it", (locale) => {
    const file = new URL(`../../core/locales/${locale}.json`, import.meta.url);
    const texts = JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;
    if (input !== undefined) expect(Object.keys(texts)).toContain(`field.${shownName(field)}`);
  });
});

describe("the fields of a person", () => {
  it("have their documented order", () => {
    expect(DOCUMENTED_FIELDS).toEqual(["name", "surname", "date_of_birth", "gender"]);
    expect(OWN_FIELDS).toEqual(["name", "surname", "username", "date_of_birth", "gender", "locale"]);
    expect(consentFields(["profile"], [])).toEqual([
      "sub",
      "name",
      "surname",
      "date_of_birth",
      "gender",
      "preferred_username",
      "locale",
      "updated_at",
    ]);
  });

  it("are all asked for by registration, but for those that it knows or that operators set", () => {
    const asked = OWN_FIELDS.filter((field) => field !== "locale");
    expect(REGISTRATION_FIELDS.toSorted()).toEqual(asked.toSorted());
  });
});
