/** Consistency checks of the directory: names, numbers and identifiers must belong to existing records. */
import type { Found, RecordData, RecordStore, Ref } from "../../adapters/record-store.ts";
import type { AccountRecord, ClientRecord } from "./directory.ts";
import { type Check, type Flaw, KindScan } from "../record-check.ts";
import type { Clock } from "../../core/clock.ts";
import type { Stores } from "../kinds.ts";
import {
  ACCOUNT,
  type IdentifierOwner,
  BY_NUMBER,
  CLIENT,
  IDENTIFIER,
  type AccountReference,
  SIGN_IN_NAME,
  USER_ID,
} from "./directory-kinds.ts";

/** The sign-in names of an account. */
type NamesOf = (account: AccountRecord) => readonly string[];

const identifierOf = ({ value }: Found): IdentifierOwner => value as unknown as IdentifierOwner;
const ownerOf = (found: Found | undefined): string | undefined =>
  (found?.value as AccountReference | undefined)?.sub;
const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** Records that an account or a client requires. */
interface Requirement {
  readonly part: string;
  readonly problem: string;
  /** The records that it requires; none if the check does not apply. */
  readonly needs: (found: Found) => readonly RecordData[];
  /** Whether the stored record is the required one. */
  readonly isOwn: (there: Found, needed: RecordData) => boolean;
}

/** Finds records that lack a required record. Repairing adds it unless its key is taken. */
function requirementCheck(scan: KindScan, { part, problem, needs, isOwn }: Requirement): Check {
  const { store } = scan;

  async function lacking(records: readonly Found[]): Promise<Map<string, RecordData[]>> {
    const wanted = records.flatMap((record) => needs(record).map((needed) => ({ record, needed })));
    const there = await store.get(wanted.map(({ needed }) => needed));
    const lack = new Map<string, RecordData[]>();
    for (const [index, { record, needed }] of wanted.entries()) {
      const found = there[index];
      if (found !== undefined && isOwn(found, needed)) continue;
      lack.set(record.key, [...(lack.get(record.key) ?? []), ...(found === undefined ? [needed] : [])]);
    }
    return lack;
  }

  return {
    part,
    problem,
    find: (limit) =>
      scan.find(limit, async (records) => {
        const lack = await lacking(records);
        return records.filter(({ key }) => lack.has(key));
      }),
    repair: (flaws) =>
      scan.repair(flaws, async (found) => ({ put: (await lacking([found])).get(found.key) ?? [] })),
  };
}

/** Records that belong to another one. */
interface Dependent {
  readonly part: string;
  readonly problem: string;
  /** The record that it belongs to; `undefined` if the check does not apply. */
  readonly owner: (found: Found) => Ref | undefined;
  /** Whether it does not belong to the owner, or there is no owner. */
  readonly isWrong: (found: Found, owner: Found | undefined) => boolean;
  readonly show?: (found: Found) => string;
}

/** Finds orphaned records. Repairing removes them. */
export function orphanCheck(scan: KindScan, { part, problem, owner, isWrong, show }: Dependent): Check {
  const { store } = scan;

  async function wrong(records: readonly Found[]): Promise<Found[]> {
    const owned = records.flatMap((record) => {
      const ref = owner(record);
      return ref === undefined ? [] : [{ record, ref }];
    });
    const owners = await store.get(owned.map(({ ref }) => ref));
    return owned.filter(({ record }, index) => isWrong(record, owners[index])).map(({ record }) => record);
  }

  return {
    part,
    problem,
    async find(limit) {
      const flaws = await scan.find(limit, wrong);
      if (show === undefined) return flaws;
      const found = await store.get(flaws.map(({ id }) => ({ kind: scan.kind.name, key: id })));
      return flaws.map((flaw, index): Flaw => {
        const record = found[index];
        return record === undefined ? flaw : { id: flaw.id, shown: show(record) };
      });
    },
    repair: (flaws) =>
      scan.repair(flaws, async (found) => ({
        remove: (await wrong([found])).map(({ kind, key }) => ({ kind, key })),
      })),
  };
}

const accountIn = ({ value }: Found): AccountRecord => value as unknown as AccountRecord;
const showOwner = (found: Found): string => `account ${ownerOf(found)}`;

