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
  }),
];
