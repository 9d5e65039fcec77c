/** What becomes of the records about an account that is deleted. The page about personal data says the same. */
import type { AnyKind } from "../../records/kinds.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";

/** Kinds that name an account, or what it was called, and outlive it, each with the reason. */
export const KEPT: Readonly<Record<string, string>> = {
  audit: "what happened to the account is kept for `audit.retention`",
  delivery: "the notification about the deletion is one of them",
  payload: "as its delivery",
  lane: "as its deliveries",
  removal: "until everything else is removed",
  idempotency: "a repeat of the request that deleted the account learns that it is gone; 24 hours",
  identifier: "nobody else gets the `sub`",
  "user-id": "nobody else gets the number",
  seeded: "the seed does not make the account again",
};

/** Kinds whose records the cleanup removes. */
const REMOVED: ReadonlySet<string> = new Set(["session", "grant", "interaction", "confirmation"]);

/** Whether the records about an account are removed with it. */
export function endsWithAccount(kind: AnyKind): boolean {
  const above = kind.declaration.parent?.kind;
  return (
    kind.name === ACCOUNT.name || REMOVED.has(kind.name) || (above !== undefined && endsWithAccount(above))
  );
}
