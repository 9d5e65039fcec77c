/** Each field of a person is one row: every view has it, and every way in has its rule. */
import { describe, expect, it } from "@jest/globals";
import { isDeepStrictEqual } from "node:util";
import { causedBy } from "../../accounts/plan.ts";
import { attributeTexts, labelKey, shownName } from "../../accounts/field-texts.ts";
import {
  createPersonFields,
  DOCUMENTED_FIELDS,
  enteredProblem,
  enteredValue,
  type FieldRow,
  PERSON_FIELD_NAMES,
  textOf,
  valueOf,
} from "../../accounts/profile-fields.ts";
import { createSystemClock } from "../../core/clock.ts";
import { builtInLocales, readTexts } from "../../core/texts.ts";
import { consentFields } from "../../interactions/protocol.ts";
import { ALL_FIELDS, createClaims } from "../../provider/claims.ts";
import type { AttributeValue } from "../../records/directory/directory.ts";
import { rounds } from "../rounds.ts";
import {
  ACCOUNTS,
  called,
  FIELDS,
  given,
  optionOf,
  OWN,
  PROFILE,
  REGISTRATION,
  useFieldsService,
  TRUSTED,
  VALUES,
} from "./fields-service.ts";

const TEXTS = attributeTexts(ACCOUNTS);
const CLAIMS = createClaims(FIELDS);
const ROWS = FIELDS.rows.map((row) => [row.name, row] as const);
const valuesOf = ({ name }: FieldRow): readonly [AttributeValue, AttributeValue] => VALUES[name] ?? ["", ""];

/** What somebody sends to do harm, or by mistake. Each rule says what it takes; no rule takes what begins with `!`. */
const HOSTILE: Readonly<Record<string, string>> = {
  "!a NUL": "a\u{0}b",
  "!a control character": "a\u{7}b",
  "!a line break": "a\nb",
  "!an override of the direction": "a\u{202e}b",
  "!an isolate of the direction": "a\u{2066}b",
  "!half a surrogate pair": "a\u{d800}b",
  "!a text that is too long": "x".repeat(1001),
  "a name of an object": "__proto__",
  markup: "<b>a</b>",
  "a day that no calendar has": "1990-02-31",
  "a day in the future": "2999-01-01",
  "a day too long ago": "1849-12-31",
  "a reserved username": "root",
  "a number": "77",
  "a number with a fraction": "1.5",
  "an answer": "true",
  "a phone number as people write it": "+48 (22) 695-00-00",
  "a phone number without its country": "22 695 00 00",
  "an address without protection": "http://ada.example/",
  "an address of a script": "javascript:alert(1)",
  "an option that was removed": "third",
};

/** What only programs send. Texts of forms are never these. */
const OTHER: Readonly<Record<string, unknown>> = {
  "a number": 12,
  "a number that is too large": 2 ** 53,
  "a fraction": 1.5,
  "an answer": true,
  "an empty object": {},
  "a name of every object": JSON.parse(`{ "__proto__": "x", "constructor": "y" }`),
  "an unknown part": { country: "PL", planet: "Earth" },
  "no country": { country: "ZZ" },
  "a country in lower case": { country: "pl" },
  "a part with a line break": { street_address: "a\nb" },
  "a number as a part": { postal_code: 12 },
  "an address": { country: "PL" },
  "a list": ["a"],
};

/** What forms, JSON and command lines may each carry in a way of their own. */
const CARRIED: ReadonlySet<string> = new Set(["!a NUL", "!half a surrogate pair", "a name of an object"]);
const WAYS = [...Object.keys(TRUSTED), ...Object.keys(OWN)];

/**
 * The hostile values that are sent by a way in. The rule of a field has a few answers to all of them, and every way is asked for
 * each answer once; the ways take turns with the values, except with what depends on how they carry it. In
 * `npm run test:all`, every way gets every value.
 */
function sentBy(
  by: string,
  answerOf: (value: string) => string,
): readonly (readonly [what: string, value: string])[] {
  const all = Object.entries(HOSTILE);
  if (rounds(0, 1) === 1) return all;
  const alike = Map.groupBy(all, ([what, value]) => (CARRIED.has(what) ? what : answerOf(value)));
  return [...alike.values()].map((some) => some[WAYS.indexOf(by) % some.length] ?? ["", ""]);
}

const at = useFieldsService();

/** A username is unique: each account that keeps the value gives it back. */
async function free(username: string): Promise<void> {
  const owner = await at.service.accounts.findByLogin(username);
  if (owner?.username === username) await at.service.accounts.update(owner.sub, { username: null });
}

