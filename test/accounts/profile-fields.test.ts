/** Each field of a person is one row: every view has it, and every way in has its rule. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { causedBy } from "../../accounts/plan.ts";
import {
  createPersonFields,
  DOCUMENTED_FIELDS,
  enteredProblem,
  type FieldRow,
  holding,
  PERSON_FIELD_NAMES,
  shownName,
  valueOf,
} from "../../accounts/profile-fields.ts";
import { type Account, accounts as table } from "../../accounts/operations/accounts.ts";
import { commandOf } from "../../cli/program/operation-command.ts";
import { createApplication } from "../../cli/server/application.ts";
import { createSystemClock } from "../../core/clock.ts";
import { builtInLocales, readTexts } from "../../core/texts.ts";
import { consentFields } from "../../interactions/protocol.ts";
import { createSignInServiceOver, type InternalService } from "../../lib/service.ts";
import { ALL_FIELDS, createClaims } from "../../provider/claims.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { openStorage } from "../../records/storage.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { here } from "../cli/here.ts";
import { readTokens, relyingParty, signIn } from "../flows/relying-party.ts";
import { PARTNER, SHOP, storageIn } from "../flows/running-service.ts";
import { type JsonAnswer, JsonVisitor } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { ADDED, DEPARTMENT } from "./added-fields.ts";

const REGISTRATION = {
  fields: {
    username: "optional",
    name: "optional",
    surname: "optional",
    date_of_birth: "optional",
    gender: "optional",
  },
} as const;
const FIELDS = createPersonFields(
  { locales: ["en", "pl"], reservedUsernames: ["root"], registration: REGISTRATION },
  ADDED,
);
const CLAIMS = createClaims(FIELDS);
const ROWS = FIELDS.rows.map((row) => [row.name, row] as const);

/** Two values of each field. */
const VALUES: Readonly<Record<string, readonly [string, string]>> = {
  username: ["first", "second"],
  name: ["Ada", "Augusta"],
  surname: ["Byron", "Lovelace"],
  date_of_birth: ["1990-12-10", "1990-12-11"],
  gender: ["female", "other"],
  locale: ["en", "pl"],
  portal: ["first", "second"],
  department: ["Research", "Sales"],
  floor: ["first", "second"],
  customer_number: ["17", "18"],
};
const valuesOf = ({ name }: FieldRow): readonly [string, string] => VALUES[name] ?? ["", ""];

/** What somebody sends to do harm, or by mistake. Each rule says what it takes; no rule takes what begins with `!`. */
const HOSTILE: Readonly<Record<string, string>> = {
  "!a NUL": "a\u{0}b",
  "!a control character": "a\u{7}b",
  "!a line break": "a\nb",
  "!an override of the direction": "a\u{202e}b",
  "!an isolate of the direction": "a\u{2066}b",
  "!half a surrogate pair": "a\u{d800}b",
  "!a text that is too long": "x".repeat(300),
  "a name of an object": "__proto__",
  markup: "<b>a</b>",
  "a day that no calendar has": "1990-02-31",
  "a day in the future": "2999-01-01",
  "a day too long ago": "1849-12-31",
  "a reserved username": "root",
};

let folder: string;
let file: string;
let running: SelfService;
let service: InternalService;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-fields-"));
  const storage = await storageIn(folder);
  running = await startSelfService(
    { locales: ["en", "pl"], reservedUsernames: ["root"], registration: REGISTRATION },
    { config: storage, fields: ADDED },
  );
  service = running.service as InternalService;
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ deployments, ...storage }), { mode: 0o600 });
  for (const key of VALUES["portal"] ?? []) await service.directory.portals.put(key, { name: key });
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});

let people = 0;
const PASSWORD = "a lighthouse in the fog";
const newEmail = (): string => `person${(people += 1)}@example.com`;

async function recordOf(sub: string): Promise<AccountRecord> {
  const record = await service.accounts.record(sub);
  if (record === undefined) throw new Error("no such account");
  return record;
}

