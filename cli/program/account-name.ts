/** The account that an operator names: by its `sub`, or by another name that no second account has. */
import type { Account, Accounts } from "../../accounts/operations/accounts.ts";
import { readName } from "../../accounts/names.ts";
import { subProblem } from "../../accounts/text-rules.ts";
import { CommandFailure } from "./command-failure.ts";
import { unknown } from "./on-service.ts";

/** The ways to name one account, each an option of `accounts find`. */
export const ACCOUNT_NAMES = ["username", "email", "user-id", "sub"] as const;

type Finds = Pick<Accounts, "find" | "findByUserId" | "findByLogin">;

/** The account with this name of one kind. */
export async function findAccountBy(
  accounts: Finds,
  kind: (typeof ACCOUNT_NAMES)[number],
  name: string,
): Promise<Account | undefined> {
  if (kind === "sub") return accounts.find(name);
  if (kind === "user-id") {
    const userId = /^[1-9]\d{0,15}$/u.test(name) ? Number(name) : 0;
    return userId > 0 && Number.isSafeInteger(userId) ? accounts.findByUserId(userId) : undefined;
  }
  // Both share one namespace, and only an address has an `@`.
  const account = await accounts.findByLogin(name);
  return readName(name)?.includes("@") === (kind === "email") ? account : undefined;
}

/** The account with this name of any kind. @throws CommandFailure if there is none, or more than one. */
export async function findAccount(accounts: Finds, name: string): Promise<Account> {
  const all = await Promise.all(ACCOUNT_NAMES.map((kind) => findAccountBy(accounts, kind, name)));
  const different = new Map(all.flatMap((each) => (each === undefined ? [] : [[each.sub, each] as const])));
  // A username can be a number, or look like a sub.
  if (different.size > 1)
    throw new CommandFailure(
      "This name matches two accounts. See accounts find with --username, --email, --user-id or --sub.",
    );
  const [account] = different.values();
  if (account === undefined) throw unknown("account");
  return account;
}

/** The `sub` of the account with this name. A `sub` stays as it is: its account may have been deleted. */
export async function findSub(accounts: Finds, name: string): Promise<string> {
  const sub = readName(name);
  return sub !== undefined && subProblem(sub) === undefined ? sub : (await findAccount(accounts, name)).sub;
}