describe.each(ROWS)("the field %s of a person", (name, row) => {
  const { claim, isDocumented, notifies, registration, input, isAttribute } = row;
  const isEdited = FIELDS.own.includes(row);
  const [first, second] = valuesOf(row);

  it("is created, changed, removed, imported and shown", async () => {
    const { accounts } = at.service;
    const created = await accounts.create({ email: at.newEmail(), ...given(row, first) });
    expect(valueOf(row, created)).toEqual(first);
    expect(valueOf(row, await accounts.update(created.sub, given(row, second)))).toEqual(second);
    const others = await accounts.update(created.sub, { email: at.newEmail() });
    expect(valueOf(row, others)).toEqual(second);
    const found = await accounts.find(created.sub);
    expect(found && valueOf(row, found)).toEqual(second);
    expect(valueOf(row, await accounts.update(created.sub, given(row, null)))).toBeNull();
    const { attributes } = await at.recordOf(created.sub);
    expect(attributes).toBeUndefined();
    const imported = await accounts.import({ email: at.newEmail(), ...given(row, first) });
    expect(valueOf(row, imported)).toEqual(first);
    await accounts.delete(imported.sub);
  });

  it.each(WAYS)(
    "has one rule for what comes by %s [D-ATTR-14]",
    async (by) => {
      const isOwn = Object.hasOwn(OWN, by);
      // A form asks for an address by its parts.
      const isOneField =
        input !== undefined && (by === "registration" ? registration !== undefined : isEdited);
      const isOpen = !isOwn || isOneField;
      const clock = createSystemClock();
      const keptOf = (value: AttributeValue): AttributeValue =>
        isOwn ? enteredValue(row, textOf(value)) : value;
      const problemOf = (value: AttributeValue): string | undefined =>
        isOwn ? enteredProblem(row, keptOf(value), clock) : row.problem(value, clock);
      const good = ["a good value", isOwn ? textOf(second) : second] as const;
      // A form says less than the rule.
      const answerOf = (value: string): string => `${problemOf(value)} ${row.problem(value, clock)}`;
      if (isOpen)
        for (const [what, value] of Object.entries(HOSTILE))
          if (what.startsWith("!")) expect([what, problemOf(value)]).toEqual([what, expect.any(String)]);
      for (const [what, value] of isOpen ? [...sentBy(by, answerOf), good] : [good]) {
        const [kept, problem] = [keptOf(value), problemOf(value)];
        // A portal that is not in the directory.
        if (name === "portal" && problem === undefined && value !== second) continue;
        const sent = await (isOwn ? OWN[by]?.(at, row, textOf(value)) : TRUSTED[by]?.(at, row, value));
        const told = [name, what, sent];
        if (sent?.refused === undefined && sent?.stored === undefined) expect(told).toEqual([name, what, {}]);
        // An account gets the language of the page.
        else if (!isOpen && sent.refused === undefined)
          expect(told).toEqual([name, what, { stored: name === "locale" ? "en" : null }]);
        else if (problem === undefined) expect(told).toEqual([name, what, { stored: kept }]);
        else {
          // A form or a body with a NUL is refused as a whole.
          const field = textOf(value).includes("\0") ? "invalid_request" : name;
          const says: unknown = expect.stringContaining(isOwn ? field : `${name}: ${problem}`);
          expect(told).toEqual([name, what, { refused: says }]);
          // A problem never repeats the value. A page shows what was typed.
          if (!isOwn && what !== "an answer") expect(sent.refused).not.toContain(value);
        }
        if (name === "username") await free(textOf(value));
      }
    },
    60_000,
  );

  it("takes no value of another type from a program [D-ATTR-14]", async () => {
    const { accounts } = at.service;
    const { sub } = await accounts.create({ email: at.newEmail() });
    for (const [what, value] of Object.entries(OTHER)) {
      const changes = given(row, value as AttributeValue);
      const sent = await called(row, accounts.update(sub, changes));
      const isRight = isAttribute && row.problem(value) === undefined;
      const refused: unknown = expect.stringMatching(new RegExp(`${name}(?:\\.\\w+)?: (?:must|has) `, "u"));
      expect([name, what, sent]).toEqual([name, what, isRight ? { stored: value } : { refused }]);
    }
  });

  it("is in claims, consents and notifications as its row says", async () => {
    const { sub } = await at.service.accounts.create({ email: at.newEmail(), ...given(row, first) });
    const record = await at.recordOf(sub);
    const values = Object.entries(CLAIMS.about(record)).filter(([, value]) =>
      isDeepStrictEqual(value, first),
    );
    const own = values.filter(([each]) => each !== "name");
    expect(own).toEqual(claim === undefined ? [] : [[claim.name, first]]);
    const parts = { fields: FIELDS, claims: CLAIMS };
    const scopes = claim === undefined ? [...CLAIMS.ofScope.keys()] : [claim.scope];
    expect(consentFields(parts, scopes, []).includes(shownName(row))).toBe(
      claim !== undefined && !row.isHidden,
    );
    expect(consentFields(parts, [ALL_FIELDS], []).includes(name)).toBe(isDocumented);
    const after = { ...record, ...FIELDS.stored(record, given(row, second)) };
    expect(FIELDS.changed(record, after)).toEqual([name]);
    expect(causedBy(record, after, FIELDS)).toEqual(notifies ? ["PROFILE_CHANGED"] : []);
    await at.service.accounts.delete(sub);
  });

  it("is in the forms of the pages if people set it [D-ATTR-13]", async () => {
    const { browser, visitor } = await at.person();
    await browser.get(at.running.openid + PROFILE);
    const parts = row.parts === undefined ? [[name, input] as const] : Object.entries(row.parts);
    const { body } = await visitor.open(at.running.openid + PROFILE);
    const submit = (body as unknown as { actions: { fields: string[] }[] }).actions[0];
    for (const [part, asks] of parts) {
      const fieldName = row.parts === undefined ? name : `${name}.${part}`;
      expect(browser.html.includes(`name="${fieldName}"`)).toBe(isEdited);
      const field = body.fields.find((each) => each.name === fieldName);
      expect(field?.type).toBe(isEdited ? asks?.type : undefined);
      expect(submit?.fields.includes(fieldName)).toBe(isEdited);
    }
    const { form } = await at.registering();
    const asked = form.fields.find((each) => each.name === name);
    expect(asked?.required).toBe(registration && registration === "required");
    for (const [each, locale] of [
      [body.fields.find((field) => field.name === name), body.locale],
      [asked, form.locale],
    ] as const)
      if (each !== undefined && row.texts !== undefined)
        expect(each.label).toContain(TEXTS(locale, {})[`attribute.${name}`]);
  });

  it("has an option of accounts create and accounts update", async () => {
    for (const verb of ["create", "update"] as const) {
      const form: unknown = expect.stringContaining(optionOf(row, "").join(" ").split(/[ =]/u)[0] ?? "");
      expect(at.command(verb).options).toContainEqual(
        expect.objectContaining({ form, about: expect.stringMatching(/./u) }),
      );
    }
    const { sub } = await at.service.accounts.create({ email: at.newEmail(), ...given(row, first) });
    const removal = row.isAttribute ? optionOf(row, "") : ["--remove", name.replaceAll("_", "-")];
    expect(await at.cli("update", sub, ...removal)).toMatchObject({ code: 0, err: "" });
    expect(valueOf(row, await at.recordOf(sub))).toBeNull();
  });

  it.each(builtInLocales())("has a label in %s if people see it", (locale) => {
    const { translators } = readTexts([locale], {}, TEXTS);
    const t = translators.get(locale);
    if (isEdited) expect(t?.has(labelKey(row))).toBe(true);
    if (claim !== undefined) expect(t?.has(`field.${shownName(row)}`)).toBe(true);
    if (!isEdited || name === "locale") return;
    const { options = [], optionTexts = name } = input ?? {};
    for (const option of options) expect(t?.has(`${optionTexts}.${option}`)).toBe(true);
  });
});

const names = (rows: readonly FieldRow[]): readonly string[] => rows.map(({ name }) => name);

describe("the fields of a person", () => {
  it("are stored without white space around names, whichever way they come", () => {
    const ada = { name: " Ada ", surname: "\u{3000}Byron" };
    expect(FIELDS.stored({}, { ...ada, gender: " other " })).toMatchObject({
      name: "Ada",
      surname: "Byron",
      gender: " other ",
    });
  });

  it("have their documented order", () => {
    const builtIn = createPersonFields({
      accounts: { attributes: {} },
      interactions: { locales: ["en", "pl"], reservedUsernames: [], registration: REGISTRATION },
    });
    expect(names(builtIn.rows)).toEqual(PERSON_FIELD_NAMES);
    expect(DOCUMENTED_FIELDS).toEqual(["name", "surname", "date_of_birth", "gender"]);
    expect(names(builtIn.own)).toEqual(["name", "surname", "username", "date_of_birth", "gender", "locale"]);
    expect(names(builtIn.registered)).toEqual(["username", "name", "surname", "date_of_birth", "gender"]);
    expect(consentFields({ fields: builtIn, claims: createClaims(builtIn) }, ["profile"], [])).toEqual([
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
});
