/** `accounts`: finds, creates, changes and deletes accounts. */
import { ACCOUNT_NAMES, findAccount, findAccountBy, findSub, SUB } from "./program/account-name.ts";
import type { Account } from "../accounts/account.ts";
import type { Command, CommandOption } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";
import { type Call, onService, SERVICE_OPTIONS, textMembers, unknown, YES } from "./program/on-service.ts";
import { readNewPassword } from "./program/secret-input.ts";
import type { AccountChanges, NewAccount } from "../accounts/account-schema.ts";
import { PERSON_FIELD_NAMES, PERSON_FIELDS } from "../accounts/profile-fields.ts";

const SERVICE = { form: "SERVICE", about: "the key of a service" };
const COLUMNS = ["user_id", "sub", "email", "username", "disabled"] as const;
/** How many accounts are read at a time. */
const PAGE = 500;

const optionOf = (field: string): string => field.replaceAll("_", "-");
const FIELDS = PERSON_FIELD_NAMES.map(optionOf);

const fieldOptions: readonly CommandOption[] = [
  ...PERSON_FIELD_NAMES.map((field) => {
    const { value, about } = PERSON_FIELDS[field].option;
    return { form: `--${optionOf(field)} ${value}`, about };
  }),
  { form: "--email-verified", about: "the address is known to be the person's" },
];

/** The account. @throws CommandFailure if there is none. */
function found<T>(account: T | undefined): T {
  if (account === undefined) throw unknown("account");
  return account;
}

/** Reports a change, or that there is no such account. */
function report({ print }: Call, sub: string, isDone: boolean, action: string): void {
  if (!isDone) throw unknown("account");
  print.done(`${action}: ${sub}`, { sub });
}

async function find({ service: { accounts }, args, print }: Call): Promise<void> {
  const [kind, ...others] = ACCOUNT_NAMES.filter((each) => args.has(each));
  const [anyName] = args.operands;
  if (others.length > 0 || (kind === undefined) === (anyName === undefined))
    throw misused("Name the account once: by NAME, --username, --email, --user-id or --sub");
  print.record(
    kind === undefined
      ? await findAccount(accounts, anyName ?? "")
      : found(await findAccountBy(accounts, kind, args.required(kind))),
  );
}

async function list({ service, args, print, context: { signal } }: Call): Promise<void> {
  let left = args.count("limit") ?? Infinity;
  for (let after: string | undefined; left > 0;) {
    signal.throwIfAborted();
    const limit = Math.min(PAGE, left);
    const page: readonly Account[] = await service.accounts.list({ limit, after });
    print.rows(page, COLUMNS);
    if (page.length < limit) return;
    left -= page.length;
    after = page.at(-1)?.sub;
  }
}

async function create({ service, args, print, by, context }: Call): Promise<void> {
  const account: NewAccount = {
    email: args.required("email"),
    ...textMembers(args, FIELDS),
    ...(args.flag("email-verified") && { email_verified: true }),
    ...(args.flag("password") && { password: await readNewPassword(context) }),
  };
  print.record(await service.accounts.create(account, by));
}

async function update({ service, args, print, by }: Call): Promise<void> {
  const email = args.text("email");
  const changes: AccountChanges = {
    ...textMembers(args, FIELDS),
    ...(email !== undefined && { email }),
    ...(args.flag("email-verified") && { email_verified: true }),
  };
  if (Object.keys(changes).length === 0) throw misused("There is nothing to change");
  print.record(await service.accounts.update(await findSub(service.accounts, args.operand(0)), changes, by));
}

async function setPassword(call: Call): Promise<void> {
  const { service, args, print, by, context } = call;
  const sub = await findSub(service.accounts, args.operand(0));
  found(await service.accounts.find(sub));
  await service.accounts.setPassword(sub, await readNewPassword(context), by);
  print.done(`The password is set, and all sessions and tokens have ended: ${sub}`, { sub });
}

async function remove(call: Call): Promise<void> {
  const { service, args, by } = call;
  const sub = await findSub(service.accounts, args.operand(0));
  const { user_id } = found(await service.accounts.find(sub));
  await call.confirm(`Delete the account ${user_id} (${sub}) for good, and notify its services?`);
  report(call, sub, await service.accounts.delete(sub, by), "Deleted");
}

/** The number of the account in the service. */
function userIdInService(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^-?\d{1,16}$/u.test(text)) throw misused("--user-id-in-service must be a whole number");
  return Number(text);
}

async function assign({ service, args, print, by }: Call): Promise<void> {
  const [sub, key] = [await findSub(service.accounts, args.operand(0)), args.operand(1)];
  const number = userIdInService(args.text("user-id-in-service"));
  print.record(await service.accounts.assign(sub, key, number, by));
}

/** Shows the roles of an account in a service, or replaces them. */
async function roles({ service, args, print, by }: Call): Promise<void> {
  const [sub, key] = [await findSub(service.accounts, args.operand(0)), args.operand(1)];
  const named = args.text("set");
  const names = named === undefined ? undefined : named.split(",").filter((name) => name !== "");
  const account =
    names === undefined
      ? found(await service.accounts.find(sub))
      : await service.accounts.setRoles(sub, key, names, by);
  if (!Object.hasOwn(account.services, key)) throw unknown("assignment");
  const now = Object.hasOwn(account.roles, key) ? account.roles[key] : [];
  print.record({ sub, service: key, roles: now });
}

