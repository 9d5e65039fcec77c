/** `accounts.attributes`: each wrong key has a message that names the attribute, and all come at once. */
import { describe, expect, it } from "@jest/globals";
import { shownAccount } from "../../accounts/operations/accounts.ts";
import { createPersonFields } from "../../accounts/profile-fields.ts";
import { attributesOf } from "../../config/attributes.ts";
import { nodesOf } from "../../config/documented-schema.ts";
import { readConfiguration } from "../../config/read.ts";
import { ACCOUNT_NAMES, isTakenClaim, RESERVED_SCOPES } from "../../config/reserved-names.ts";
import { configurationSchema, defaults } from "../../config/schema.ts";
import { readVariables, withVariables } from "../../config/variables.ts";
import { ALL_FIELDS, createClaims } from "../../provider/claims.ts";
import { problemsWith, SMALLEST } from "./refusals.ts";

const TEXT = { type: "text", label: "Label" };
const PERSON = { ...TEXT, edit: "person", scope: "org" };

/** What a configuration with these attributes says, without the path to them. */
const problemsOf = (attributes: unknown): readonly string[] =>
  problemsWith({ accounts: { attributes } }).map((line) =>
    line.replace(/^config\.accounts\.attributes\.?/u, ""),
  );

const named = (name: string, settings: unknown): readonly string[] => problemsOf({ [name]: settings });
const department = (settings: object): readonly string[] => named("department", { ...TEXT, ...settings });

/** As `JSON.parse` gives it. */
const withProto = JSON.parse(`{ "__proto__": ${JSON.stringify(TEXT)} }`) as unknown;

