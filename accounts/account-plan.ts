/** The notifications of an account change, sealed and ready to be stored with it. */
import { randomBytes } from "node:crypto";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import { deliveryContext } from "../records/deliveries/delivery-kinds.ts";
import type { AccountRecord, EntryKind, EntryRecord } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { causedBy, planDeliveries, type PlannedAccount, type PlannedDirectory } from "./plan.ts";
import type { Sealer } from "../core/sealing.ts";
import { isObjectName } from "../core/untrusted-keys.ts";

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

/** The deliveries that an account change causes, with sealed bodies. */
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
