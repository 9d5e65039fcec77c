/**
 * What a change of an account reads and writes in its transaction: the account, its sign-in names and its number, the
 * entries of the directory, and the notifications.
 */
import type { KeyObject } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { AlreadyExists, IdentifierTaken, NameTaken, UnknownReference } from "../core/errors.ts";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import { deliveryContext, newDeliveryId } from "../records/deliveries/delivery-kinds.ts";
import type { AccountRecord, EntryKind } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import {
  ACCOUNT,
  ENTRIES,
  IDENTIFIER,
  isOpen,
  SIGN_IN_NAME,
  USER_ID,
  type StoredEntry,
} from "../records/directory/directory-kinds.ts";
import { SEARCH_WORDS } from "../records/directory/search-kinds.ts";
import type { RefTo, Transaction } from "../records/records.ts";
import { namesOf } from "./names.ts";
import { type NotificationType } from "../receiver/notification.ts";
import {
  causedBy,
  explainDeliveries,
  readersOf,
  type PlanDecision,
  type PlannedAccount,
  type PlannedDirectory,
  type PlannedEntry,
} from "./plan.ts";
import { changesSearch, searchRecord } from "./search/search-words.ts";
import type { AccountServices } from "./services.ts";

/** An account before and after a change; `undefined` if there is none. */
interface AccountStep {
  readonly before: AccountRecord | undefined;
  readonly after: AccountRecord | undefined;
}

/** The account; `undefined` if there is none. */
export async function readAccount(tx: Transaction, sub: string): Promise<AccountRecord | undefined> {
  return tx.get(ACCOUNT.ref(sub));
}

/** The sign-in names that the account takes and gives up. */
function changedNames({ before, after }: AccountStep): {
  readonly claimed: readonly string[];
  readonly released: readonly string[];
} {
  // Most changes leave the names as they are, and normalizing them takes as long as a statement.
  if (before?.email === after?.email && before?.username === after?.username)
    return { claimed: [], released: [] };
  const old = before === undefined ? [] : namesOf(before);
  const current = after === undefined ? [] : namesOf(after);
  return {
    claimed: current.filter((name) => !old.includes(name)),
    released: old.filter((name) => !current.includes(name)),
  };
}

/** The services and the portal that are new on the account: they must exist. */
function newEntries({ before, after }: AccountStep): RefTo<StoredEntry>[] {
  if (after === undefined) return [];
  const services = Object.keys(after.services).filter(
    (key) => before === undefined || !Object.hasOwn(before.services, key),
  );
  const portals = after.portal === null || after.portal === before?.portal ? [] : [after.portal];
  return [
    ...services.map((key) => ENTRIES.service.ref(key)),
    ...portals.map((key) => ENTRIES.portal.ref(key)),
  ];
}

/**
 * Puts the account, or removes it, with its sign-in names, its identifiers and its place in the search. Everything is read and checked before anything
 * is put, so a caller can catch the error and go on with the transaction.
 *
 * @param step.before as {@link readAccount} has read it in this transaction.
 * @param options.search `ServiceKeys.search`.
 * @param options.drawsNumber whether the `user_id` of a new account comes from the counter. If an import has taken it,
 *   the transaction is retried.
 * @param options.isNew whether nothing can have the `sub`, so that nothing is read. Then the names are checked at the
 *   commit.
 * @throws AlreadyExists when a deleted account had the `sub` of a new account; IdentifierTaken when it is a `client_id`.
 * @throws NameTaken when an e-mail address or username belongs to another account.
 * @throws UnknownReference when a new service or portal is not in the directory, or is being removed.
 * @throws AlreadyExists when the `user_id` of a new account belongs to another one: at the commit.
 */
