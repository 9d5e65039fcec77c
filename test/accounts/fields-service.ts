/** A service with attributes, and each way in which a value of a field comes to it. */
import { afterAll } from "@jest/globals";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createPersonFields,
  type FieldRow,
  holding,
  textOf,
  valueOf,
} from "../../accounts/profile-fields.ts";
import { type Account, accounts as table } from "../../accounts/operations/accounts.ts";
import { commandOf } from "../../cli/program/operation-command.ts";
import type { InternalService } from "../../lib/service.ts";
import type { AccountRecord, AttributeValue } from "../../records/directory/directory.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { here } from "../cli/here.ts";
import { beforeTests } from "../closing.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { PARTNER, storageIn } from "../flows/running-service.ts";
import { type JsonAnswer, JsonVisitor } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { ADDED } from "./added-fields.ts";

export const REGISTRATION = {
  fields: {
    username: "optional",
    name: "optional",
    surname: "optional",
    date_of_birth: "optional",
    gender: "optional",
  },
} as const;
export const ACCOUNTS = { attributes: ADDED };
export const FIELDS = createPersonFields({
  accounts: ACCOUNTS,
  interactions: { locales: ["en", "pl"], reservedUsernames: ["root"], registration: REGISTRATION },
});

/** Two values of each field. */
export const VALUES: Readonly<Record<string, readonly [AttributeValue, AttributeValue]>> = {
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
  desk: [17, -5],
  on_call: [true, false],
  since: ["2024-02-29", "2999-12-31"],
  cost_center: ["4711", "4712"],
  badge: ["blue", "red"],
  second_phone: ["+48226950000", "+442079460958"],
  phone_number: ["+48226950000", "+442079460958"],
  phone_number_verified: [true, false],
  address: [
    { street_address: "Wiejska 4/6/8", postal_code: "00-902", locality: "Warszawa", country: "PL" },
    { locality: "Singapore", country: "SG" },
  ],
  nickname: ["Countess", "Enchantress"],
  website: ["https://ada.example/", "https://ada.example/notes?a=b"],
  zoneinfo: ["Europe/London", "Europe/Warsaw"],
};

export const PASSWORD = "a lighthouse in the fog";
export const PROFILE = "/account/profile";

/** Somebody who is signed in, in a browser and in a program. */
interface SignedIn extends Account {
  readonly browser: Browser;
  readonly visitor: JsonVisitor;
}

export interface FieldsService {
  readonly running: SelfService;
  readonly service: InternalService;
  readonly newEmail: () => string;
  readonly recordOf: (sub: string) => Promise<AccountRecord>;
  readonly signedIn: () => Promise<SignedIn>;
  /** One person for the pages, with an empty profile. */
  readonly person: () => Promise<SignedIn>;
  /** The step that registers, at a client. */
  readonly registering: () => Promise<{ readonly visitor: JsonVisitor; readonly form: JsonAnswer["body"] }>;
  /** The command of an operation, with the calls of this service. */
  readonly command: (verb: "create" | "update") => ReturnType<typeof commandOf>;
  readonly cli: (...words: readonly string[]) => ReturnType<typeof here>;
  readonly close: () => Promise<void>;
}

/** A service with the attributes `ADDED`. */
async function startFieldsService(): Promise<FieldsService> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-fields-"));
  const storage = await storageIn(folder);
  const running = await startSelfService(
    { locales: ["en", "pl"], reservedUsernames: ["root"], registration: REGISTRATION },
    { config: { ...storage, accounts: ACCOUNTS } },
  );
  const service = running.service as InternalService;
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ deployments, accounts: ACCOUNTS, ...storage }), { mode: 0o600 });
  for (const key of VALUES["portal"] ?? [])
    await service.directory.portals.put(textOf(key), { name: textOf(key) });
  let people = 0;
  const newEmail = (): string => `person${(people += 1)}@example.com`;
  async function signedIn(): Promise<SignedIn> {
    const email = newEmail();
    const account = await service.accounts.create({ email, password: PASSWORD, email_verified: true });
    const browser = await new Browser().get(`${running.openid}/account`);
    await signIn(browser, { username: email, password: PASSWORD });
    return { ...account, browser, visitor: new JsonVisitor(browser) };
  }
  let one: SignedIn | undefined;
  const command = (verb: "create" | "update") => commandOf("accounts", verb, table, () => service.accounts);
  return {
    running,
    service,
    newEmail,
    signedIn,
    command,
    async recordOf(sub) {
      const record = await service.accounts.record(sub);
      if (record === undefined) throw new Error("no such account");
      return record;
    },
    async person() {
      one ??= await signedIn();
      await service.accounts.update(one.sub, holding<string | null>(FIELDS.rows.map((row) => [row, null])));
      return one;
    },
    async registering() {
      const visitor = new JsonVisitor();
      const party = clientAt(running, "openid", PARTNER);
      const { body } = await visitor.open(party.authorizeUrl({ scope: "openid profile org" }));
      return { visitor, form: (await visitor.act(body, "register")).body };
    },
    cli: (...words) =>
      here(
        ["accounts", ...words, "--config", file],
        {},
        {
          nouns: { accounts: "accounts" },
          commands: [command("create"), command("update")],
        },
      ),
    async close() {
      await running.close();
      rmSync(folder, { recursive: true });
    },
  };
}

