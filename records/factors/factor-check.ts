/**
 * Consistency checks of what people sign in with: each record belongs to an account that lists it, and everything that an
 * account lists exists.
 */
import type { Found } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import type { AccountRecord } from "../directory/directory.ts";
import { orphanCheck } from "../directory/directory-check.ts";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import type { AnyKind, Stores } from "../kinds.ts";
import { type Check, KindScan } from "../record-check.ts";

/** A way to sign in, as far as accounts list it. */
export interface ListedWay {
  /** What the account has of it, oldest first. */
  readonly ids: (
    account: Pick<AccountRecord, "sub" | "ways"> & Partial<Pick<AccountRecord, "email_verified">>,
  ) => readonly string[];
  /** The record of each. Left out: they have none. */
  readonly stored?: {
    readonly kind: AnyKind;
    /** What several are called. */
    readonly plural: string;
    readonly key: (sub: string, id: string) => string;
  };
}

const accountOf = (found: Found | undefined): AccountRecord | undefined =>
  found && (found.value as unknown as AccountRecord);
const ownerOf = ({ value }: Found): string => (value as unknown as { readonly sub: string }).sub;

export function factorChecks(stores: Stores, ways: readonly ListedWay[], clock: Clock): Check[] {
  const accounts = new KindScan(ACCOUNT, stores, clock);
  const listed = ways.flatMap(({ ids, stored }) => {
    const keys = (account: AccountRecord): string[] =>
      stored === undefined ? [] : ids(account).map((id) => stored.key(account.sub, id));
    return stored === undefined ? [] : [{ ...stored, keys }];
  });

  /** Accounts that list something whose record is missing or belongs to another account. */
  async function incomplete(found: readonly Found[]): Promise<Found[]> {
    const wanted = found.flatMap((record) => {
      const account = accountOf(record);
      if (account === undefined) return [];
      const refs = listed.flatMap(({ kind, keys }) => keys(account).map((key) => kind.ref(key)));
      return refs.map((ref) => ({ record, ref, sub: account.sub }));
    });
    const there = await accounts.store.get(wanted.map(({ ref }) => ref));
    const lacking = wanted.filter(({ sub }, index) => {
      const stored = there[index];
      return stored === undefined || ownerOf(stored) !== sub;
    });
    return [...new Set(lacking.map(({ record }) => record))];
  }

  return [
    ...listed.map(({ kind, plural, keys }) =>
      orphanCheck(new KindScan(kind, stores, clock), {
        part: kind.name,
        problem: `${plural} that their account does not list`,
        owner: (found) => ACCOUNT.ref(ownerOf(found)),
        isWrong(found, owner) {
          const account = accountOf(owner);
          return account === undefined || !keys(account).includes(found.key);
        },
        show: (found) => `account ${ownerOf(found)}`,
      }),
    ),
    {
      part: "account",
      // Only the person knows what is left: see `factors remove`.
      problem: "accounts with a second factor or an identity that is missing, or belongs to another account",
      find: (limit) => accounts.find(limit, incomplete),
    },
  ];
}