export async function writeAccount(
  tx: Transaction,
  step: AccountStep,
  {
    clock,
    search,
    drawsNumber = false,
    isNew = false,
  }: {
    readonly clock: Clock;
    readonly search: KeyObject;
    readonly drawsNumber?: boolean;
    readonly isNew?: boolean;
  },
): Promise<void> {
  const { before, after } = step;
  const sub = (after ?? before)?.sub;
  if (sub === undefined) return;
  if (before === undefined && !isNew) {
    const owner = await tx.get(IDENTIFIER.ref(sub));
    if (owner !== undefined)
      throw "sub" in owner
        ? new AlreadyExists("a deleted account with this sub")
        : new IdentifierTaken("a client with this client_id");
  }
  const { claimed, released } = changedNames(step);
  const others = isNew ? new Set<string>() : await ownedByOthers(tx, sub, [...claimed, ...released]);
  if (claimed.some((name) => others.has(name))) throw new NameTaken();
  const required = newEntries(step);
  const entries = await tx.getAll(required);
  for (const [index, { kind, key }] of required.entries())
    if (!isOpen(entries[index], clock)) throw new UnknownReference(`${kind} ${key}`);

  if (after === undefined) tx.remove(ACCOUNT.ref(sub));
  else if (isNew) tx.create(ACCOUNT.record(after));
  else tx.put(ACCOUNT.record(after));
  for (const name of claimed)
    if (isNew) tx.create(SIGN_IN_NAME.record({ sub }, { key: name }), () => new NameTaken());
    else tx.put(SIGN_IN_NAME.record({ sub }, { key: name }));
  for (const name of released) if (!others.has(name)) tx.remove(SIGN_IN_NAME.ref(name));
  if (after === undefined) tx.remove(SEARCH_WORDS.ref(sub));
  // What is there does not matter: the condition is the account.
  else if (changesSearch(before, after)) tx.overwrite(searchRecord(after, search));
  // A deletion keeps both identifiers, so that nobody else gets them.
  if (before !== undefined || after === undefined) return;
  const identifier = IDENTIFIER.record({ sub });
  if (isNew) tx.create(identifier, () => new IdentifierTaken("this sub"));
  else tx.put(identifier);
  const taken = drawsNumber ? undefined : () => new AlreadyExists(`the user_id ${after.user_id}`);
  tx.create(USER_ID.record({ sub }, { key: String(after.user_id) }), taken);
}

/** Which of these sign-in names belong to other accounts. */
async function ownedByOthers(
  tx: Transaction,
  sub: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  const owners = await tx.getAll(names.map((name) => SIGN_IN_NAME.ref(name)));
  return new Set(names.filter((_name, index) => (owners[index]?.sub ?? sub) !== sub));
}

/** Plans a change: lists every receiver that might be affected, and why it is or is not notified. */
export async function planChange(
  directory: Pick<DirectoryRecords, "findEntries">,
  { before, after }: { readonly before: PlannedAccount; readonly after: PlannedAccount | undefined },
  types: readonly NotificationType[],
  at: number,
  readers?: ReadonlySet<string>,
): Promise<PlanDecision[]> {
  const entries = await readPlannedDirectory(directory, [before, after ?? before]);
  return types.flatMap((type) => explainDeliveries({ type, at, readers }, before, after, entries));
}

/**
 * The directory entries that the plan needs for an account: its services, their groups, its portal.
 * @param accounts the account before and after; the entries of both are read.
 */
async function readPlannedDirectory(
  directory: Pick<DirectoryRecords, "findEntries">,
  accounts: readonly PlacedAccount[],
): Promise<PlannedDirectory> {
  const [serviceRefs, portalRefs] = entriesOf(accounts);
  const found = await directory.findEntries([...serviceRefs, ...portalRefs]);
  const services = byKey(found.slice(0, serviceRefs.length));
  const groups = byKey(await directory.findEntries(groupsOf([...services.values()])));
  return { services, groups, portals: byKey(found.slice(serviceRefs.length)) };
}

type PlacedAccount = Pick<PlannedAccount, "portal" | "services">;

const byKey = (entries: readonly (StoredEntry | undefined)[]): Map<string, StoredEntry> =>
  new Map(entries.filter((entry) => entry !== undefined).map((entry) => [entry.key, entry]));

/** References to these entries, without duplicates. */
function refsTo(kind: EntryKind, keys: readonly (string | null)[]): RefTo<StoredEntry>[] {
  const wanted = new Set(keys.filter((key) => key !== null));
  return [...wanted].map((key) => ENTRIES[kind].ref(key));
}

/** The services and portals of accounts. */
function entriesOf(accounts: readonly PlacedAccount[]): [RefTo<StoredEntry>[], RefTo<StoredEntry>[]] {
  const services = accounts.flatMap((account) => Object.keys(account.services));
  const portals = accounts.map(({ portal }) => portal);
  return [refsTo("service", services), refsTo("portal", portals)];
}

function groupsOf(services: readonly (PlannedEntry | undefined)[]): RefTo<StoredEntry>[] {
  const keys = services.map((service) => service?.group ?? null);
  return refsTo("group", keys);
}

/** The notifications of a change, sealed and ready to be stored with it. */
export async function planNotifications(
  tx: Transaction,
  { before, after }: AccountStep,
  { sealer, fields, at }: Pick<AccountServices, "sealer" | "fields"> & { readonly at: number },
): Promise<NewDelivery[]> {
  const types = before === undefined ? [] : causedBy(before, after, fields);
  if (before === undefined || types.length === 0) return [];
  const directory = { findEntries: (refs: readonly RefTo<StoredEntry>[]) => tx.peekAll(refs) };
  const plan = await planChange(directory, { before, after }, types, at, readersOf(before, after, fields));
  return plan
    .flatMap(({ delivery }) => delivery ?? [])
    .map(({ receiver, type, body }) => {
      const id = newDeliveryId(at);
      const payload = sealer.seal(deliveryContext(id), JSON.stringify(body));
      return { id, receiver, sub: before.sub, type, payload, at };
    });
}