export const optionOf = ({ name, isAttribute }: FieldRow, value: AttributeValue): readonly string[] => {
  if (!isAttribute) return [`--${name.replaceAll("_", "-")}=${textOf(value)}`];
  return [
    "--attribute",
    typeof value === "string" ? `${name}=${value}` : `${name}:=${JSON.stringify(value)}`,
  ];
};

export const given = (row: FieldRow, value: AttributeValue | null) => holding([[row, value]]);

/** Sends a value in one way. Answers the value that is stored, or why it was refused; both `undefined`: it can't be sent. */
export interface Sent {
  readonly stored?: AttributeValue | null;
  readonly refused?: string;
}
type Way<Value = AttributeValue> = (at: FieldsService, row: FieldRow, value: Value) => Promise<Sent>;

export async function called(row: FieldRow, call: Promise<Account>): Promise<Sent> {
  try {
    return { stored: valueOf(row, await call) };
  } catch (error) {
    return { refused: (error as Error).message };
  }
}

async function storedAt({ service }: FieldsService, row: FieldRow, email: string): Promise<Sent> {
  const account = await service.accounts.findByLogin(email);
  return account === undefined ? { refused: "there is no account" } : { stored: valueOf(row, account) };
}

/** The ways of operators and programs. */
export const TRUSTED: Readonly<Record<string, Way>> = {
  create: ({ service, newEmail }, row, value) =>
    called(row, service.accounts.create({ email: newEmail(), ...given(row, value) })),
  async update({ service, newEmail }, row, value) {
    const { sub } = await service.accounts.create({ email: newEmail() });
    return called(row, service.accounts.update(sub, given(row, value)));
  },
  import: ({ service, newEmail }, row, value) =>
    called(row, service.accounts.import({ email: newEmail(), ...given(row, value) })),
  async "a seed"(at, row, value) {
    const email = at.newEmail();
    try {
      await at.service.applySeed({ accounts: [{ email, ...given(row, value) }] });
    } catch (error) {
      return { refused: (error as Error).message };
    }
    return storedAt(at, row, email);
  },
  async "the command line"({ service, newEmail, cli, recordOf }, row, value) {
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
export const OWN: Readonly<Record<string, Way<string>>> = {
  async registration(at, row, value) {
    const { visitor, form } = await at.registering();
    const email = at.newEmail();
    const needed = { email, password: PASSWORD, department: "Research" };
    const { body } = await visitor.act(form, "submit", { ...needed, [row.name]: value });
    if (body.step !== "confirm-email") return { refused: refusalOf(body) };
    await visitor.act(body, "submit", { code: codeIn(await at.running.mailTo(email)) });
    return storedAt(at, row, email);
  },
  async "the page of the profile"({ person, recordOf, running }, row, value) {
    // A form can't hold half a surrogate pair: it becomes another character, which is allowed.
    if (!value.isWellFormed()) return {};
    const { sub, browser } = await person();
    await browser.get(running.openid + PROFILE);
    await browser.submit(browser.form(), { [row.name]: value });
    const [, marked = browser.html] = /name="(\w+)"[^>]*aria-invalid="true"/u.exec(browser.html) ?? [];
    if (browser.status === 400) return { refused: marked };
    return { stored: valueOf(row, await recordOf(sub)) };
  },
  async "the profile as JSON"({ person, recordOf, running }, row, value) {
    const { sub, visitor } = await person();
    const { body } = await visitor.open(running.openid + PROFILE);
    const answer = await visitor.act(body, "submit", { [row.name]: value });
    if (answer.status === 400) return { refused: refusalOf(answer.body) };
    return { stored: valueOf(row, await recordOf(sub)) };
  },
};

/** One service for the tests of a file. */
export function useFieldsService(): FieldsService {
  const at = beforeTests(startFieldsService);
  afterAll(() => at.close());
  return at;
}
