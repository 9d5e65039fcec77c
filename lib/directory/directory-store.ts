/** The directory of a service over the record store: accounts, clients, entries and settings. */
import type { AuditStore } from "../audit/audit-event.ts";
import type { Positions } from "../deliveries/add.ts";
import type { LaneAccess } from "../deliveries/lane-access.ts";
import { Changes, type Records } from "../records.ts";
import { createAccounts } from "./accounts.ts";
import { createClients, createEntries } from "./entries.ts";
import type { DirectoryStore } from "./directory.ts";
import { type Setting, settingRef } from "./records.ts";

type Settings = Pick<DirectoryStore, "keep" | "kept">;

/** Values that the first of several processes decides. */
function createSettings(records: Records): Settings {
  const find = async (name: string): Promise<string | undefined> =>
    (await records.find<Setting>(settingRef(name)))?.value.value;
  return {
    kept: find,
    keep: (name, value) =>
      records.retry(async () => {
        const kept = await find(name);
        if (kept !== undefined) return kept;
        const changes = new Changes();
        changes.write({ ...settingRef(name), value: { value } }, undefined);
        await records.commit(changes);
        return value;
      }),
  };
}

/** @param audit makes the audit records of changes; @param positions places among deliveries. */
export function createDirectoryStore(
  records: LaneAccess,
  audit: Pick<AuditStore, "recordOf">,
  positions: Positions,
): DirectoryStore {
  return {
    ...createAccounts(records, audit, positions),
    ...createClients(records, audit),
    ...createEntries(records, audit),
    ...createSettings(records),
  };
}
