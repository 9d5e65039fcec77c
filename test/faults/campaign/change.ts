/** A requested change of an account, and how it is made through the public interface. */
import { type Account, type AccountChanges, type SignInService, SignInError } from "../../../lib/index.ts";

export type Services = Readonly<Record<string, number | null>>;

/** A requested change. It writes values that no other change writes, so that they identify it. */
export type Change =
  | { readonly kind: "create"; readonly email: string; readonly portal: string | null }
  | {
      readonly kind: "import";
      readonly sub: string;
      readonly email: string;
      readonly portal: string | null;
      readonly services: Services;
    }
  | { readonly kind: "update"; readonly sub: string; readonly changes: AccountChanges }
  | { readonly kind: "move"; readonly sub: string; readonly portal: string | null }
  | { readonly kind: "assign"; readonly sub: string; readonly service: string; readonly number: number }
  | { readonly kind: "unassign"; readonly sub: string; readonly services: readonly string[] }
  | { readonly kind: "delete"; readonly sub: string };

/** What the caller learns about the account. */
export type Known = Pick<Account, "sub" | "user_id" | "portal" | "services">;

/**
 * What the caller learns. `done`: `changed` if the call says so. `refused`: a condition does not hold, and nothing was
 * changed. `failed`: a fault; whether anything was changed is unknown.
 */
export type Outcome =
  | { readonly kind: "done"; readonly changed: boolean | undefined; readonly account: Known | undefined }
  | { readonly kind: "refused"; readonly code: string; readonly account: Known | undefined }
  | { readonly kind: "failed"; readonly code: string };

type Accounts = SignInService["accounts"];

/** Expected refusals, because other callers change the same accounts. */
const REFUSALS: ReadonlySet<string> = new Set(["name_taken", "not_found", "already_exists"]);

const known = ({ sub, user_id, portal, services }: Account): Known => ({ sub, user_id, portal, services });

async function carriedOut(accounts: Accounts, change: Change): Promise<Outcome> {
  if (change.kind === "delete") {
    const changed = await accounts.delete(change.sub);
    return { kind: "done", changed, account: undefined };
  }
  if (change.kind === "unassign") {
    const changed = await accounts.unassign(change.sub, change.services);
    const account = await accounts.find(change.sub);
    return { kind: "done", changed, account: account && known(account) };
  }
  return {
    kind: "done",
    changed: isCertain(change) || undefined,
    account: known(await written(accounts, change)),
  };
}

/** Whether success means that something was changed: a move may lead to the portal that the account is in. */
function isCertain({ kind }: Change): boolean {
  return kind !== "move";
}

function written(
  accounts: Accounts,
  change: Exclude<Change, { readonly kind: "delete" | "unassign" }>,
): Promise<Account> {
  if (change.kind === "create") return accounts.create({ email: change.email, portal: change.portal });
  if (change.kind === "import") {
    const { sub, email, portal, services } = change;
    return accounts.import({ sub, email, portal, services });
  }
  if (change.kind === "assign") return accounts.assign(change.sub, change.service, change.number);
  return accounts.update(change.sub, change.kind === "move" ? { portal: change.portal } : change.changes);
}

/** Makes a change as a caller of the library does. */
export async function carryOut(accounts: Accounts, change: Change): Promise<Outcome> {
  try {
    return await carriedOut(accounts, change);
  } catch (error) {
    const code = error instanceof SignInError ? error.code : String(error);
    if (!REFUSALS.has(code)) return { kind: "failed", code };
    // Another account has the address: the caller continues with that one.
    const holder =
      "email" in change ? await accounts.findByLogin(change.email).catch(() => undefined) : undefined;
    return { kind: "refused", code, account: holder && known(holder) };
  }
}