describe("the attributes of the configuration", () => {
  it("are complete with the defaults [D-ATTR-12]", () => {
    const attributes = {
      customer_number: {
        ...TEXT,
        maxLength: 20,
        scope: "customer",
        claim: "customerNumber",
        readers: ["shop"],
      },
      department: {
        type: "choice",
        label: { en: "Department", pl: "Dział" },
        options: { a: "A", b: { en: "B", pl: "B" } },
      },
      phone_number: true,
      address: { edit: "operator", visible: false, readers: ["shop"] },
    };
    expect(attributesOf(readConfiguration({ ...SMALLEST, accounts: { attributes } }).accounts)).toEqual([
      {
        ...attributes.customer_number,
        name: "customer_number",
        edit: "operator",
        visible: true,
        notify: false,
        section: "more",
      },
      {
        ...attributes.department,
        name: "department",
        edit: "operator",
        visible: true,
        notify: false,
        section: "more",
      },
      {
        name: "phone_number",
        type: "phone",
        claim: "phone_number",
        scope: "phone",
        edit: "person",
        visible: true,
        notify: false,
        section: "contact",
      },
      {
        name: "address",
        type: "address",
        claim: "address",
        scope: "address",
        readers: ["shop"],
        edit: "operator",
        visible: false,
        notify: false,
        section: "address",
      },
    ]);
    expect(attributesOf(defaults.accounts)).toEqual([]);
  });

  it.each([
    ["SIGN_IN_ACCOUNTS", JSON.stringify({ attributes: { phone_number: true } })],
    ["SIGN_IN_ACCOUNTS_ATTRIBUTES", JSON.stringify({ phone_number: true })],
  ])("may be the JSON of the variable %s", async (name, value) => {
    const read = await readVariables(nodesOf(configurationSchema), new Map([[name, value]]));
    expect(withVariables({}, read)).toEqual({ accounts: { attributes: { phone_number: true } } });
  });

  it.each<[string, unknown]>([
    ["a", TEXT],
    ["a".repeat(40), TEXT],
    ["points", { type: "integer", label: "Points", min: -5, max: 5 }],
    ["since", { type: "date", label: "Since" }],
    ["phone", { type: "phone", label: "Phone", edit: "person", registration: "required" }],
    ["hidden", { ...TEXT, visible: false }],
    ["hidden", { ...TEXT, visible: false, scope: "org", readers: ["shop"] }],
    // Only people may not set rights.
    ["groups", { ...TEXT, scope: "org" }],
    ["groups", { ...TEXT, edit: "person" }],
    ["colour", { ...PERSON, claim: "https://example.com/colour" }],
    ["nickname", { label: { en: "Nick", pl: "Ksywa" }, registration: "optional" }],
    ["zoneinfo", { notify: true }],
  ])("may be %s: %j", (name, settings) => {
    expect(named(name, settings)).toEqual([]);
  });

  it.each<[string, string, unknown]>([
    ["A name", "Department", TEXT],
    ["A name", "1st", TEXT],
    ["A name", "a-b", TEXT],
    ["A name", "a.b", TEXT],
    ["A name", "", TEXT],
    ["A name", "a".repeat(41), TEXT],
    ["A name", "ąbc", TEXT],
  ])("%s is not %j [D-ATTR-10]", (_what, name, settings) => {
    expect(named(name, settings)).toEqual([expect.stringMatching(/: is not a name for an attribute/u)]);
  });

  it.each([
    ["constructor", "must not have a name that every object has"],
    ["email", "must have another name: accounts have this one already"],
    ["surname", "must have another name: accounts have this one already"],
    ["password", "must have another name: accounts have this one already"],
    ["csrf", "must have another name: accounts have this one already"],
    ["birthdate", "must have another name: this is a standard claim, and of those only"],
    ["phone_number_verified", "must have another name: this is a standard claim, and of those only"],
  ])("have other names than %s [D-ATTR-10]", (name, problem) => {
    expect(named(name, TEXT)).toEqual([expect.stringContaining(`${name}: ${problem}`)]);
  });

  it.each<[unknown, readonly string[]]>([
    [{ type: "number" }, ["type: must be `text`, `integer`, `boolean`, `date`, `choice`, `phone` or `url`"]],
    [{ type: "address" }, ["type: must be `text`"]],
    [{ type: 5 }, ["type: must be `text`"]],
    [{ type: undefined }, ["type: is required and must be `text`"]],
    [{ label: undefined }, ["label: is required: what people call the attribute"]],
    [{ label: "" }, ["label: must be a text of 1 to 80 characters"]],
    [{ label: " " }, ["label: must be a text of 1 to 80 characters"]],
    [{ label: "{name}" }, ["label: must be a text of 1 to 80 characters"]],
    [{ label: "a\nb" }, ["label: must be a text of 1 to 80 characters"]],
    [{ label: "x".repeat(81) }, ["label: must be a text of 1 to 80 characters"]],
    [{ label: { en: "Label" } }, ["label.pl: is required: a text for each of config.interactions.locales"]],
    [{ label: { en: "Label", pl: 5 } }, ["label.pl: must be a text of 1 to 80 characters"]],
    [{ label: { en: "L", pl: "L", de: "L" } }, ["label.de: is never shown"]],
    [{ label: { en: "L", pl: "L", "": "L" } }, ["label.a name of 0 characters: is not a language tag"]],
    [{ maxLength: 0 }, ["maxLength: must be a whole number from 1 to 1000"]],
    [{ maxLength: 1001 }, ["maxLength: must be a whole number from 1 to 1000"]],
    [{ maxLength: "20" }, ["maxLength: must be a whole number from 1 to 1000, not a string"]],
    [{ type: "date", maxLength: 20 }, ["maxLength: is only for the type text"]],
    [{ min: 1 }, ["min: is only for the type integer"]],
    [{ type: "integer", min: 2, max: 1 }, ["max: must be at least its `min`"]],
    [{ type: "integer", min: 1.5 }, ["min: must be a whole number"]],
    [{ options: { a: "A" } }, ["options: is only for the type choice"]],
    [{ type: "choice" }, ["options: is required for a choice"]],
    [{ type: "choice", options: {} }, ["options: must have 1 to 100 options"]],
    [{ type: "choice", options: ["a"] }, ["options: must be an object of 1 to 100 values"]],
    [
      { type: "choice", options: { "a b": "A" } },
      ["options.a name of 3 characters: is not a value for an option"],
    ],
    [
      { type: "choice", options: { constructor: "A" } },
      ["options.constructor: is not a value for an option"],
    ],
    [{ type: "choice", options: { a: { en: "A" } } }, ["options.a.pl: is required: a text for"]],
    [{ edit: "people" }, ["edit: must be `person` or `operator`"]],
    [{ registration: "required" }, ['registration: needs `edit: "person"`']],
    [{ edit: "person", registration: true }, ["registration: must be `required` or `optional`"]],
    [{ edit: "person", visible: false }, ['visible: must be left out with `edit: "person"`']],
    [{ visible: "no" }, ["visible: must be `true` or `false`"]],
    [{ visible: false, scope: "org" }, ["readers: is required with `visible: false`"]],
    [{ scope: "Org" }, ["scope: must be 1 to 64 of"]],
    [{ scope: "a b" }, ["scope: must be 1 to 64 of"]],
    [{ scope: "x".repeat(65) }, ["scope: must be 1 to 64 of"]],
    [{ scope: "phone" }, ["scope: must not be a scope that the service uses itself"]],
    [{ claim: "dept" }, ["claim: needs a `scope`"]],
    [{ scope: "org", claim: "a b" }, ["claim: must be 1 to 64 of"]],
    [{ scope: "org", claim: "exp" }, ["claim: must be another claim: tokens and answers"]],
    [{ scope: "org", claim: "Roles" }, ["claim: must be another claim: tokens and answers"]],
    [{ scope: "org", claim: "email" }, ["claim: must be another claim: tokens and answers"]],
    [{ readers: ["shop"] }, ["readers: needs a `scope`"]],
    [{ scope: "org", readers: [] }, ["readers: must be a list of different entries"]],
    [{ scope: "org", readers: "shop" }, ["readers: must be a list of different entries"]],
    [{ scope: "org", readers: ["a b"] }, ["readers[0]: must be the key of a service"]],
    [{ notify: 1 }, ["notify: must be `true` or `false`"]],
    [{ lable: "x" }, ['lable: unknown key; did you mean "config.accounts.attributes.department.label"?']],
  ])("explain %j [D-ATTR-11, D-ATTR-18, D-ATTR-5]", (settings, problems) => {
    expect(department(settings as object)).toEqual(
      problems.map((each): unknown =>
        expect.stringContaining(
          `department.${each}`.replace(".a name of", "[a name of").replace("characters:", "characters]:"),
        ),
      ),
    );
  });

  it.each(
    [
      "groups Role permissions entitlements scp tid oid UID hd upn eppn username login unique_name memberOf wids org_id tenant",
      "admin is_admin isAdmin is-admin https://example.com/groups urn:example:Role cognito:groups",
    ].flatMap((line) => line.split(" ")),
  )("let nobody set %s [D-ATTR-19]", (claim) => {
    const problem = /claim: must be another claim: (?:relying parties|tokens)/u;
    expect(named("department", { ...PERSON, claim })).toEqual([expect.stringMatching(problem)]);
  });

  it.each<[string, unknown, string]>([
    ["department", true, "department: must be an object: only `phone_number`"],
    ["department", "text", "department: must be an object that describes an attribute"],
    ["department", false, "department: must be an object that describes an attribute"],
    [
      "phone_number",
      { type: "text" },
      "phone_number.type: must be left out: the standard attribute has its own",
    ],
    ["phone_number", { scope: "org" }, "phone_number.scope: must be left out"],
    ["address", { registration: "optional" }, "address.registration: must be left out"],
    [
      "nickname",
      { edit: "operator", registration: "optional" },
      'nickname.registration: needs `edit: "person"`',
    ],
    ["zoneinfo", { edit: "operator", visible: false }, "zoneinfo.readers: is required"],
  ])("explain %s: %j", (name, settings, problem) => {
    expect(named(name, settings)).toEqual([expect.stringContaining(problem)]);
  });

  it("have one claim each, are at most 30, and no object's prototype [D-ATTR-10]", () => {
    expect(problemsOf({ a: { ...TEXT, scope: "org" }, b: { ...TEXT, scope: "org", claim: "a" } })).toEqual([
      "b.claim: must not be the claim of config.accounts.attributes.a",
    ]);
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, TEXT]));
    expect(problemsOf(many(30))).toEqual([]);
    expect(problemsOf(many(31))).toEqual([": must have at most 30 attributes"]);
    expect(problemsOf(withProto)).toEqual(["__proto__: is not a key of the configuration"]);
  });

  it("are checked all at once, and no message has a value [D-ATTR-11]", () => {
    const problems = problemsOf({
      Wrong: { ...TEXT, maxLength: "s3cret" },
      department: { type: "s3cret", label: 5, scope: "openid", claim: "s3 cret" },
      floor: { type: "choice", options: "s3cret", label: "Floor", notfy: true, claim: "groups" },
      a_name_of_forty_characters_abcdefghijklm: { ...TEXT, min: 1 },
    });
    expect(problems.map((line) => line.split(":")[0])).toEqual([
      "Wrong.maxLength",
      "department.type",
      "department.label",
      "department.claim",
      "floor.options",
      "floor.notfy",
      "Wrong",
      "department.scope",
      "floor.claim",
      "a_name_of_forty_characters_abcdefghijklm.min",
    ]);
    expect(problems.join()).not.toMatch(/s3 ?cret/u);
  });
});

describe("the reserved names", () => {
  const claims = createClaims(createPersonFields(defaults));

  it("are those of accounts, scopes and claims", () => {
    expect(Object.keys(shownAccount.shape).filter((name) => !ACCOUNT_NAMES.has(name))).toEqual([]);
    expect([...claims.ofScope.keys(), ALL_FIELDS].filter((scope) => !RESERVED_SCOPES.has(scope))).toEqual([]);
    expect(claims.grantable.claims.filter((claim) => !isTakenClaim(claim))).toEqual([]);
  });
});