/** Somebody who is signed in, in a browser and in a program. */
async function signedIn(): Promise<Account & { readonly browser: Browser; readonly visitor: JsonVisitor }> {
  const email = newEmail();
  const account = await service.accounts.create({ email, password: PASSWORD, email_verified: true });
  const browser = await new Browser().get(`${running.openid}/account`);
  await signIn(browser, { username: email, password: PASSWORD });
  return { ...account, browser, visitor: new JsonVisitor(browser) };
}

const PROFILE = "/account/profile";

/** The step that registers, at a client. */
async function registering(): Promise<{ visitor: JsonVisitor; form: JsonAnswer["body"] }> {
  const visitor = new JsonVisitor();
  const party = relyingParty(running, "openid", PARTNER);
  const { body } = await visitor.open(party.authorizeUrl({ scope: "openid profile org" }));
  return { visitor, form: (await visitor.act(body, "register")).body };
}

/** The command of an operation, with the calls of this service. */
const command = (verb: "create" | "update") => commandOf("accounts", verb, table, () => service.accounts);

const optionOf = ({ name, isAttribute }: FieldRow, value: string): readonly string[] =>
  isAttribute ? ["--attribute", `${name}=${value}`] : [`--${name.replaceAll("_", "-")}=${value}`];

const cli = (...words: readonly string[]) =>
  here(
    ["accounts", ...words, "--config", file],
    {},
    {
      nouns: { accounts: "accounts" },
      commands: [command("create"), command("update")],
    },
  );

const given = (row: FieldRow, value: string | null) => holding([[row, value]]);

/** Sends a value in one way. Answers the value that is stored, or why it was refused; both `undefined`: it can't be sent. */
interface Sent {
  readonly stored?: string | null;
  readonly refused?: string;
}
type Way = (row: FieldRow, value: string) => Promise<Sent>;

async function called(row: FieldRow, call: Promise<Account>): Promise<Sent> {
  try {
    return { stored: valueOf(row, await call) };
  } catch (error) {
    return { refused: (error as Error).message };
  }
}

async function storedAt(row: FieldRow, email: string): Promise<Sent> {
  const account = await service.accounts.findByLogin(email);
  return account === undefined ? { refused: "there is no account" } : { stored: valueOf(row, account) };
}

/** The ways of operators and programs. */
const TRUSTED: Readonly<Record<string, Way>> = {
  create: (row, value) => called(row, service.accounts.create({ email: newEmail(), ...given(row, value) })),
  async update(row, value) {
    const { sub } = await service.accounts.create({ email: newEmail() });
    return called(row, service.accounts.update(sub, given(row, value)));
  },
  import: (row, value) => called(row, service.accounts.import({ email: newEmail(), ...given(row, value) })),
  async "a seed"(row, value) {
    const email = newEmail();
    try {
      await service.applySeed({ accounts: [{ email, ...given(row, value) }] });
    } catch (error) {
      return { refused: (error as Error).message };
    }
    return storedAt(row, email);
  },
  async "the command line"(row, value) {
    const { sub } = await service.accounts.create({ email: newEmail() });
    const { code, err } = await cli("update", sub, ...optionOf(row, value));
    if (code !== 0) return { refused: err };
    return { stored: valueOf(row, await recordOf(sub)) };
  },
};

/** The error in a response, or the fields that its problems name. */
const refusalOf = ({ error, problems = [] }: Partial<JsonAnswer["body"]>): string =>
  error ?? problems.flatMap(({ fields }) => fields).join(" ");