const numberFor = ({ sub, user_id }: AccountRecord): RecordData =>
  USER_ID.record({ sub }, { key: String(user_id) });
const isOwned = (there: Found, { value }: RecordData): boolean =>
  ownerOf(there) === (value as unknown as AccountReference).sub;
const ownerRef = (found: Found): Ref => ACCOUNT.ref(ownerOf(found) ?? "");

/** The counter that numbers the accounts. Checking it uses up one number. */
function counterCheck(storage: RecordStore, counter: string): Check {
  const highest = async (): Promise<number> => {
    const [page] = await storage.list([{ ...BY_NUMBER, limit: 1, descending: true }]);
    const [last] = page?.records ?? [];
    return last === undefined ? 0 : accountIn(last).user_id;
  };
  return {
    part: "user-id",
    problem: "counters that would return a number again",
    async find() {
      const last = await highest();
      return last > 0 && (await storage.next(counter)) <= last ? [{ id: counter, shown: counter }] : [];
    },
    async repair() {
      await storage.next(counter, (await highest()) + 1);
    },
  };
}

export function directoryChecks(stores: Stores, namesOf: NamesOf, clock: Clock): Check[] {
  const { storage } = stores;
  const [accounts, clients, names, numbers, identifiers] = [
    ACCOUNT,
    CLIENT,
    SIGN_IN_NAME,
    USER_ID,
    IDENTIFIER,
  ].map((kind) => new KindScan(kind, stores, clock)) as [KindScan, KindScan, KindScan, KindScan, KindScan];
  const namesFor = (account: AccountRecord): RecordData[] =>
    namesOf(account).map((key) => SIGN_IN_NAME.record({ sub: account.sub }, { key }));

  return [
    orphanCheck(names, {
      part: "sign-in-name",
      problem: "accounts with a sign-in name that is not theirs",
      owner: ownerRef,
      isWrong: (found, owner) =>
        owner !== undefined && !namesFor(accountIn(owner)).some((own) => nameOf(own) === nameOf(found)),
      show: showOwner,
    }),
    requirementCheck(accounts, {
      part: "account",
      problem: "accounts that one of their sign-in names does not lead to",
      needs: (found) => namesFor(accountIn(found)),
      isOwn: isOwned,
    }),
    orphanCheck(numbers, {
      part: "user-id",
      problem: "user_ids that lead to no account of theirs",
      owner: ownerRef,
      isWrong: (found, owner) => owner !== undefined && nameOf(numberFor(accountIn(owner))) !== nameOf(found),
    }),
    orphanCheck(numbers, {
      part: "user-id",
      problem: "user_ids of nobody",
      // The identifiers of a deleted account stay.
      owner: (found) => IDENTIFIER.ref(ownerOf(found) ?? ""),
      isWrong: (_found, owner) => owner === undefined || !("sub" in identifierOf(owner)),
    }),
    requirementCheck(accounts, {
      part: "account",
      problem: "accounts that their user_id does not lead to",
      needs: (found) => [numberFor(accountIn(found))],
      isOwn: isOwned,
    }),
    requirementCheck(accounts, {
      part: "account",
      problem: "accounts with an identifier that a client has or could get",
      needs: (found) => [IDENTIFIER.record({ sub: accountIn(found).sub })],
      isOwn: (there) => "sub" in identifierOf(there),
    }),
    counterCheck(storage, USER_ID.declaration.counter ?? ""),
    orphanCheck(identifiers, {
      part: "identifier",
      problem: "reserved identifiers of clients that do not exist",
      owner(found) {
        const holder = identifierOf(found);
        return "client_id" in holder ? CLIENT.ref(holder.client_id) : undefined;
      },
      isWrong: (_found, owner) => owner === undefined,
    }),
    requirementCheck(clients, {
      part: "client",
      problem: "clients with an identifier that an account has or could get",
      needs: ({ value }) => {
        const { client_id } = value as unknown as ClientRecord;
        return [IDENTIFIER.record({ client_id })];
      },
      isOwn: (there) => "client_id" in identifierOf(there),
    }),
  ];
}
