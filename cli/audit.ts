/** `audit`: reads the audit log. */
import { setTimeout as pause } from "node:timers/promises";
import type { AuditRecord } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { AuditQuery } from "../accounts/audit-log.ts";
import { findSub } from "./program/account-name.ts";
import type { Command, CommandOption } from "./program/command.ts";
import { type Call, onService, SERVICE_OPTIONS } from "./program/on-service.ts";
import { pagesOf } from "../core/pages.ts";

const COLUMNS = ["at", "action", "actor", "subject", "client", "outcome", "reason", "address"] as const;
const PAGE = 500;
const DEFAULT_LIMIT = 100;
/** Pause between polls of `audit tail`. */
const POLL_INTERVAL_MS = 1_000;
/** How many records `audit tail` begins with. */
const FIRST_RECORDS = 10;
/** A process may write a record this long after the event. */
const MAX_DELAY_SECONDS = 10;

const filterOptions: readonly CommandOption[] = [
  { form: "--account SUB", about: "only records about or by this account" },
  { form: "--client ID", about: "only records about, through or by this client" },
  { form: "--action ACTION", about: "only this action, such as account.deleted" },
  {
    form: "--request ID",
    about: "only what this request did: the id is in X-Request-Id, the log and on error pages",
  },
];

async function filterOf({ args, service: { accounts } }: Call): Promise<AuditQuery> {
  const [name, client, action] = [args.text("account"), args.text("client"), args.text("action")];
  const account = name === undefined ? undefined : await findSub(accounts, name);
  const request = args.text("request");
  return {
    ...(account !== undefined && { account }),
    ...(client !== undefined && { client }),
    ...(action !== undefined && { action }),
    ...(request !== undefined && { request }),
  };
}

async function list(call: Call): Promise<void> {
  const { service, args, print } = call;
  const { signal, clock } = call.context;
  const age = args.duration("since");
  const query = {
    ...(await filterOf(call)),
    ...(age !== undefined && { since: Math.max(0, seconds(clock) - age) }),
  };
  let left = args.count("limit") ?? DEFAULT_LIMIT;
  const found = pagesOf((after) => {
    signal.throwIfAborted();
    const limit = Math.min(PAGE, left);
    return service.audit.list({ ...query, limit, ...(after !== undefined && { after }) });
  });
  for await (const { records } of found) {
    print.rows(records, COLUMNS);
    left -= records.length;
    if (left <= 0) return;
  }
}

/** The records since a time, the oldest first. */
async function recordsSince({ audit }: Call["service"], query: AuditQuery): Promise<AuditRecord[]> {
  const all: AuditRecord[] = [];
  const found = pagesOf((after) =>
    audit.list({ ...query, limit: PAGE, ...(after !== undefined && { after }) }),
  );
  for await (const { records } of found) all.push(...records);
  return all.toReversed();
}

const idsOf = (records: readonly AuditRecord[]): readonly string[] => records.map(({ id }) => id);

async function tail(call: Call): Promise<void> {
  const { service, print } = call;
  const { signal, clock } = call.context;
  const filter = await filterOf(call);
  const recent = (): Promise<AuditRecord[]> =>
    recordsSince(service, { ...filter, since: seconds(clock) - MAX_DELAY_SECONDS });
  const before = await recent();
  const { records: last } = await service.audit.list({ ...filter, limit: FIRST_RECORDS });
  print.rows(last.toReversed(), COLUMNS);
  let seen: ReadonlySet<string> = new Set(idsOf([...before, ...last]));
  for (;;) {
    await pause(POLL_INTERVAL_MS, undefined, { signal });
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
      { form: "--limit N", about: `maximum number; default: ${DEFAULT_LIMIT}` },
    ],
    examples: ["audit list --account SUB --since 7d"],
    load: async () => onService(list),
  },
  {
    words: ["audit", "tail"],
    summary: `prints the last ${FIRST_RECORDS} records, and new ones as they arrive, until it is interrupted`,
    options: [...SERVICE_OPTIONS, ...filterOptions],
    examples: ["audit tail --json"],
    load: async () => onService(tail),
  },
];
