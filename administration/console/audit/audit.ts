/** The audit in the console: filters, by day with exact times, and a page for each record. */
import type { Page } from "../../../accounts/operations/operation.ts";
import { InvalidArgument } from "../../../core/errors.ts";
import type { PageServices } from "../../../interactions/services.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import {
  actionCell,
  actionGroups,
  actionText,
  namesOf,
  originCell,
  resultCell,
  subjectCell,
} from "./words.ts";
import type { Acting } from "../derived/act.ts";
import type { FoundRecord } from "../derived/pages.ts";
import { memberLabel } from "../derived/values.ts";
import { nameOf as entryName } from "../entries.ts";
import { PERIODS, secondsOf } from "../local-time.ts";
import { type ConsoleAnswer, type ConsoleRequest, fromList, type HeadAction, segmentOf } from "../request.ts";
import { type Cell, type Fact, member, text } from "../tables.ts";

/** Records of one page. */
const PAGE = 100;

const FILTERS = ["account", "client", "action", "since", "until"] as const;

const TIMES: ReadonlySet<string> = new Set(["since", "until"]);

const DAY_SECONDS = 86_400;

type AuditParts = Pick<PageServices, "configuration" | "storage">;

/** The filters of the address. */
const filtersOf = ({ query }: ConsoleRequest) =>
  FILTERS.flatMap((name) => {
    const value = query.get(name) ?? "";
    return value === "" ? [] : [[name, value] as const];
  });

/** The page of the export: it begins with the filters of the list, and asks for the period if they have none. */
export async function exporting(request: ConsoleRequest): Promise<Partial<Acting>> {
  const given = filtersOf(request).map(([name, value]) => {
    const seconds = TIMES.has(name) ? secondsOf(value, request) : undefined;
    return [name, seconds ?? value] as const;
  });
  const record = Object.fromEntries(given.filter(([, value]) => !Number.isNaN(value)));
  return {
    record,
    without: ["request"],
    options: { action: actionGroups(request.t).flatMap((each) => each.options) },
  };
}

export function createAuditList(parts: AuditParts) {
  const { audit } = parts.configuration;
  const kept = {
    all: Math.round(audit.retention / DAY_SECONDS),
    signIns: Math.round(audit.signIns / DAY_SECONDS),
  };

  return async (request: ConsoleRequest, actions: readonly HeadAction[]): Promise<ConsoleAnswer> => {
    const { t, query, zone, perform } = request;
    const given = filtersOf(request);
    const after = query.get("after") ?? undefined;
    const { since, until, ...others } = Object.fromEntries(given);
    const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
      const filters = new URLSearchParams({ ...Object.fromEntries(given), ...changes });
      filters.delete(without);
      return filters.size === 0 ? "/audit" : `/audit?${filters}`;
    };
    const from = since === undefined ? undefined : secondsOf(since, request);
    const to = until === undefined ? undefined : secondsOf(until, request);
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
    const names = await namesOf(
      t,
      parts,
      page.items.map(({ actor }) => actor),
      page.items.map(({ client }) => client),
    );
    const day = new Intl.DateTimeFormat(t.locale, { dateStyle: "full", timeZone: zone });
    const minute = new Intl.DateTimeFormat(t.locale, {
      dateStyle: "medium",
      timeStyle: "short",
      timeZone: zone,
    });
    const shownFilter = (name: string, value: string): string => {
      if (Object.hasOwn(PERIODS, value)) return t(`admin.period.${value}`);
      const seconds = TIMES.has(name) ? secondsOf(value, request) : Number.NaN;
      return Number.isNaN(seconds) ? value : minute.format(seconds * 1000);
    };
    const groups = actionGroups(t);
    // A log is read in columns: every time is as long as the others.
    const clock = new Intl.DateTimeFormat(t.locale, {
      timeStyle: "medium",
      hourCycle: "h23",
      timeZone: zone,
    });
    let before = "";
    const rows = page.items.map((record) => {
      const at = record.at * 1000;
      const its = day.format(at);
      const isNew = its !== before;
      before = its;
      const exact: Cell = {
        ...text(clock.format(at)),
        href: fromList(request, `/audit/${segmentOf(record.id)}`),
      };
      return {
        ...(isNew && { day: its }),
        cells: [
          exact,
          actionCell(t, record),
          names.cell(record.actor),
          subjectCell(request, record),
          originCell(t, record, names),
          resultCell(t, record),
        ],
      };
    });
    return {
      kind: "page",
      view: "console-audit",
      heading: entryName(t, "audit"),
      lead: `${t("admin.audit.lead")} ${t("admin.audit.kept", kept)}`,
      actions: actions.map(({ href, ...action }) => {
        const filters = new URLSearchParams(Object.fromEntries(given));
        return {
          ...action,
          label: t("admin.audit.export"),
          href: filters.size === 0 ? href : `${href}&${filters}`,
        };
      }),
      ...(problem !== "" && { status: 422 }),
      locals: {
        problem,
        filters: FILTERS.map((name) => ({
          name,
          label: TIMES.has(name)
            ? t("admin.zoned", { label: memberLabel(t, name), zone })
            : memberLabel(t, name),
          // A period is not a time that the field can hold.
          value: Object.hasOwn(PERIODS, query.get(name) ?? "") ? "" : (query.get(name) ?? ""),
          type: TIMES.has(name) ? "datetime-local" : "text",
          groups: name === "action" ? groups : undefined,
        })),
        chips: given.map(([name, value]) => ({
          label: memberLabel(t, name),
          value:
            name === "action"
              ? (groups.flatMap(({ options }) => options).find((each) => each.value === value)?.label ??
                value)
              : shownFilter(name, value),
          href: addressWith({}, name),
        })),
        all: given.length > 1 ? "/audit" : "",
        periods: Object.keys(PERIODS).map((period) => ({
          label: t(`admin.period.${period}`),
          href: addressWith({ since: period }, "until"),
        })),
        table: {
          caption: t("admin.audit.caption"),
          hasTwoLines: true,
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
        counted: [
          t("admin.audit.records", { count: rows.length }),
          ...(page.next === null
            ? []
            : [t("admin.audit.days", { count: rows.filter((row) => row.day).length })]),
        ].join(". "),
        first: after === undefined ? "" : addressWith({}),
        next: page.next === null ? "" : addressWith({ after: page.next }),
      },
    };
  };
}

/** The page of one record. */
export function createAuditRecord(parts: AuditParts) {
  return async (request: ConsoleRequest, { record: found }: FoundRecord): Promise<ConsoleAnswer> => {
    const { t, moments } = request;
    const record = found as unknown as AuditRecord;
    const names = await namesOf(t, parts, [record.actor], [record.client]);
    const { iso, text: exact, relative } = moments(record.at * 1000);
    const when: Fact = {
      label: t("admin.member.at"),
      value: { kind: "time", iso, relative, text: exact },
      note: exact,
    };
    const cells: readonly (readonly [label: string, cell: Cell])[] = [
      [t("admin.audit.what"), actionCell(t, record)],
      [t("admin.audit.by"), { ...text(names.inline(record.actor)), note: record.actor.id ?? "" }],
      [t("admin.audit.from"), originCell(t, record, names)],
      [t("admin.audit.result"), resultCell(t, record)],
    ];
    const about = subjectCell(request, record);
    return {
      kind: "page",
      view: "console-audit-record",
      heading: actionText(t, record.action),
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
                : {
                    kind: "link",
                    text: String(record.detail["address"] ?? record.subject),
                    href: about.href,
                  },
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
