/** The audit in the console: filters, by day with exact times, and a page for each record. */
import type { Page } from "../../accounts/operations/operation.ts";
import { InvalidArgument } from "../../core/errors.ts";
import type { PageServices } from "../../interactions/services.ts";
import { AUDIT_ACTIONS } from "../../records/audit/actions.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { actionCell, namesOf, originCell, resultCell, subjectCell } from "./audit-words.ts";
import type { FoundRecord } from "./derived/pages.ts";
import { memberLabel } from "./derived/values.ts";
import { nameOf as entryName } from "./entries.ts";
import { type ConsoleAnswer, type ConsoleRequest, segmentOf } from "./request.ts";
import { type Cell, type Fact, member, text } from "./tables.ts";

/** Records of one page. */
const PAGE = 100;

const FILTERS = ["account", "client", "action", "since", "until"] as const;

/** Periods that one click chooses, in hours. */
const PERIODS: Readonly<Record<string, number>> = { "1h": 1, "24h": 24, "7d": 168 };

type AuditParts = Pick<PageServices, "storage">;

export function createAuditList({ storage }: AuditParts) {
  return async (request: ConsoleRequest): Promise<ConsoleAnswer> => {
    const { t, query, zone, now, perform } = request;
    const given = FILTERS.flatMap((name) => {
      const value = query.get(name) ?? "";
      return value === "" ? [] : [[name, value] as const];
    });
    const after = query.get("after") ?? undefined;
    const { since, until, ...others } = Object.fromEntries(given);
    const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
      const kept = new URLSearchParams({ ...Object.fromEntries(given), ...changes });
      kept.delete(without);
      return kept.size === 0 ? "/audit" : `/audit?${kept}`;
    };
    const from = since === undefined ? undefined : secondsOf(since, now, zone);
    const to = until === undefined ? undefined : secondsOf(until, now, zone);
    let problem = "";
    let page: Page<AuditRecord> = { items: [], next: null };
    try {
      if (Number.isNaN(from) || Number.isNaN(to)) throw new InvalidArgument({ path: "since", message: "" });
      const { result } = await perform("audit", "list", {
        input: {
          ...others,
          ...(from !== undefined && { since: from }),
          ...(to !== undefined && { until: to }),
          limit: PAGE,
          ...(after !== undefined && { after }),
        },
      });
      page = result as Page<AuditRecord>;
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
      problem = t("admin.problem.invalid_argument");
    }
    const nameOf = await namesOf(
      t,
      storage,
      page.items.map(({ actor }) => actor),
    );
    const day = new Intl.DateTimeFormat(t.locale, { dateStyle: "full", timeZone: zone });
    const clock = new Intl.DateTimeFormat(t.locale, { timeStyle: "medium", timeZone: zone });
    let before = "";
    const rows = page.items.map((record) => {
      const at = record.at * 1000;
      const its = day.format(at);
      const isNew = its !== before;
      before = its;
      const exact: Cell = {
        ...text(clock.format(at)),
        href: `/audit/${segmentOf(record.id)}`,
      };
      return {
        ...(isNew && { day: its }),
        cells: [
          exact,
          actionCell(t, record),
          text(nameOf(record.actor)),
          subjectCell(request, record),
          originCell(t, record),
          resultCell(t, record),
        ],
      };
    });
    return {
      kind: "page",
      view: "console-audit",
      heading: entryName(t, "audit"),
      lead: t("admin.audit.lead"),
      ...(problem !== "" && { status: 422 }),
      locals: {
        problem,
        filters: FILTERS.map((name) => ({
          name,
          label:
            name === "since" || name === "until"
              ? t("admin.zoned", { label: memberLabel(t, name), zone })
              : memberLabel(t, name),
          value: localOf(query.get(name) ?? ""),
          type: name === "since" || name === "until" ? "datetime-local" : "text",
          groups: name === "action" ? actionGroups() : undefined,
        })),
        chips: given.map(([name, value]) => ({
          label: memberLabel(t, name),
          value: Object.hasOwn(PERIODS, value) ? t(`admin.period.${value}`) : value,
          href: addressWith({}, name),
        })),
        periods: Object.keys(PERIODS).map((period) => ({
          label: t(`admin.period.${period}`),
          href: addressWith({ since: period }, "until"),
        })),
        table: {
          caption: t("admin.audit.caption"),
          columns: [
            { label: t("admin.zoned", { label: t("admin.member.at"), zone }) },
            { label: t("admin.audit.what") },
            { label: t("admin.audit.by") },
            { label: t("admin.audit.about") },
            { label: t("admin.audit.from") },
            { label: t("admin.audit.result"), look: "state" },
          ],
          rows,
          empty: t("admin.list.nothing"),
        },
        first: after === undefined ? "" : addressWith({}),
        next: page.next === null ? "" : addressWith({ after: page.next }),
      },
    };
  };
}

