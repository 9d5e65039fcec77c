/** The directory of a service over the record store: accounts, clients, entries, settings and the audit. */
import type { AuditRecord, DirectoryStore } from "./directory.ts";
import { createPositions } from "../deliveries/add.ts";
import type { LaneAccess } from "../deliveries/lane-access.ts";
import { Changes, type Records } from "../records.ts";
import { createAccounts } from "./accounts.ts";
import { createClients, createEntries } from "./entries.ts";
import { AUDIT, auditDay, auditRecord, type KeptAudit, type Setting, settingRef } from "./records.ts";

type Settings = Pick<DirectoryStore, "keep" | "kept">;
type Audit = Pick<DirectoryStore, "appendAudit" | "listAudit">;

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

/** Days that are looked through in one round trip. */
const DAYS = 100;
/** The oldest audit record has at most this age, in days. */
const OLDEST = 4_000;

function withoutPosition({ position: _position, ...record }: KeptAudit): AuditRecord {
  return record;
}

function createAudit(records: Records, positions: () => number): Audit {
  return {
    async appendAudit(record) {
      const changes = new Changes();
      changes.add(auditRecord(record, positions()));
      await records.commit(changes);
    },
    async listAudit({ limit }) {
      const found: AuditRecord[] = [];
      const today = Number(auditDay(records.clock.now() / 1_000));
      for (let day = today; day > today - OLDEST && found.length < limit; day -= DAYS) {
        const pages = await records.store.list(
          Array.from({ length: DAYS }, (_, index) => ({
            ...AUDIT.where("day", String(day - index)),
            limit: Math.min(1_000, limit),
            descending: true,
          })),
        );
        for (const { records: page } of pages) {
          found.push(...page.map(({ value }) => withoutPosition(value as unknown as KeptAudit)));
        }
      }
      return found.slice(0, Math.max(0, limit));
    },
  };
}

export function createDirectoryStore(records: LaneAccess): DirectoryStore {
  const positions = createPositions(records);
  return {
    ...createAccounts(records, positions),
    ...createClients(records, positions),
    ...createEntries(records),
    ...createSettings(records),
    ...createAudit(records, positions),
  };
}
