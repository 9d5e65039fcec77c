/** `audit`: reads the audit log. */
import { setTimeout as pause } from "node:timers/promises";
import { audit, type AuditQuery } from "../accounts/operations/audit.ts";
import { seconds } from "../core/clock.ts";
import { pagesOf } from "../core/pages.ts";
import type { AuditExportQuery } from "../records/audit/audit-export.ts";
import type { AuditRecord } from "../records/audit/audit-event.ts";
import type { Command } from "./program/command.ts";
import { type Call, onService } from "./program/on-service.ts";
import { commandsOf, PAGE, type Read } from "./program/operation-command.ts";
import { readInput } from "./program/operation-options.ts";

/** Pause between polls of `audit tail`. */
const POLL_INTERVAL_MS = 1_000;
/** How many records `audit tail` begins with. */
const FIRST_RECORDS = 10;
/** A process may write a record this long after the event. */
const MAX_DELAY_SECONDS = 10;

const { list } = audit.rows;
/** A file on standard output. What fails after its beginning ends the command with an error. */
async function exportFile({ service, by, context }: Call, { input }: Read): Promise<void> {
  const { body } = await service.audit.export(input as unknown as AuditExportQuery, by);
  for await (const text of body) {
    context.signal.throwIfAborted();
    context.out.write(text);
  }
}

const listCommands = commandsOf("audit", { export: exportFile });

/** The records since a time, the oldest first. */
async function recordsSince(log: Call["service"]["audit"], query: AuditQuery): Promise<AuditRecord[]> {
  const all: AuditRecord[] = [];
  for await (const { items } of pagesOf((after) => log.list({ ...query, limit: PAGE, after })))
    all.push(...items);
  return all.toReversed();
}

const idsOf = (records: readonly AuditRecord[]): readonly string[] => records.map(({ id }) => id);

async function tail(call: Call): Promise<void> {
  const { print, service } = call;
  const { signal, clock } = call.context;
  const filter: AuditQuery = await readInput(list, call);
  const recent = (): Promise<AuditRecord[]> =>
    recordsSince(service.audit, { ...filter, since: seconds(clock) - MAX_DELAY_SECONDS });
  const before = await recent();
  const { items: last } = await service.audit.list({ ...filter, limit: FIRST_RECORDS });
  print.rows(last.toReversed(), list.columns);
  let seen: ReadonlySet<string> = new Set(idsOf([...before, ...last]));
  for (;;) {
    await pause(POLL_INTERVAL_MS, undefined, { signal });
    const records = await recent();
    const fresh = records.filter(({ id }) => !seen.has(id));
    print.rows(fresh, list.columns);
    seen = new Set(idsOf(records));
  }
}

export const auditCommands: readonly Command[] = [
  ...listCommands,
  {
    words: ["audit", "tail"],
    summary: `prints the last ${FIRST_RECORDS} records, and new ones as they arrive, until it is interrupted`,
    options: listCommands
      .filter(({ words }) => words.includes("list"))
      .flatMap(({ options = [] }) => options.filter(({ form }) => !/^--(?:since|until|limit)\b/u.test(form))),
    examples: ["audit tail --json"],
    load: async () => onService(tail),
  },
];
