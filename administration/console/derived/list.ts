/** A list of records, from the row of its operation: columns, filters, and the next page. */
import { type AnyRow, membersOf } from "../../../accounts/operations/operation.ts";
import type { ConsoleAnswer, ConsoleRequest, HeadAction } from "../request.ts";
import { segmentOf } from "../request.ts";
import { nameOf } from "../entries.ts";
import { fieldsOf } from "./fields.ts";
import { memberLabel, type Showing, shownValue } from "./values.ts";

/** Rows of one page. */
const PAGE = 50;

/** What a list needs of its noun. */
export interface ListOf {
  readonly noun: string;
  readonly entry: string;
  readonly row: AnyRow;
  /** The member that names an item, if items have pages. */
  readonly identifier: string | undefined;
  /** Commands for what the page does not offer. */
  readonly commands?: readonly string[];
  /** What the table shows instead of the columns of the row. */
  readonly columns?: readonly string[];
  readonly actions: readonly HeadAction[];
  readonly showing: Showing;
}

export async function listAnswer(request: ConsoleRequest, list: ListOf): Promise<ConsoleAnswer> {
  const { t, path, query, perform } = request;
  const { noun, entry, row, identifier, actions, showing } = list;
  const after = query.get("after") ?? undefined;
  const given = Object.keys(membersOf(row)).flatMap((name) => {
    const value = query.get(name) ?? "";
    return value === "" ? [] : [[name, value] as const];
  });
  const filled = Object.fromEntries(given);
  const form = new Map(given);
  const fields = fieldsOf(t, row, `${noun}.list`, { filled: form });
  const filter = Object.fromEntries(
    given.map(([name, value]) => {
      const options = fields.find((each) => each.name === name)?.options?.map((each) => each.value);
      return [name, options?.join() === "yes,no" ? value === "yes" : value];
    }),
  );
  const input = { ...filter, limit: PAGE, ...(after !== undefined && { after }) };
  const { result } = await perform(noun, "list", { target: [], input });
  const { items, next } = result as {
    readonly items: readonly Readonly<Record<string, unknown>>[];
    readonly next: string | null;
  };
  const isPart = given.length > 0 || after !== undefined;
  const columns = columnsOf(list);
  const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
    const kept = new URLSearchParams({ ...filled, ...changes });
    kept.delete(without);
    return kept.size === 0 ? path : `${path}?${kept}`;
  };
  return {
    kind: "page",
    view: "console-list",
    heading: nameOf(t, entry),
    actions,
    locals: {
      action: path,
      filters: fields,
      chips: given.map(([name, value]) => ({
        label: memberLabel(t, name),
        value,
        href: addressWith({}, name),
      })),
      caption: nameOf(t, entry),
      columns: columns.map((name) => ({ label: memberLabel(t, name), look: lookOf(name) })),
      rows: items.map((item) => ({
        href: identifier === undefined ? "" : `${path}/${segmentOf(String(item[identifier]))}`,
        cells: columns.map((name) => shownValue(showing, name, item[name], { inTable: true })),
      })),
      commands: list.commands ?? [],
      empty: t(isPart ? "admin.list.nothing" : "admin.list.empty"),
      // Nothing matches: without filters something may. Nothing is there: the first one is made here.
      emptyNext: isPart
        ? { href: path, label: t("admin.filter.removeAll") }
        : actions.find(({ isPrimary }) => isPrimary),
      first: after === undefined ? "" : addressWith({}),
      next: next === null ? "" : addressWith({ after: next }),
    },
  };
}

function columnsOf({ row, columns, identifier }: ListOf): readonly string[] {
  const chosen = columns ?? row.columns;
  if (chosen.length > 0) return chosen;
  return identifier === undefined ? [] : [identifier];
}

/** Classes of a column: names come first, and states are beside them on cards. */
function lookOf(name: string): string {
  if (name === "disabled" || name === "state" || name === "paused") return "state";
  return name === "name" ? "name" : "";
}
