/** `factors`: shows and removes the second factors of accounts, and makes new recovery codes. */
import { type Factors, methodsOf } from "../accounts/ways/ways.ts";
import { findSub, SUB } from "./program/account-name.ts";
import type { Command } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";
import { printable } from "./program/printable.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown, YES } from "./program/on-service.ts";

/** One factor, as a row of the list. */
interface FactorRow {
  readonly kind: string;
  /** The credential id of a passkey. */
  readonly id: string | null;
  readonly name: string | null;
  readonly added_at: number | null;
  readonly last_used_at: number | null;
  readonly note: string | null;
}

const COLUMNS = ["kind", "name", "added_at", "last_used_at", "note", "id"] as const;

/** The account and its factors. */
async function factorsOf({ service: { accounts }, args }: Call): Promise<Factors & { readonly sub: string }> {
  const sub = await findSub(accounts, args.operand(0));
  const factors = await accounts.factors(sub);
  if (factors === undefined) throw unknown("account");
  return { ...factors, sub };
}

const NOTES = { stopped: "stopped after wrong codes", copied: "backed up" };

function rowsOf(factors: Factors): FactorRow[] {
  const rows: FactorRow[] = methodsOf(factors).map(({ kind, id, name, added_at, last_used_at, state }) => ({
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

async function list(call: Call): Promise<void> {
  const { sub: _sub, ...factors } = await factorsOf(call);
  if (call.args.flag("json")) call.print.record(factors);
  else call.print.rows(rowsOf(factors), COLUMNS);
}

/** What `factors remove` was asked to remove. */
interface Removal {
  /** For `removeFactor`; `undefined`: all. */
  readonly which?: string;
  /** As the question and the report name it. */
  readonly name: string;
  readonly isThere: boolean;
}

function removalOf({ args }: Call, { app, passkeys }: Factors): Removal {
  const id = args.text("id");
  const [isApp, isAll] = [args.flag("app"), args.flag("all")];
  if ([id !== undefined, isApp, isAll].filter(Boolean).length !== 1)
    throw misused("Say what to remove: one of --id, --app and --all");
  if (isApp) return { which: "app", name: "the authenticator app", isThere: app !== null };
  if (isAll) return { name: "all second factors", isThere: app !== null || passkeys.length > 0 };
  const passkey = passkeys.find((each) => each.id === id);
  return {
    which: passkey?.id ?? "",
    name: `the passkey ${printable(passkey?.name ?? "")}`,
    isThere: passkey !== undefined,
  };
}

async function remove(call: Call): Promise<void> {
  const { service, print, by } = call;
  const { sub, ...factors } = await factorsOf(call);
  const { which, name, isThere } = removalOf(call, factors);
  if (!isThere) throw unknown("second factor");
  await call.confirm(`Remove ${name} of ${sub}, end all sessions, and notify the person?`);
  const isRemoved =
    which === undefined
      ? await service.accounts.removeFactors(sub, by)
      : await service.accounts.removeFactor(sub, which, by);
  // Another call removed it first.
  if (!isRemoved) throw unknown("second factor");
  print.done(`Removed ${name}: ${sub}`, { sub, removed: which ?? "all" });
}

async function resetRecoveryCodes(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const { sub, app, passkeys } = await factorsOf(call);
  if (app === null && passkeys.length === 0) throw unknown("second factor");
  await call.confirm(`Replace the recovery codes of ${sub}, end all sessions, and notify the person?`);
  const { recovery_codes } = await service.accounts.resetRecoveryCodes(sub, by);
  if (args.flag("json")) print.record({ sub, recovery_codes });
  else
    print.rows(
      recovery_codes.map((recovery_code) => ({ recovery_code })),
      ["recovery_code"],
    );
}

export const factorCommands: readonly Command[] = [
  {
    words: ["factors", "list"],
    summary: "lists the second factors of an account",
    about: "With --json, prints what accounts.factors() of the library returns.",
    operands: [SUB],
    options: SERVICE_OPTIONS,
    examples: ["factors list SUB"],
    load: async () => onService(list),
  },
  {
    words: ["factors", "remove"],
    summary: "removes second factors that a person has lost, and ends all sessions",
    about:
      "Verify first who is asking: without factors, the password alone is enough to sign in. The person gets a mail. Recovery codes are removed with the last factor.",
    operands: [SUB],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--id ID", about: "this passkey, as factors list shows it" },
      { form: "--app", about: "the authenticator app" },
      { form: "--all", about: "all passkeys, the authenticator app and the recovery codes" },
      YES,
    ],
    examples: ["factors remove SUB --app --yes", "factors remove SUB --all --yes"],
    load: async () => onService(remove),
  },
  {
    words: ["factors", "reset-recovery-codes"],
    summary: "makes new recovery codes, and prints them once",
    about:
      "Verify first who is asking: together with the password, one of these codes is enough to sign in. The old codes stop working, all sessions end, and the person gets a mail. Hand over the codes in a way that nobody else can read them.",
    operands: [SUB],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["factors reset-recovery-codes SUB --yes"],
    load: async () => onService(resetRecoveryCodes),
  },
];
