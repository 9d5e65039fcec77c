/** `audit`: reads the audit log. */
import { setTimeout as pause } from "node:timers/promises";
import type { AuditRecord } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { AuditQuery } from "../accounts/audit-log.ts";
import type { Command, CommandOption } from "./program/command.ts";
import type { Given } from "./program/given.ts";
import { type Call, onService, SERVICE_OPTIONS } from "./program/on-service.ts";

const COLUMNS = ["at", "action", "actor", "subject", "client", "outcome", "reason"] as const;
const PAGE = 500;
const DEFAULT_LIMIT = 100;
/** Milliseconds between two looks of `audit tail`. */
const LOOK = 1_000;
/** Records that `audit tail` begins with. */
const LAST = 10;
/** Seconds: a process may write a record so much later than what it tells of. */
const LATE = 10;

const filterOptions: readonly CommandOption[] = [
  { form: "--account SUB", about: "only records about or by this account" },
  { form: "--client ID", about: "only records about, through or by this client" },
  { form: "--action ACTION", about: "only this action, such as account.deleted" },
];

function filterOf(given: Given): AuditQuery {
  const [account, client, action] = [given.text("account"), given.text("client"), given.text("action")];
  return {
    ...(account !== undefined && { account }),
    ...(client !== undefined && { client }),
    ...(action !== undefined && { action }),
  };
}

async function list({ service, given, print, surroundings: { signal, clock } }: Call): Promise<void> {
  const age = given.duration("since");
  const query = {
    ...filterOf(given),
    ...(age !== undefined && { since: Math.max(0, seconds(clock) - age) }),
  };
  let left = given.count("limit") ?? DEFAULT_LIMIT;
  for (let after: string | undefined; left > 0;) {
    signal.throwIfAborted();
    const limit = Math.min(PAGE, left);
    const page = await service.audit.list({ ...query, limit, ...(after !== undefined && { after }) });
    print.rows(page.records, COLUMNS);
    left -= page.records.length;
    if (page.next === undefined) return;
    after = page.next;
  }
}

/** The records since a time, the oldest first. */
async function recordsSince({ audit }: Call["service"], query: AuditQuery): Promise<AuditRecord[]> {
  const all: AuditRecord[] = [];
  for (let after: string | undefined; ;) {
    const page = await audit.list({ ...query, limit: PAGE, ...(after !== undefined && { after }) });
    all.push(...page.records);
    if (page.next === undefined) return all.toReversed();
    after = page.next;
  }
}

const idsOf = (records: readonly AuditRecord[]): readonly string[] => records.map(({ id }) => id);

async function tail({ service, given, print, surroundings: { signal, clock } }: Call): Promise<void> {
  const filter = filterOf(given);
  const recent = (): Promise<AuditRecord[]> =>
    recordsSince(service, { ...filter, since: seconds(clock) - LATE });
  const before = await recent();
  const { records: last } = await service.audit.list({ ...filter, limit: LAST });
  print.rows(last.toReversed(), COLUMNS);
  let seen: ReadonlySet<string> = new Set(idsOf([...before, ...last]));
  for (;;) {
    await pause(LOOK, undefined, { signal });
    const records = await recent();
    const fresh = records.filter(({ id }) => !seen.has(id));
    print.rows(fresh, COLUMNS);
    seen = new Set(idsOf(records));
  }
}

export const auditCommands: readonly Command[] = [
  {
    words: ["audit", "list"],
    summary: "lists who did what, newest first",
    options: [
      ...SERVICE_OPTIONS,
      ...filterOptions,
      { form: "--since TIME", about: "only the last 7d, for example" },
      { form: "--limit N", about: `so many at most; default: ${DEFAULT_LIMIT}` },
    ],
    examples: ["audit list --account SUB --since 7d"],
    load: async () => onService(list),
  },
  {
    words: ["audit", "tail"],
    summary: `prints the last ${LAST} records, and new ones as they come, until it is interrupted`,
    options: [...SERVICE_OPTIONS, ...filterOptions],
    examples: ["audit tail --json"],
    load: async () => onService(tail),
  },
];
