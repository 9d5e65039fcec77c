/** `audit`: reads the audit log. */
import { setTimeout as pause } from "node:timers/promises";
import type { AuditRecord } from "../lib/audit/audit-event.ts";
import { seconds } from "../lib/clock.ts";
import type { AuditQuery } from "../lib/domain/audit-log.ts";
import type { Command, CommandOption } from "./program/command.ts";
import type { Given } from "./program/given.ts";
import { type Call, onService, SERVICE_OPTIONS } from "./program/on-service.ts";

const COLUMNS = ["at", "action", "actor", "subject", "client", "outcome", "reason"] as const;
const PAGE = 500;
const DEFAULT_LIMIT = 100;
/** Milliseconds between two looks of `audit tail`. */
const LOOK = 1_000;
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

async function tail({ service, given, print, surroundings: { signal, clock } }: Call): Promise<void> {
  const filter = filterOf(given);
  const started = seconds(clock);
  let seen: ReadonlySet<string> = new Set();
  for (;;) {
    const since = Math.max(started, seconds(clock) - LATE);
    const records = await recordsSince(service, { ...filter, since });
    const fresh = records.filter(({ id }) => !seen.has(id));
    print.rows(fresh, COLUMNS);
    seen = new Set(records.map(({ id }) => id));
    await pause(LOOK, undefined, { signal });
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
    summary: "prints new records as they come, until it is interrupted",
    options: [...SERVICE_OPTIONS, ...filterOptions],
    examples: ["audit tail --json"],
    load: async () => onService(tail),
  },
];