/** The ways of people. */
const OWN: Readonly<Record<string, Way>> = {
  async registration(row, value) {
    const { visitor, form } = await registering();
    const email = newEmail();
    const needed = { email, password: PASSWORD, department: "Research" };
    const { body } = await visitor.act(form, "submit", { ...needed, [row.name]: value });
    if (body.step !== "confirm-email") return { refused: refusalOf(body) };
    await visitor.act(body, "submit", { code: codeIn(await running.mailTo(email)) });
    return storedAt(row, email);
  },
  async "the page of the profile"(row, value) {
    // A form can't hold half a surrogate pair: it becomes another character, which is allowed.
    if (!value.isWellFormed()) return {};
    const { sub, browser } = await person();
    await browser.get(running.openid + PROFILE);
    await browser.submit(browser.form(), { [row.name]: value });
    const [, marked = browser.html] = /name="(\w+)"[^>]*aria-invalid="true"/u.exec(browser.html) ?? [];
    if (browser.status === 400) return { refused: marked };
    return { stored: valueOf(row, await recordOf(sub)) };
  },
  async "the profile as JSON"(row, value) {
    const { sub, visitor } = await person();
    const { body } = await visitor.open(running.openid + PROFILE);
    const answer = await visitor.act(body, "submit", { [row.name]: value });
    if (answer.status === 400) return { refused: refusalOf(answer.body) };
    return { stored: valueOf(row, await recordOf(sub)) };
  },
};

/** One person for the pages; each value is tried on an empty profile. */
let one: Awaited<ReturnType<typeof signedIn>> | undefined;
async function person(): Promise<NonNullable<typeof one>> {
  one ??= await signedIn();
  const nothing = holding<string | null>(FIELDS.rows.map((row) => [row, null]));
  await service.accounts.update(one.sub, nothing);
  return one;
}

/** A username is unique: each account that keeps the value gives it back. */
async function free(username: string): Promise<void> {
  const owner = await service.accounts.findByLogin(username);
  if (owner?.username === username) await service.accounts.update(owner.sub, { username: null });
}

