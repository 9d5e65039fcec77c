/** A part of the audit as a file, for people who check it and for other systems (decisions.md, What the console shows). */
import { InvalidArgument, SignInError } from "../../core/errors.ts";
import { pagesOf } from "../../core/pages.ts";
import type { AuditFilter, AuditRecord, AuditStore, Caller } from "./audit-event.ts";

export type AuditExportFormat = "csv" | "jsonl";

/** What to export. */
export interface AuditExportQuery extends AuditFilter {
  /** A table for spreadsheets, or a JSON object per line. */
  readonly format: AuditExportFormat;
  /** At this time or later, in seconds since the epoch: at most 31 days before `until`, which is now by default. */
  readonly since: number;
}

/** A file that is read while it is sent. */
export interface AuditExport {
  /** Its media type, such as `text/csv; charset=utf-8`. */
  readonly type: string;
  /** A file name that says what it is, such as `audit-2026-01-01-2026-01-31.csv`. */
  readonly name: string;
  /** How many records it has. */
  readonly records: number;
  /**
   * Its text, in pieces. Read it once. If it throws, what was read is not the whole file: break off, so that nobody takes it for one.
   */
  readonly body: AsyncIterable<string>;
}

const MAX_SECONDS = 31 * 86_400;
const MAX_RECORDS = 100_000;
/** Records that are read at a time. */
const PAGE = 1_000;

interface Format {
  readonly type: string;
  readonly header: string;
  readonly line: (record: AuditRecord) => string;
}

/** The columns, in their order. */
const COLUMNS: Readonly<Record<string, (record: AuditRecord) => string | number | null>> = {
  id: ({ id }) => id,
  at: ({ at }) => new Date(at * 1_000).toISOString(),
  action: ({ action }) => action,
  actor_kind: ({ actor }) => actor.kind,
  actor_id: ({ actor }) => actor.id ?? null,
  subject: ({ subject }) => subject,
  client: ({ client }) => client,
  outcome: ({ outcome }) => outcome,
  reason: ({ reason }) => reason,
  count: ({ count }) => count,
  address: ({ address }) => address,
  browser: ({ browser }) => browser,
  request: ({ request }) => request,
  detail: ({ detail }) => (Object.keys(detail).length === 0 ? null : JSON.stringify(detail)),
};

/** A cell as RFC 4180 has it. Spreadsheets run what looks like a formula, so an apostrophe makes a text of it. */
function cell(value: string | number | null): string {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r\n]/u.test(text) ? `'${text}` : text;
  return /[",\r\n]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const row = (cells: readonly (string | number | null)[]): string => `${cells.map(cell).join(",")}\r\n`;

const FORMATS: Readonly<Record<AuditExportFormat, Format>> = {
  csv: {
    type: "text/csv; charset=utf-8",
    header: row(Object.keys(COLUMNS)),
    line: (record) => row(Object.values(COLUMNS).map((valueOf) => valueOf(record))),
  },
  jsonl: { type: "application/jsonl", header: "", line: (record) => `${JSON.stringify(record)}\n` },
};

const tooLarge = (what: string): SignInError =>
  new SignInError("too_large", `an export has at most ${what}: export it in parts`);

const dayOf = (at: number): string => new Date(at * 1_000).toISOString().slice(0, 10);

/**
 * Counts the records, notes the export in the audit, and only then returns what can be read.
 * @param now seconds since the epoch: the export ends there at the latest, and lacks what is noted from then on.
 * @throws SignInError `too_large` for more than 31 days or 100,000 records; InvalidArgument for times in the wrong order.
 */
export async function exportAudit(
  store: Pick<AuditStore, "list" | "append">,
  { format, ...query }: AuditExportQuery,
  caller: Caller,
  now: number,
): Promise<AuditExport> {
  const { since } = query;
  const until = Math.min(query.until ?? now, now);
  if (since >= until)
    throw new InvalidArgument({ path: "record.since", message: "must be before until, and in the past" });
  if (until - since > MAX_SECONDS) throw tooLarge("31 days");
  const pages = (): ReturnType<typeof pagesOf<Awaited<ReturnType<typeof store.list>>>> =>
    pagesOf((after) => store.list({ ...query, until, limit: PAGE, after }));
  let records = 0;
  for await (const { items } of pages()) {
    records += items.length;
    if (records > MAX_RECORDS) throw tooLarge("100,000 records");
  }
  const { account, client, action } = query;
  await store.append({
    ...caller,
    action: "audit.exported",
    detail: {
      format,
      since,
      until,
      records,
      ...(account !== undefined && { of_account: account }),
      ...(client !== undefined && { of_client: client }),
      ...(action !== undefined && { of_action: action }),
    },
  });
  const { type, header, line } = FORMATS[format];
  async function* body(): AsyncGenerator<string> {
    if (header !== "") yield header;
    for await (const { items } of pages()) if (items.length > 0) yield items.map(line).join("");
  }
  return { type, name: `audit-${dayOf(since)}-${dayOf(until)}.${format}`, records, body: body() };
}
