/** A list of records, from the row of its operation: columns, filters, and the next page. */
import { type AnyRow, membersOf, type Page } from "../../../accounts/operations/operation.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { ConsoleAnswer, ConsoleRequest, HeadAction } from "../request.ts";
import { fromList, segmentOf } from "../request.ts";
import { nameOf } from "../entries.ts";
import type { Cell, Table, Verdict } from "../tables.ts";
import { type ConsoleField, type FieldLook, fieldsOf } from "./fields.ts";
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
  /**
   * The list has hardly ever more than 1,000 items, and is cheap to read: so it is read whole, counts its states, and sorts by every
   * column. A longer one is in the order of its storage. Default: `false`.
   */
  readonly isSmall?: boolean;
  /** Commands for what the page does not offer. */
  readonly commands?: readonly string[];
}

/** Rows of one page. */
const PAGE = 50;
/** A longer list is in the order of its storage. */
const MOST_SORTED = 1_000;

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

/** The member of a list that says how its records stand: its values are tabs above the list. */
const STATES = ["state", "disabled"] as const;

/** What the address narrows the list to. */
interface Narrowed {
  readonly fields: readonly ConsoleField[];
  /** The filters as they stand in the address. */
  readonly given: readonly (readonly [name: string, value: string])[];
  /** The same as the operation takes them. */
  readonly filter: Item;
  /** The member that the tabs show. */
  readonly state: ConsoleField | undefined;
}

function narrowedBy({ t, query }: ConsoleRequest, { noun, row, options = {} }: ListOf): Narrowed {
  const given = Object.keys(membersOf(row)).flatMap((name) => {
    const value = query.get(name) ?? "";
    return value === "" ? [] : [[name, value] as const];
  });
  const fields = fieldsOf(t, row, `${noun}.list`, { filled: new Map(given), options });
  const filter = Object.fromEntries(
    given.map(([name, value]) => {
      const choices = fields.find((each) => each.name === name)?.options?.map((each) => each.value);
      return [name, choices?.join() === "yes,no" ? value === "yes" : value];
    }),
  );
  const state = fields.find(({ name, options: choices }) => STATES.some((each) => each === name) && choices);
  return { fields, given, filter, state };
}

export async function listAnswer(request: ConsoleRequest, list: ListOf): Promise<ConsoleAnswer> {
  const { t, path, query } = request;
  const { entry, actions, look } = list;
  const narrowed = narrowedBy(request, list);
  const { fields, given, state } = narrowed;
  const after = query.get("after") ?? undefined;
  const sort = query.get("sort") ?? undefined;
  const whole = look.isSmall === true ? await readWhole(request, list, narrowed) : undefined;
  const shown = whole ?? (await readPage(request, list, narrowed));
  const { items, next, counts } = shown;
  const isPart = given.length > 0 || after !== undefined;
  const verdict = look.verdict?.(request, items);
  const addressWith = (changes: Readonly<Record<string, string>>, without = ""): string => {
    const sorted = sort === undefined ? {} : { sort };
    const kept = new URLSearchParams({ ...Object.fromEntries(given), ...sorted, ...changes });
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
      tabs: state === undefined ? [] : tabsOf(request, state, counts, addressWith),
      tabsLabel: state?.label,
      // The form keeps the tab and the order.
      kept: [...query].filter(([name]) => name === state?.name || name === "sort"),
      filters: fields.filter(({ name }) => name !== state?.name),
      chips: given
        .filter(([name]) => name !== state?.name)
        .map(([name, value]) => ({
          label: memberLabel(t, name),
          value:
            fields.find((each) => each.name === name)?.options?.find((each) => each.value === value)?.label ??
            choiceLabel(t, name, value),
          href: addressWith({}, name),
        })),
      table: {
        ...(await tableOf(request, list, shown, addressWith)),
        empty: t(isPart ? "admin.list.nothing" : emptyKey(request, entry, first !== undefined)),
      },
      // Nothing matches: without filters something may. Nothing is there: the first one is made here.
      emptyNext: isPart ? { href: path, label: t("admin.filter.removeAll") } : first,
      commands: look.commands ?? [],
      range: shown.range === undefined ? "" : t("admin.page.range", shown.range),
      first: after === undefined ? "" : addressWith({}),
      next: next === null ? "" : addressWith({ after: next }),
    },
  };
}

/** The states as tabs, with what each would show if that is known. */
function tabsOf(
  { t }: ConsoleRequest,
  { name, value, options = [] }: ConsoleField,
  counts: ReadonlyMap<string, number> | undefined,
  addressWith: (changes: Readonly<Record<string, string>>, without?: string) => string,
) {
  const all = [...(counts?.values() ?? [])].reduce((sum, count) => sum + count, 0);
  const states = name === "disabled" ? options.toReversed() : options;
  return [
    {
      href: addressWith({}, name),
      label: t("admin.filter.all"),
      current: value === "",
      count: counts === undefined ? "" : String(all),
    },
    ...states.map((each) => ({
      href: addressWith({ [name]: each.value }),
      label: name === "disabled" ? t(`admin.flag.${each.value === "yes" ? name : "active"}`) : each.label,
      current: each.value === value,
      count: counts === undefined ? "" : String(counts.get(each.value) ?? 0),
    })),
  ];
}