describe.each(ROWS)("the field %s of a person", (name, row) => {
  const { claim, isDocumented, notifies, edit, registration, input } = row;
  const [first, second] = valuesOf(row);

  it("is created, changed, removed, imported and shown", async () => {
    const { accounts } = service;
    const created = await accounts.create({ email: newEmail(), ...given(row, first) });
    expect(valueOf(row, created)).toBe(first);
    expect(valueOf(row, await accounts.update(created.sub, given(row, second)))).toBe(second);
    const others = await accounts.update(created.sub, { email: newEmail() });
    expect(valueOf(row, others)).toBe(second);
    const found = await accounts.find(created.sub);
    expect(found && valueOf(row, found)).toBe(second);
    expect(valueOf(row, await accounts.update(created.sub, given(row, null)))).toBeNull();
    const { attributes } = await recordOf(created.sub);
    expect(attributes).toBeUndefined();
    const imported = await accounts.import({ email: newEmail(), ...given(row, first) });
    expect(valueOf(row, imported)).toBe(first);
    await accounts.delete(imported.sub);
  });

  it.each([...Object.keys(TRUSTED), ...Object.keys(OWN)])(
    "has one rule for what comes by %s",
    async (by) => {
      const isOwn = Object.hasOwn(OWN, by);
      const way = OWN[by] ?? TRUSTED[by];
      const isOpen = !isOwn || (by === "registration" ? registration !== undefined : edit === "person");
      for (const [what, value] of [...Object.entries(HOSTILE), ["a good value", second]] as const) {
        const clock = createSystemClock();
        const problem = isOwn ? enteredProblem(row, value, clock) : row.problem(value, clock);
        if (what.startsWith("!")) expect([what, problem]).toEqual([what, expect.any(String)]);
        // A portal that is not in the directory.
        if (name === "portal" && problem === undefined && value !== second) continue;
        const sent = await way?.(row, value);
        const told = [name, what, sent];
        if (sent?.refused === undefined && sent?.stored === undefined) expect(told).toEqual([name, what, {}]);
        // An account gets the language of the page.
        else if (!isOpen && sent.refused === undefined)
          expect(told).toEqual([name, what, { stored: name === "locale" ? "en" : null }]);
        else if (problem === undefined) expect(told).toEqual([name, what, { stored: value }]);
        else {
          // A form or a body with a NUL is refused as a whole.
          const field = value.includes("\0") ? "invalid_request" : name;
          const says: unknown = expect.stringContaining(isOwn ? field : `${name}: ${problem}`);
          expect(told).toEqual([name, what, { refused: says }]);
          // A problem never repeats the value. A page shows what was typed.
          if (!isOwn) expect(sent.refused).not.toContain(value);
        }
        if (name === "username") await free(value);
      }
    },
    60_000,
  );

  it("is in claims, consents and notifications as its row says", async () => {
    const { sub } = await service.accounts.create({ email: newEmail(), ...given(row, first) });
    const record = await recordOf(sub);
    const values = Object.entries(CLAIMS.about(record)).filter(([, value]) => value === first);
    const own = values.filter(([each]) => each !== "name");
    expect(own).toEqual(claim === undefined ? [] : [[claim.name, first]]);
    const parts = { fields: FIELDS, claims: CLAIMS };
    const scopes = claim === undefined ? [...CLAIMS.ofScope.keys()] : [claim.scope];
    expect(consentFields(parts, scopes, []).includes(shownName(row))).toBe(claim !== undefined);
    expect(consentFields(parts, [ALL_FIELDS], []).includes(name)).toBe(isDocumented);
    const after = { ...record, ...FIELDS.stored(record, given(row, second)) };
    expect(FIELDS.changed(record, after)).toEqual([name]);
    expect(causedBy(record, after, FIELDS)).toEqual(notifies ? ["PROFILE_CHANGED"] : []);
    await service.accounts.delete(sub);
  });

  it("is in the forms of the pages if people set it", async () => {
    const { browser, visitor } = await person();
    await browser.get(running.openid + PROFILE);
    expect(browser.html.includes(`name="${name}"`)).toBe(edit === "person");
    const { body } = await visitor.open(running.openid + PROFILE);
    const field = body.fields.find((each) => each.name === name);
    expect(field?.type).toBe(edit === "person" ? input.type : undefined);
    const submit = (body as unknown as { actions: { fields: string[] }[] }).actions[0];
    expect(submit?.fields.includes(name)).toBe(edit === "person");
    const { form } = await registering();
    const asked = form.fields.find((each) => each.name === name);
    expect(asked?.required).toBe(registration && registration === "required");
    for (const [each, locale] of [
      [field, body.locale],
      [asked, form.locale],
    ] as const)
      if (each !== undefined && row.texts !== undefined)
        expect(each.label).toContain(FIELDS.texts(locale)[`field.${name}`]);
  });

  it("has an option of accounts create and accounts update", async () => {
    for (const verb of ["create", "update"] as const) {
      const form: unknown = expect.stringContaining(optionOf(row, "").join(" ").split(/[ =]/u)[0] ?? "");
      expect(command(verb).options).toContainEqual(
        expect.objectContaining({ form, about: expect.stringMatching(/./u) }),
      );
    }
    const { sub } = await service.accounts.create({ email: newEmail(), ...given(row, first) });
    const removal = row.isAttribute ? optionOf(row, "") : ["--remove", name.replaceAll("_", "-")];
    expect(await cli("update", sub, ...removal)).toMatchObject({ code: 0, err: "" });
    expect(valueOf(row, await recordOf(sub))).toBeNull();
  });

  it.each(builtInLocales())("has a label in %s if people see it", (locale) => {
    const { translators } = readTexts([locale], {}, (each) => FIELDS.texts(each));
    const t = translators.get(locale);
    if (edit === "person" || claim !== undefined) expect(t?.has(`field.${shownName(row)}`)).toBe(true);
    if (edit !== "person" || name === "locale") return;
    for (const option of input.options ?? []) expect(t?.has(`${name}.${option}`)).toBe(true);
  });
});