async function unassign(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const [sub, key] = [await findSub(service.accounts, args.operand(0)), args.operand(1)];
  found(await service.accounts.find(sub));
  await call.confirm(`Remove the assignment to ${key}, and notify the service?`);
  if (!(await service.accounts.unassign(sub, key, by))) throw unknown("assignment");
  print.done(`Unassigned from ${key}: ${sub}`, { sub, service: key });
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
  {
    words: ["accounts", "list"],
    summary: "lists accounts, ordered by user_id",
    options: [...SERVICE_OPTIONS, { form: "--limit N", about: "maximum number; default: all" }],
    examples: ["accounts list --limit 20"],
    load: async () => onService(list),
  },
  {
    words: ["accounts", "create"],
    summary: "creates an account",
    options: [
      ...SERVICE_OPTIONS,
      { form: "--email ADDRESS", about: "e-mail address; required" },
      ...fieldOptions,
      { form: "--password", about: "asks for a password, or reads it from standard input; default: none" },
    ],
    examples: ["accounts create --email grace@example.com --name Grace"],
    load: async () => onService(create),
  },
  {
    words: ["accounts", "update"],
    summary: "changes an account, and notifies its services",
    operands: [SUB],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--email ADDRESS", about: "e-mail address" },
      ...fieldOptions,
      { form: "--remove FIELD", about: `removes a value; any of ${FIELDS.join(", ")}`, isList: true },
    ],
    examples: ["accounts update SUB --surname Hopper --remove gender"],
    load: async () => onService(update),
  },
  {
    words: ["accounts", "set-password"],
    summary: "sets the password, and ends all sessions and tokens",
    about:
      "Asks for the password twice without showing it. Without a terminal, it is the first line of standard input.",
    operands: [SUB],
    options: SERVICE_OPTIONS,
    examples: ["accounts set-password SUB < password.txt"],
    load: async () => onService(setPassword),
  },
  {
    words: ["accounts", "disable"],
    summary: "blocks sign-in, and ends all sessions and tokens",
    operands: [SUB],
    options: SERVICE_OPTIONS,
    examples: ["accounts disable SUB"],
    load: async () =>
      onService(async (call) => {
        const sub = await findSub(call.service.accounts, call.args.operand(0));
        report(call, sub, await call.service.accounts.disable(sub, call.by), "Disabled");
      }),
  },
  {
    words: ["accounts", "enable"],
    summary: "lets the person sign in again",
    operands: [SUB],
    options: SERVICE_OPTIONS,
    examples: ["accounts enable SUB"],
    load: async () =>
      onService(async (call) => {
        const sub = await findSub(call.service.accounts, call.args.operand(0));
        report(call, sub, await call.service.accounts.enable(sub, call.by), "Enabled");
      }),
  },
  {
    words: ["accounts", "assign"],
    summary: "assigns an account to a service",
    operands: [SUB, SERVICE],
    options: [
      ...SERVICE_OPTIONS,
      {
        form: "--user-id-in-service N",
        about: "its number there; default: the service reports it",
      },
    ],
    examples: ["accounts assign SUB news"],
    load: async () => onService(assign),
  },
  {
    words: ["accounts", "roles"],
    summary: "shows or replaces the roles of an account in a service",
    operands: [SUB, SERVICE],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--set ROLES", about: 'its new roles, separated by commas; "" removes all' },
    ],
    examples: ["accounts roles SUB news --set editor,author"],
    load: async () => onService(roles),
  },
  {
    words: ["accounts", "unassign"],
    summary: "removes an assignment, and notifies the service",
    operands: [SUB, SERVICE],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["accounts unassign SUB news --yes"],
    load: async () => onService(unassign),
  },
  {
    words: ["accounts", "delete"],
    summary: "deletes an account, and notifies its services",
    operands: [SUB],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["accounts delete SUB --yes"],
    load: async () => onService(remove),
  },
];

export const sessionCommands: readonly Command[] = [
  {
    words: ["sessions", "end"],
    summary: "ends all sign-in sessions of an account",
    operands: [SUB],
    options: SERVICE_OPTIONS,
    examples: ["sessions end SUB"],
    load: async () =>
      onService(async (call) => {
        const sub = await findSub(call.service.accounts, call.args.operand(0));
        report(call, sub, await call.service.accounts.endSessions(sub, call.by), "Sessions ended");
      }),
  },
  {
    words: ["sessions", "revoke-tokens"],
    summary: "ends all codes and tokens of an account, and forgets its consents",
    operands: [SUB],
    options: [...SERVICE_OPTIONS, { form: "--client ID", about: "only those of this client" }],
    examples: ["sessions revoke-tokens SUB --client news"],
    load: async () =>
      onService(async (call) => {
        const sub = await findSub(call.service.accounts, call.args.operand(0));
        const client = call.args.text("client");
        report(call, sub, await call.service.accounts.revokeTokens(sub, client, call.by), "Tokens revoked");
      }),
  },
];
