/**
 * Consistency checks of second factors: a credential id belongs to one account, and every factor that an account lists
 * exists.
 */
import type { Found, Ref } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import type { AccountRecord } from "../directory/directory.ts";
import { orphanCheck } from "../directory/directory-check.ts";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import type { Stores } from "../kinds.ts";
import { type Check, KindScan } from "../record-check.ts";
import { AUTHENTICATOR_APP, PASSKEY } from "./factor-kinds.ts";

const accountOf = (found: Found | undefined): AccountRecord | undefined =>
  found && (found.value as unknown as AccountRecord);
const ownerOf = ({ value }: Found): string => (value as unknown as { readonly sub: string }).sub;

export function factorChecks(stores: Stores, clock: Clock): Check[] {
  const [accounts, passkeys] = [ACCOUNT, PASSKEY].map((kind) => new KindScan(kind, stores, clock)) as [
    KindScan,
    KindScan,
  ];

  /** Accounts with a factor whose record is missing or belongs to another account. */
  async function incomplete(found: readonly Found[]): Promise<Found[]> {
    const wanted = found.flatMap((record) => {
      const account = accountOf(record);
      const { app = false, passkeys: ids = [] } = account?.factors ?? {};
      const refs: Ref[] = ids.map((id) => PASSKEY.ref(id));
      if (account !== undefined && app) refs.push(AUTHENTICATOR_APP.ref(account.sub));
      return refs.map((ref) => ({ record, ref, sub: account?.sub }));
    });
    const there = await accounts.store.get(wanted.map(({ ref }) => ref));
    const lacking = wanted.filter(({ sub }, index) => {
      const factor = there[index];
      return factor === undefined || ownerOf(factor) !== sub;
    });
    return [...new Set(lacking.map(({ record }) => record))];
  }

  return [
    orphanCheck(passkeys, {
      part: "passkey",
      problem: "passkeys that their account does not list",
      owner: (found) => ACCOUNT.ref(ownerOf(found)),
      isWrong: (found, owner) => accountOf(owner)?.factors?.passkeys.includes(found.key) !== true,
      show: (found) => `account ${ownerOf(found)}`,
    }),
    {
      part: "account",
      // Only the person knows what is left: see `factors remove`.
      problem: "accounts with a second factor that is missing, or belongs to another account",
      find: (limit) => accounts.find(limit, incomplete),
    },
  ];
}