describe("a field that a service adds", () => {
  it("is read by a client that asks, after the person has seen it by its label", async () => {
    const party = relyingParty(running, "openid", PARTNER);
    const account = await service.accounts.create({
      email: newEmail(),
      password: PASSWORD,
      attributes: { department: "Research", customer_number: "17" },
    });
    const browser = await party.browser().get(party.authorizeUrl({ scope: "openid org" }));
    await signIn(browser, { username: account.email, password: PASSWORD });
    expect(browser.html).toContain("Department");
    expect(browser.html).not.toContain("Customer number");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const code = browser.location?.searchParams.get("code") ?? "";
    const { access_token } = readTokens(await party.exchange(code));
    const userinfo = await fetch(`${running.openid}/oauth2/userinfo`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    expect(await userinfo.json()).toEqual({ sub: account.sub, email: account.email, dept: "Research" });
    const discovery = await fetch(`${running.openid}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({
      scopes_supported: expect.arrayContaining(["org"]),
      claims_supported: expect.arrayContaining(["dept", "floor"]),
    });
  });

  it("is under Connected services: what a client of the organization may ask for, and what another was allowed", async () => {
    const { sub, visitor } = await signedIn();
    for (const key of [SHOP.service, PARTNER.service]) await service.accounts.assign(sub, key ?? "");
    const { body } = await visitor.open(`${running.openid}/account/services`);
    const { services } = body as unknown as { services: { id: string; reads: string }[] };
    const reads = Object.fromEntries(services.map(({ id, ...each }) => [id, each.reads]));
    expect(reads).toEqual({
      [SHOP.service ?? ""]: expect.stringMatching(/Department.*Floor|Floor.*Department/u),
      [PARTNER.service ?? ""]: expect.not.stringContaining("Department"),
    });
    expect(JSON.stringify(services)).not.toContain("Customer number");
  });

  it("has a text that a team can replace, on the page for a wrong address, too", async () => {
    const config = {
      deployments: { openid: { url: "http://127.0.0.1:3000" } },
      storage: "sqlite::memory:",
      logger: pino({ level: "silent" }),
      interactions: { copy: { en: { "field.department": "Team" } } },
    };
    const other = await createSignInServiceOver(config, openStorage, { fields: ADDED });
    const answer = createApplication(other, config.logger).callback();
    const server = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const page = await fetch(`http://127.0.0.1:${port}/nothing`, { headers: { accept: "text/html" } });
    expect([page.status, await page.text()]).toEqual([404, expect.stringContaining("</html>")]);
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
    await other.close();
  });

  it("keeps both of two changes of different fields, and what the service no longer has", async () => {
    const { sub } = await service.accounts.create({ email: newEmail() });
    await Promise.all([
      service.accounts.update(sub, { attributes: { department: "Sales" } }),
      service.accounts.update(sub, { attributes: { floor: "second" } }),
      service.accounts.update(sub, { name: "Ada" }),
    ]);
    expect(await recordOf(sub)).toMatchObject({
      name: "Ada",
      attributes: { department: "Sales", floor: "second" },
    });
    const record = await recordOf(sub);
    const fewer = createPersonFields({ locales: ["en"], reservedUsernames: [], registration: false }, [
      DEPARTMENT,
    ]);
    expect(fewer.shown(record).attributes).toEqual({ department: "Sales" });
    expect(fewer.stored(record, { attributes: { department: null } }).attributes).toEqual({
      floor: "second",
    });
  });

  it.each(["__proto__", "constructor", "unknown", "name"])(
    "has no name %s that is not its own",
    async (name) => {
      const attributes = Object.fromEntries([[name, "x"]]);
      for (const call of [
        service.accounts.create({ email: newEmail(), attributes }),
        service.accounts.import({ email: newEmail(), attributes }),
        service.accounts.update(running.ada.sub, { attributes }),
      ])
        await expect(call).rejects.toThrow(/^account\.attributes\.\S+: is not a field of this service$/u);
      const { code, err } = await cli("update", running.ada.sub, "--attribute", `${name}=x`);
      expect([code, err]).toEqual([2, expect.stringContaining("is not a field of this service")]);
    },
  );

  it("is in no account of a service that adds none", async () => {
    const none = createPersonFields({ locales: ["en"], reservedUsernames: [], registration: false });
    expect(none.shown(await recordOf(running.ada.sub))).not.toHaveProperty("attributes");
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
      locales: ["en", "pl"],
      reservedUsernames: [],
      registration: REGISTRATION,
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
