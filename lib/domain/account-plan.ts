/** The notifications of an account change, sealed and ready to be stored with it. */
import { randomBytes } from "node:crypto";
import type { NewDelivery } from "../deliveries/delivery.ts";
import type { AccountRecord, DirectoryStore, EntryKind, EntryRecord } from "../directory/directory.ts";
import { causedBy, planDeliveries, type PlannedAccount, type PlannedDirectory } from "../../notifier/plan.ts";
import { isObjectName } from "../object-names.ts";
import type { Sealer } from "../sealing.ts";

/** The context under which the body of a delivery is sealed. */
export function deliveryContext(id: string): string {
  return `delivery ${id}`;
}

/** The hexadecimal digits of a time in seconds, for some ten thousand years. */
const TIME_DIGITS = 10;

/**
 * Begins with the time, so that what is stored together has its place in the index of ids together, however many
 * there are already; the rest, 88 bits, is random.
 */
function newDeliveryId(at: number): string {
  return `msg_${at.toString(16).padStart(TIME_DIGITS, "0")}${randomBytes(11).toString("hex")}`;
}

/**
 * What the plan needs of the directory for an account: its services, their groups, its portal.
 * @param accounts the account before and after; entries of both are read.
 */
export async function readPlannedDirectory(
  directory: Pick<DirectoryStore, "findEntry">,
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
  directory: Pick<DirectoryStore, "findEntry">,
  kind: EntryKind,
  keys: readonly (string | null)[],
): Promise<Map<string, EntryRecord>> {
  const wanted = [...new Set(keys)].filter((key) => key !== null).filter((key) => !isObjectName(key));
  const found = await Promise.all(wanted.map((key) => directory.findEntry(kind, key)));
  return new Map(found.filter((entry) => entry !== undefined).map((entry) => [entry.key, entry]));
}

/** The deliveries that the change of an account causes; none for one that tells nobody anything. */
export async function planChange(
  deps: { readonly directory: Pick<DirectoryStore, "findEntry">; readonly sealer: Sealer },
  before: AccountRecord,
  after: AccountRecord | undefined,
  at: number,
): Promise<NewDelivery[]> {
  const types = causedBy(before, after);
  if (types.length === 0) return [];
  const directory = await readPlannedDirectory(deps.directory, [before, after ?? before]);
  return types
    .flatMap((type) => planDeliveries({ type, at }, before, after, directory))
    .map(({ receiver, type, body }) => {
      const id = newDeliveryId(at);
      const payload = deps.sealer.seal(deliveryContext(id), JSON.stringify(body));
      return { id, receiver, sub: before.sub, type, payload, at };
    });
}