/** The page of one record. */
export function createAuditRecord({ storage }: AuditParts) {
  return async (request: ConsoleRequest, { record: found }: FoundRecord): Promise<ConsoleAnswer> => {
    const { t, moments } = request;
    const record = found as unknown as AuditRecord;
    const nameOf = await namesOf(t, storage, [record.actor]);
    const { iso, text: exact, relative } = moments(record.at * 1000);
    const when: Fact = {
      label: t("admin.member.at"),
      value: { kind: "time", iso, relative, text: exact },
      note: exact,
    };
    const cells: readonly (readonly [label: string, cell: Cell])[] = [
      [t("admin.audit.what"), actionCell(t, record)],
      [t("admin.audit.by"), { ...text(nameOf(record.actor)), note: record.actor.id ?? "" }],
      [t("admin.audit.from"), originCell(t, record)],
      [t("admin.audit.result"), resultCell(t, record)],
    ];
    const about = subjectCell(request, record);
    return {
      kind: "page",
      view: "console-audit-record",
      heading: t("admin.audit.record"),
      crumbs: [{ label: entryName(t, "audit"), href: "/audit" }],
      locals: {
        facts: [
          when,
          ...cells.map(([label, { value, note = "" }]) => ({ label, value, note })),
          {
            label: t("admin.audit.about"),
            value:
              about.href === undefined
                ? about.value
                : { kind: "link", text: record.subject ?? "", href: about.href },
          },
          ...(["client", "request", "id"] as const).map((name) => ({
            label: memberLabel(t, name),
            value: member(request, name, record[name]),
          })),
        ],
      },
    };
  };
}

/** The actions by what they are about. */
function actionGroups() {
  const groups = Map.groupBy(Object.keys(AUDIT_ACTIONS), (action) => action.split(".")[0] ?? "");
  return [...groups].map(([label, options]) => ({ label, options }));
}

/** A date and time as the field has it; nothing for what it can't hold. */
const localOf = (value: string): string => (Object.hasOwn(PERIODS, value) ? "" : value);

/** Seconds since the epoch of a period before now, or of a date and time in this zone; `NaN` for anything else. */
export function secondsOf(value: string, now: number, zone: string): number {
  if (Object.hasOwn(PERIODS, value)) return Math.floor(now / 1000) - (PERIODS[value] ?? 0) * 3_600;
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2})?$/u.test(value)) return Number.NaN;
  const wanted = Date.parse(`${value}Z`);
  // Around a change of the clocks, the second guess is right.
  let at = wanted;
  for (let tries = 0; tries < 2; tries += 1) at = wanted - offsetAt(at, zone);
  const seconds = Math.floor(at / 1000);
  return seconds < 0 ? Number.NaN : seconds;
}

/** By how much the clocks of the zone are ahead then, in milliseconds. */
function offsetAt(at: number, zone: string): number {
  if (Number.isNaN(at)) return Number.NaN;
  const parts = new Intl.DateTimeFormat("en", {
    timeZone: zone,
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
    hourCycle: "h23",
  }).formatToParts(at);
  const number = (type: string): number => Number(parts.find((part) => part.type === type)?.value);
  const local = Date.UTC(
    number("year"),
    number("month") - 1,
    number("day"),
    number("hour"),
    number("minute"),
    number("second"),
  );
  return local - Math.floor(at / 1000) * 1000;
}
