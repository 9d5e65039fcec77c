/** `accounts`, and what belongs to them: `factors` and `sessions`. Most of it comes from the table of operations. */
import { type Factors, methodsOf } from "../accounts/ways/ways.ts";
import { ACCOUNT_NAMES, findAccount, findAccountBy } from "./program/account-name.ts";
import type { Command } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown } from "./program/on-service.ts";
import { commandsOf, type Read } from "./program/operation-command.ts";

async function find({ service: { accounts }, args, print }: Call): Promise<void> {
  const [kind, ...others] = ACCOUNT_NAMES.filter((each) => args.has(each));
  const [anyName] = args.operands;
  if (others.length > 0 || (kind === undefined) === (anyName === undefined))
    throw misused("Name the account once: by NAME, --username, --email, --user-id or --sub");
  const account =
    kind === undefined
      ? await findAccount(accounts, anyName ?? "")
      : await findAccountBy(accounts, kind, args.required(kind));
  if (account === undefined) throw unknown("account");
  print.record(account);
}

async function setPassword({ service, print, by }: Call, { target: [sub = ""], input }: Read): Promise<void> {
  await service.accounts.setPassword(sub, input["password"] as string, by);
  print.done(`The password is set, and all sessions and tokens have ended: ${sub}`, { sub });
}

const FACTOR_COLUMNS = ["kind", "name", "added_at", "last_used_at", "note", "id"] as const;

const NOTES = { stopped: "stopped after wrong codes", copied: "backed up" };

/** The factors as rows of one table. */
function factorRows(factors: Factors) {
  const rows = methodsOf(factors).map(({ kind, id, name, added_at, last_used_at, state }) => ({
    kind,
    id: name === null ? null : id,
    name,
    added_at,
    last_used_at,
    note: state === undefined ? null : NOTES[state],
  }));
  if (rows.length === 0) return rows;
  const none = { id: null, name: null, added_at: null, last_used_at: null };
  return [...rows, { kind: "recovery codes", ...none, note: `${factors.recovery_codes_left} left` }];
}

async function listFactors({ service, args, print }: Call, { target: [sub = ""] }: Read): Promise<void> {
  const factors = await service.accounts.factors(sub);
  if (factors === undefined) throw unknown("account");
  if (args.flag("json")) print.record(factors);
  else print.rows(factorRows(factors), FACTOR_COLUMNS);
}

/** As JSON, which people read as well: no table has room for it. */
async function data({ service, args, context, by }: Call, { target: [sub = ""] }: Read): Promise<void> {
  const all = await service.accounts.data(sub, by);
  context.out.write(`${JSON.stringify(all, null, args.flag("json") ? 0 : 2)}\n`);
}

/** The checks as a table, the one that matters first. */
async function diagnose({ service, args, print }: Call, { target: [sub = ""] }: Read): Promise<void> {
  const found = await service.accounts.diagnose(sub);
  if (found === undefined) throw unknown("account");
  if (args.flag("json")) return print.record(found);
  const { checks, ...verdict } = found;
  print.record(verdict);
  print.rows(checks, ["code", "holds", "since", "by", "detail"]);
}

export const accountCommands: readonly Command[] = [
  {
    words: ["accounts", "find"],
    summary: "shows an account",
    operands: [{ form: "[NAME]", about: "username, e-mail address, sub or user_id" }],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--username NAME", about: "the account with this username, in place of NAME" },
      { form: "--email ADDRESS", about: "the account with this e-mail address" },
      { form: "--user-id N", about: "the account with this user_id" },
      { form: "--sub SUB", about: "the account with this identifier" },
    ],
    examples: ["accounts find ada@example.com", "accounts find --user-id 3"],
    load: async () => onService(find),
  },
  ...commandsOf("accounts", {
    find: null,
    setPassword,
    factors: listFactors,
    diagnose,
    data,
  }),
  {
    words: ["accounts", "import"],
    summary: "brings the accounts of a file",
    about: `Reads accounts of this service, of Keycloak or of Auth0, or a table, and makes those that are missing, with their identifiers,
password hashes, authenticator apps and identities. Nobody is told. A run that was stopped is continued by the same command. What is
wrong with a line refuses that line only; the exit code is then 1.

An account that exists stays as it is, unless --update or --update-credentials is given. The account of an operator never changes.`,
    operands: [{ form: "FILE", about: "the file; one that accounts export has encrypted needs its key" }],
    options: [
      ...SERVICE_OPTIONS,
      {
        form: "--format FORMAT",
        about: "ours, keycloak, auth0 or csv; default: ours",
        values: ["ours", "keycloak", "auth0", "csv"],
      },
      { form: "--dry-run", about: "only says what would be done" },
      {
        form: "--map-sub",
        about: "makes a sub of each identifier that is no UUID, always the same, and prints the pairs",
      },
      { form: "--update", about: "changes the fields of people whose accounts exist, by sub" },
      {
        form: "--update-credentials",
        about:
          "also changes e-mail addresses, password hashes, factors and identities, which ends sessions and mails the person",
      },
      { form: "--notify", about: "sends the notifications and events of what is made and changed" },
      {
        form: "--errors FILE",
        about: "where to write what is wrong with which line; default: the first to standard error",
      },
      { form: "--key-file FILE", about: "the file with the key of an encrypted export; default: asks" },
    ],
    examples: [
      "accounts import accounts.jsonl --dry-run",
      "accounts import realm.json --format keycloak --errors errors.jsonl",
    ],
    load: async () => onService((await import("./transfer/import.ts")).importAccounts),
  },
  {
    words: ["accounts", "export"],
    summary: "writes all accounts as lines that accounts import reads",
    about: `Writes a JSON object a line: identifiers, fields, attributes, assignments and roles. With --with-credentials also what people sign in
with: password hashes, the secrets of authenticator apps, passkeys and identities; then the file is encrypted as a backup is.`,
    operands: [{ form: "[FILE]", about: "the new file; default without credentials: standard output" }],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--with-credentials", about: "writes what people sign in with, and encrypts the file" },
      {
        form: "--key-file FILE",
        about: "the file of the key, which is made if it is missing; default: the key is printed once",
      },
    ],
    examples: [
      "accounts export people.jsonl",
      "accounts export people.enc --with-credentials --key-file people.key",
    ],
    load: async () => onService((await import("./transfer/export.ts")).exportAccounts),
  },
];
