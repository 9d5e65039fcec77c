/** Removes a service, group or portal that nothing refers to. An index can't be a condition, so it takes two steps. */
import { StillReferenced } from "../../core/errors.ts";
import type { AuditEvent, AuditStore } from "../audit/audit-event.ts";
import type { Records } from "../records.ts";
import type { EntryKind } from "./directory.ts";
import { ENTRIES, entryRecord, REFERRING } from "./directory-kinds.ts";
import { toEntryRecord } from "./directory-records.ts";

/** How many references an error names. */
const MAX_NAMED_REFERENCES = 10;
/** How long a removal may take. After that the entry can be referred to again. */
const CLOSING_MS = 4_000;

/** The references to the entry, as `StillReferenced` lists them. */
async function references(records: Records, kind: EntryKind, key: string): Promise<string[]> {
  const queries = REFERRING[kind](key).map((where) => Object.assign(where, { limit: MAX_NAMED_REFERENCES }));
  const pages = await records.store.list(queries);
  const named = pages.flatMap((page) =>
    page.records.map((record) => {
      const { sub, client_id, key: service } = record.value as Readonly<Record<string, string | undefined>>;
      return `${record.kind}:${sub ?? client_id ?? service}`;
    }),
  );
  return named.slice(0, MAX_NAMED_REFERENCES);
}

/**
 * Closes the entry, so that nothing new can refer to it, looks for references, and then removes or reopens it. A
 * process that dies in between leaves it closed for a few seconds.
 *
 * @returns `false` if there is none.
 * @throws StillReferenced naming at most ten references: `client:ID`, `service:KEY`, `account:SUB`.
 */
export async function removeEntry(
  { records, audit }: { readonly records: Records; readonly audit: Pick<AuditStore, "recordOf"> },
  kind: EntryKind,
  key: string,
  event: AuditEvent,
): Promise<boolean> {
  const ref = ENTRIES[kind].ref(key);
  for (;;) {
    const closingUntil = records.clock.now() + CLOSING_MS;
    const entry = await records.transact(async (tx) => {
      const found = await tx.get(ref);
      if (found !== undefined) tx.put(entryRecord(kind, { ...found, closingUntil }));
      return found && toEntryRecord(found);
    });
    if (entry === undefined) return false;
    const found = await references(records, kind, key);
    const isDone = await records.transact(
      async (tx) => {
        const closed = await tx.get(ref);
        // Somebody has removed or replaced the entry since, and something may refer to the new one.
        if (closed?.closingUntil !== closingUntil) return false;
        if (found.length > 0) tx.put(entryRecord(kind, entry));
        else {
          tx.remove(ref);
          tx.overwrite(audit.recordOf(event));
        }
        return true;
      },
      { deadline: closingUntil },
    );
    if (!isDone) continue;
    if (found.length > 0) throw new StillReferenced(`${kind} ${key}`, found);
    return true;
  }
}
