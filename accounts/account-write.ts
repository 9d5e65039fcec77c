/**
 * Writes an account in a transaction, with its sign-in names, its number, and the notifications of the change. The
 * entries of the directory that it needs must exist.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { AlreadyExists, IdentifierTaken, NameTaken, UnknownReference } from "../core/errors.ts";
import type { Sealer } from "../core/sealing.ts";
import { isObjectName } from "../core/untrusted-keys.ts";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import { deliveryContext } from "../records/deliveries/delivery-kinds.ts";
import type { AccountRecord, EntryKind, EntryRecord } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import {
  ACCOUNT,
  accountIn,
  accountRecord,
  ENTRIES,
  isOpen,
  nameRecord,
  numberRecord,
  SIGN_IN_NAME,
  USER_ID,
} from "../records/directory/directory-kinds.ts";
import type { Transaction } from "../records/records.ts";
import { causedBy, planDeliveries, type PlannedAccount, type PlannedDirectory } from "./plan.ts";
import { namesOf } from "./text-rules.ts";

/** The account; `undefined` if there is none, or if the identifier belongs to a client. */
export async function readAccount(tx: Transaction, sub: string): Promise<AccountRecord | undefined> {
  return accountIn(await tx.get(ACCOUNT.ref(sub)));
}

/**
 * Puts the account, or removes it, with its sign-in names and its number. Everything is read and checked before anything
 * is put, so a caller can catch the error and go on with the transaction.
 *
 * @param before as {@link readAccount} has read it in this transaction.
 * @param after `undefined` removes the account.
 * @param drawsNumber whether the `user_id` of a new account comes from the counter. If an import has taken it, the
 *   transaction is decided again.
 * @throws IdentifierTaken when the `sub` of a new account is a `client_id`.
 * @throws NameTaken when an e-mail address or username belongs to another account.
 * @throws UnknownReference when a new service or portal is not in the directory, or is being removed.
 * @throws AlreadyExists when the `user_id` of a new account belongs to another one: at the commit.
 */
export async function writeAccount(
  tx: Transaction,
  {
    before,
    after,
  }: { readonly before: AccountRecord | undefined; readonly after: AccountRecord | undefined },
  { clock, drawsNumber = false }: { readonly clock: Clock; readonly drawsNumber?: boolean },
): Promise<void> {
  const sub = (after ?? before)?.sub;
  if (sub === undefined) return;
  if (before === undefined && (await tx.get(ACCOUNT.ref(sub))) !== undefined)
    throw new IdentifierTaken("a client with this client_id");
  const names = await changedNames(tx, sub, before, after);
  await requireEntries(tx, before, after, clock);

  if (after === undefined) tx.remove(ACCOUNT.ref(sub));
  else tx.put(accountRecord(after));
  for (const name of names.claimed) tx.put(nameRecord(name, sub));
  for (const name of names.released) tx.remove(SIGN_IN_NAME.ref(name));
  if (before?.user_id === after?.user_id) return;
  if (before !== undefined) tx.remove(USER_ID.ref(String(before.user_id)));
  if (after === undefined) return;
  const taken = drawsNumber ? undefined : () => new AlreadyExists(`the user_id ${after.user_id}`);
  tx.create(numberRecord(after.user_id, sub), taken);
}

/** Reads the sign-in names that the account takes and gives up. */
async function changedNames(
  tx: Transaction,
  sub: string,
  before: AccountRecord | undefined,
  after: AccountRecord | undefined,
): Promise<{ readonly claimed: readonly string[]; readonly released: readonly string[] }> {
  const old = before === undefined ? [] : namesOf(before);
  const current = after === undefined ? [] : namesOf(after);
  const claimed = current.filter((name) => !old.includes(name));
  const released = old.filter((name) => !current.includes(name));
  if (claimed.length + released.length === 0) return { claimed, released };
  const owners = await tx.getAll([...claimed, ...released].map((name) => SIGN_IN_NAME.ref(name)));
  const isOthers = (index: number): boolean => (owners[index]?.sub ?? sub) !== sub;
  if (claimed.some((_name, index) => isOthers(index))) throw new NameTaken();
  return { claimed, released: released.filter((_name, index) => !isOthers(claimed.length + index)) };
}

/** Makes it a condition that the new services and the new portal of the account exist. */
async function requireEntries(
  tx: Transaction,
  before: AccountRecord | undefined,
  after: AccountRecord | undefined,
  clock: Clock,
): Promise<void> {
  if (after === undefined) return;
  const services = Object.keys(after.services).filter(
    (key) => before === undefined || !Object.hasOwn(before.services, key),
  );
  const portals = after.portal === null || after.portal === before?.portal ? [] : [after.portal];
  const required = [
    ...services.map((key) => ["service", key] as const),
    ...portals.map((key) => ["portal", key] as const),
  ];
  if (required.length === 0) return;
  const found = await tx.getAll(required.map(([kind, key]) => ENTRIES[kind].ref(key)));
  for (const [index, [kind, key]] of required.entries())
    if (!isOpen(found[index], clock)) throw new UnknownReference(`${kind} ${key}`);
}

/** Hexadecimal digits of a time in seconds: enough for thirty thousand years. */
const TIME_DIGITS = 10;

/**
 * Starts with the time, so that ids of the same period are neighbours in the index, however large it is; the rest,
 * 88 bits, is random.
 */
function newDeliveryId(at: number): string {
  return `msg_${at.toString(16).padStart(TIME_DIGITS, "0")}${randomBytes(11).toString("hex")}`;
}

/**
 * The directory entries that the plan needs for an account: its services, their groups, its portal.
 * @param accounts the account before and after; the entries of both are read.
 */
export async function readPlannedDirectory(
  directory: Pick<DirectoryRecords, "findEntry">,
  accounts: readonly Pick<PlannedAccount, "portal" | "services">[],
): Promise<PlannedDirectory> {
  const read = (kind: EntryKind, keys: readonly (string | null)[]): Promise<Map<string, EntryRecord>> =>
    readEntries(directory, kind, keys);
  const services = await read(
    "service",
    accounts.flatMap((account) => Object.keys(account.services)),
  );
  const [groups, portals] = await Promise.all([
    read(
      "group",
      [...services.values()].map(({ group }) => group),
    ),
    read(
      "portal",
      accounts.map(({ portal }) => portal),
    ),
  ]);
  return { services, groups, portals };
}

async function readEntries(
  directory: Pick<DirectoryRecords, "findEntry">,
  kind: EntryKind,
  keys: readonly (string | null)[],
): Promise<Map<string, EntryRecord>> {
  const wanted = [...new Set(keys)].filter((key) => key !== null).filter((key) => !isObjectName(key));
  const found = await Promise.all(wanted.map((key) => directory.findEntry(kind, key)));
  return new Map(found.filter((entry) => entry !== undefined).map((entry) => [entry.key, entry]));
}

/** The notifications of an account change, sealed and ready to be stored with it. */
export async function planChange(
  directory: Pick<DirectoryRecords, "findEntry">,
  sealer: Sealer,
  before: AccountRecord,
  after: AccountRecord | undefined,
  at: number,
): Promise<NewDelivery[]> {
  const types = causedBy(before, after);
  if (types.length === 0) return [];
  const entries = await readPlannedDirectory(directory, [before, after ?? before]);
  return types
    .flatMap((type) => planDeliveries({ type, at }, before, after, entries))
    .map(({ receiver, type, body }) => {
      const id = newDeliveryId(at);
      const payload = sealer.seal(deliveryContext(id), JSON.stringify(body));
      return { id, receiver, sub: before.sub, type, payload, at };
    });
}