/** What is shown of a list. */
interface Shown {
  readonly items: readonly Item[];
  readonly next: string | null;
  /** The cells of the rows, where they were needed to put the rows in order. */
  readonly cells?: readonly (readonly Cell[])[];
  /** Which of how many, where that is known. */
  readonly range?: { readonly from: number; readonly to: number; readonly count: number };
  /** How many are in each state, where that is known: then the list sorts, too. */
  readonly counts?: ReadonlyMap<string, number>;
}

/** A page as the storage reads it. */
async function readPage(
  { perform, query }: ConsoleRequest,
  { noun }: ListOf,
  { filter }: Narrowed,
): Promise<Shown> {
  const after = query.get("after");
  const input = { ...filter, limit: PAGE, ...(after !== null && { after }) };
  const { result } = await perform(noun, "list", { target: [], input });
  return result as Page<Item>;
}

/** Every item, if there are at most 1,000: what each tab has is counted, and every column can sort. */
async function readWhole(
  request: ConsoleRequest,
  list: ListOf,
  { filter, state }: Narrowed,
): Promise<Shown | undefined> {
  const { query, t } = request;
  const others = Object.entries(filter).filter(([name]) => name !== state?.name);
  const all: Item[] = [];
  const pages = pagesOf(async (after) => {
    const input = { ...Object.fromEntries(others), limit: 200, ...(after !== undefined && { after }) };
    const { result } = await request.perform(list.noun, "list", { target: [], input });
    return result as Page<Item>;
  });
  for await (const { items } of pages) {
    all.push(...items);
    if (all.length > MOST_SORTED) return undefined;
  }
  const stateOf = (item: Item): string => {
    const value = item[state?.name ?? ""];
    return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
  };
  const counts = new Map<string, number>();
  for (const item of all) counts.set(stateOf(item), (counts.get(stateOf(item)) ?? 0) + 1);
  const wanted = state?.value ?? "";
  const fitting = wanted === "" ? all : all.filter((item) => stateOf(item) === wanted);
  const cells = await cellsOf(request, list, fitting);
  const { column, isDescending } = sortOf(query, columnsOf(list)) ?? {};
  const rows = fitting.map((item, i) => ({ item, cells: cells[i] ?? [] }));
  if (column !== undefined) {
    const { compare } = new Intl.Collator(t.locale, { numeric: true });
    rows.sort((one, other) => {
      const [a, b] = [sortedBy(one.cells[column]), sortedBy(other.cells[column])];
      // What says nothing stands at the end of either order.
      if (a === "" || b === "") return Number(a === "") - Number(b === "");
      return isDescending === true ? compare(b, a) : compare(a, b);
    });
  }
  const from = /^\d{1,4}$/.test(query.get("after") ?? "") ? Number(query.get("after")) : 0;
  const page = rows.slice(from, from + PAGE);
  const to = from + page.length;
  return {
    items: page.map(({ item }) => item),
    cells: page.map((row) => row.cells),
    next: to < rows.length ? String(to) : null,
    counts,
    ...(rows.length > PAGE && page.length > 0 && { range: { from: from + 1, to, count: rows.length } }),
  };
}

/** The column that the address names: `name`, or `-name` for the other direction. */
function sortOf(query: URLSearchParams, columns: readonly string[]) {
  const [, minus = "", name = ""] = /^(-?)(.*)$/s.exec(query.get("sort") ?? "") ?? [];
  const column = columns.indexOf(name);
  return column < 0 ? undefined : { column, name, isDescending: minus !== "" };
}

/** What a column sorts by is what it shows. */
function sortedBy({ value }: Cell = { value: { kind: "text", text: "" } }): string {
  if (value.kind === "time") return value.iso;
  return "text" in value ? value.text : "";
}

/** "No clients yet. Register the first one.", unless the role makes none, or nobody has words for a new kind of record. */
function emptyKey({ t }: ConsoleRequest, entry: string, mayMake: boolean): string {
  return mayMake && t.has(`admin.list.empty.${entry}`) ? `admin.list.empty.${entry}` : "admin.list.empty";
}

async function tableOf(
  request: ConsoleRequest,
  list: ListOf,
  { items, cells, counts }: Shown,
  addressWith: (changes: Readonly<Record<string, string>>) => string,
): Promise<Omit<Table, "empty">> {
  const { t, query } = request;
  const columns = columnsOf(list);
  const sorted = sortOf(query, columns);
  return {
    caption: nameOf(t, list.entry),
    columns: columns.map((name) => {
      const order = sorted?.name !== name ? undefined : sorted.isDescending ? "descending" : "ascending";
      const href = addressWith({ sort: order === "ascending" ? `-${name}` : name });
      return {
        label: memberLabel(t, name),
        look: lookOf(name),
        sort: counts !== undefined && items.length > 1 ? { href, order } : undefined,
      };
    }),
    rows: (cells ?? (await cellsOf(request, list, items))).map((each) => ({ cells: each })),
  };
}

async function cellsOf(
  request: ConsoleRequest,
  list: ListOf,
  items: readonly Item[],
): Promise<readonly (readonly Cell[])[]> {
  const { path } = request;
  const { identifier, look, showing } = list;
  const columns = columnsOf(list);
  const own = await look.cells?.(request, items);
  return items.map((item) => {
    const cells = own?.(item) ?? {};
    const link = identifier !== undefined && {
      href: fromList(request, `${path}/${segmentOf(String(item[identifier]))}`),
    };
    return columns.map((name, i): Cell => {
      const cell = cells[name] ?? { value: shownValue(showing, name, item[name], { inTable: true }) };
      return i === 0 ? Object.assign({}, cell, link, link && { value: unlinked(cell.value) }) : cell;
    });
  });
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
