/** A list of records, from the row of its operation: columns, filters, and the next page. */
import { type AnyRow, membersOf } from "../../../accounts/operations/operation.ts";
import type { ConsoleAnswer, ConsoleRequest, HeadAction } from "../request.ts";
import { segmentOf } from "../request.ts";
import { nameOf } from "../entries.ts";
import type { Cell, Table, Verdict } from "../tables.ts";
import { type FieldLook, fieldsOf } from "./fields.ts";
import { choiceLabel, memberLabel, type Showing, shownValue, type ShownValue } from "./values.ts";

/** A record as a list has it. */
export type Item = Readonly<Record<string, unknown>>;

/** What a list shows beside the members of its items. */
export interface ListLook {
  /** The columns. Default: those of the row. */
  readonly columns?: readonly string[];
  /** The cells of a row that are no members of the item, by column. */
  readonly cells?: (
    request: ConsoleRequest,
    items: readonly Item[],
  ) => Promise<(item: Item) => Readonly<Record<string, Cell>>>;
  /** What it says first, if something needs somebody. */
  readonly verdict?: (request: ConsoleRequest, items: readonly Item[]) => Verdict | undefined;
  /** Commands for what the page does not offer. */
  readonly commands?: readonly string[];
}

/** Rows of one page. */
const PAGE = 50;

/** What a list needs of its noun. */
export interface ListOf {
  readonly noun: string;
  readonly entry: string;
  readonly row: AnyRow;
  /** The member that names an item, if items have pages. */
  readonly identifier: string | undefined;
  readonly look: ListLook;
  readonly actions: readonly HeadAction[];
  readonly showing: Showing;
  /** What can be chosen for a filter that takes any text. */
  readonly options: FieldLook["options"];
}

export async function listAnswer(request: ConsoleRequest, list: ListOf): Promise<ConsoleAnswer> {
  const { t, path, query, perform } = request;
  const { noun, entry, row, actions, look, options = {} } = list;
  const after = query.get("after") ?? undefined;
  const given = Object.keys(membersOf(row)).flatMap((name) => {
    const value = query.get(name) ?? "";
    return value === "" ? [] : [[name, value] as const];
  });
  const filled = Object.fromEntries(given);
  const form = new Map(given);
  const fields = fieldsOf(t, row, `${noun}.list`, { filled: form, options });
  const filter = Object.fromEntries(
    given.map(([name, value]) => {
      const choices = fields.find((each) => each.name === name)?.options?.map((each) => each.value);
      return [name, choices?.join() === "yes,no" ? value === "yes" : value];
    }),
  );
  const input = { ...filter, limit: PAGE, ...(after !== undefined && { after }) };
  const { result } = await perform(noun, "list", { target: [], input });
  const { items, next } = result as {
    readonly items: readonly Readonly<Record<string, unknown>>[];
    readonly next: string | null;
  };
  const isPart = given.length > 0 || after !== undefined;
  const verdict = look.verdict?.(request, items);
  const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
    const kept = new URLSearchParams({ ...filled, ...changes });
    kept.delete(without);
    return kept.size === 0 ? path : `${path}?${kept}`;
  };
  const first = actions.find(({ isPrimary }) => isPrimary);
  return {
    kind: "page",
    view: "console-list",
    heading: nameOf(t, entry),
    actions,
    locals: {
      action: path,
      verdict,
      filters: fields,
      chips: given.map(([name, value]) => ({
        label: memberLabel(t, name),
        value:
          fields.find((each) => each.name === name)?.options?.find((each) => each.value === value)?.label ??
          choiceLabel(t, name, value),
        href: addressWith({}, name),
      })),
      table: {
        ...(await tableOf(request, list, items)),
        empty: t(isPart ? "admin.list.nothing" : emptyKey(request, entry, first !== undefined)),
      },
      // Nothing matches: without filters something may. Nothing is there: the first one is made here.
      emptyNext: isPart ? { href: path, label: t("admin.filter.removeAll") } : first,
      commands: look.commands ?? [],
      first: after === undefined ? "" : addressWith({}),
      next: next === null ? "" : addressWith({ after: next }),
    },
  };
}

/** "No clients yet. Register the first one.", unless the role makes none, or nobody has words for a new kind of record. */
function emptyKey({ t }: ConsoleRequest, entry: string, mayMake: boolean): string {
  return mayMake && t.has(`admin.list.empty.${entry}`) ? `admin.list.empty.${entry}` : "admin.list.empty";
}

async function tableOf(
  request: ConsoleRequest,
  list: ListOf,
  items: readonly Item[],
): Promise<Omit<Table, "empty">> {
  const { t, path } = request;
  const { entry, identifier, look, showing } = list;
  const columns = columnsOf(list);
  const own = await look.cells?.(request, items);
  return {
    caption: nameOf(t, entry),
    columns: columns.map((name) => ({ label: memberLabel(t, name), look: lookOf(name) })),
    rows: items.map((item) => {
      const cells = own?.(item) ?? {};
      const link = identifier !== undefined && { href: `${path}/${segmentOf(String(item[identifier]))}` };
      return {
        cells: columns.map((name, i): Cell => {
          const cell = cells[name] ?? { value: shownValue(showing, name, item[name], { inTable: true }) };
          return i === 0 ? Object.assign({}, cell, link, link && { value: unlinked(cell.value) }) : cell;
        }),
      };
    }),
  };
}

/** A value inside the link of its row. */
const unlinked = (value: ShownValue): ShownValue =>
  value.kind === "link" ? { kind: "text", text: value.text } : value;

function columnsOf({ row, look, identifier }: ListOf): readonly string[] {
  const chosen = look.columns ?? row.columns;
  if (chosen.length > 0) return chosen;
  return identifier === undefined ? [] : [identifier];
}

/** Classes of a column: names come first, and states are beside them on cards. */
function lookOf(name: string): string {
  if (name === "disabled" || name === "state" || name === "paused") return "state";
  if (COUNTS.has(name)) return "number";
  return name === "name" ? "name" : "";
}

/** Columns of numbers, which lead to what they count. */
const COUNTS: ReadonlySet<string> = new Set(["of_clients", "of_apis", "of_services", "of_scopes"]);
