/**
 * The pages that come from the table of operations: for each kind of record a list, a page for each record, and a page for each
 * operation. A row that is added to the table has its place here without a line of code.
 */
import { type AnyRow, type AnyTable, membersOf } from "../../../accounts/operations/operation.ts";
import { allows } from "../../../config/operators.ts";
import { NotFound } from "../../../core/errors.ts";
import type { Form } from "../../../interactions/forms.ts";
import {
  type ConsoleAnswer,
  type ConsolePage,
  type ConsoleRequest,
  type ConsoleRole,
  type HeadAction,
  keepingList,
} from "../request.ts";
import { actAnswer, type Acting, addressOf, formAnswer } from "./act.ts";
import { listAnswer, type ListLook } from "./list.ts";
import type { FieldLook } from "./fields.ts";
import { type OfferedAction, recordAnswer, type RecordLook } from "./record.ts";
import { shortened, type Showing } from "./values.ts";
import { verbLabel } from "./words.ts";

export type Tables = Readonly<Record<string, AnyTable>>;

/** What a kind of record adds to what its rows say. */
export interface Look extends ListLook, RecordLook {
  /** The entry of its pages, and their address. Default: the noun. */
  readonly entry?: string;
  /** Operations that the pages do not offer: they are commands to copy, or parts of other pages. */
  readonly without?: readonly string[];
  /** A view of its own for an operation, and what it prints. */
  readonly acting?: Readonly<
    Record<string, (request: ConsoleRequest, about: About) => Promise<Partial<Acting>>>
  >;
  /** The page of the list, in place of a table. */
  readonly list?: (request: ConsoleRequest, actions: readonly HeadAction[]) => Promise<ConsoleAnswer>;
  /** The page of a record, in place of its members. */
  readonly record?: (request: ConsoleRequest, found: FoundRecord) => Promise<ConsoleAnswer>;
  /** Forms of the list and of a record that are done at once, by their field `action`. */
  readonly forms?: Readonly<Record<string, (request: ConsoleRequest, form: Form) => Promise<ConsoleAnswer>>>;
  /** What a record is called. Default: its name, or its identifier. */
  readonly called?: (record: Readonly<Record<string, unknown>>) => string;
}

/** What the page of an operation is about. */
type About = Pick<Acting, "target" | "record" | "tag" | "name">;

/** A record that was read, and what can be done with it. */
export interface FoundRecord {
  readonly record: Readonly<Record<string, unknown>>;
  readonly actions: readonly OfferedAction[];
}

/** Whether the console has an operation. */
const isHere = ({ surfaces }: AnyRow): boolean => surfaces === undefined || surfaces.includes("console");

/** The pages of every kind of record in these tables. */
export function derivedPages(tables: Tables, looks: Readonly<Record<string, Look>>): readonly ConsolePage[] {
  return Object.entries(tables).flatMap(([noun, table]) => pagesOf(noun, table, looks[noun] ?? {}));
}

function pagesOf(noun: string, { rows }: AnyTable, look: Look): readonly ConsolePage[] {
  const { list, find } = rows;
  const entry = look.entry ?? noun;
  const offered = Object.entries(rows).filter(
    ([verb, row]) =>
      isHere(row) && !["list", "read", "put"].includes(row.effect) && !look.without?.includes(verb),
  );
  const onList = offered.filter(([, row]) => row.target.length === 0 || makesOne(row));
  const onRecord = offered.filter(([, row]) => row.target.length > 0 && !makesOne(row));
  const identifier = find?.target[0];
  const pages: ConsolePage[] = [];
  if (list !== undefined && isHere(list))
    pages.push({
      path: `/${entry}`,
      entry,
      role: roleOfPage(list),
      async get(request) {
        const acting = await actingOn(request, noun, onList, look, { target: [] });
        if (acting !== undefined) return opening(request, acting);
        const actions = onList
          .filter(([, row]) => mayDo(request, row))
          .map(([verb, row], i) => headAction(request, noun, verb, row, i === 0));
        if (look.list !== undefined) return look.list(request, actions);
        return listAnswer(request, {
          noun,
          entry,
          row: list,
          identifier: find === undefined ? undefined : identifier,
          look,
          actions,
          showing: showingIn(request),
          options: await referencesIn(request, list),
        });
      },
      post: (request, form) =>
        posted(request, form, look, () => actingOn(request, noun, onList, look, { target: [] })),
    });
  if (find !== undefined && isHere(find) && find.target.length === 1) {
    const read = async (request: ConsoleRequest) => {
      const { result, tag } = await request.perform(noun, "find", { target: request.params, input: {} });
      if (result === undefined) throw new NotFound(noun);
      const record = result as Readonly<Record<string, unknown>>;
      const own = record["name"];
      const name = look.called?.(record) ?? (typeof own === "string" && own !== "" ? own : request.params[0]);
      return { target: request.params, record, tag, ...(name !== undefined && { name }) };
    };
    pages.push({
      path: `/${entry}/:${identifier ?? "id"}`,
      entry,
      role: roleOfPage(find),
      async get(request) {
        const found = await read(request);
        const acting = await actingOn(request, noun, onRecord, look, found);
        if (acting !== undefined) return opening(request, acting);
        // What lies inside a record is done where it is shown.
        const actions = onRecord
          .filter(([verb, { target }]) => target.length === 1 && isPossible(verb, found.record, look))
          .map(([verb, row]) => offer(request, verb, row));
        if (look.record !== undefined) return look.record(request, { record: found.record, actions });
        return recordAnswer(request, { noun, entry }, found.record, {
          actions,
          showing: showingIn(request),
          look,
        });
      },
      post: async (request, form) =>
        posted(request, form, look, async () => actingOn(request, noun, onRecord, look, await read(request))),
    });
  }
  return pages;
}

/** Whether it makes a record. What is made inside a record has a path behind it. */
const makesOne = ({ effect, path }: AnyRow): boolean => effect === "create" && path === undefined;

const roleOfPage = ({ role, deliveries }: AnyRow): ConsoleRole => (deliveries === true ? "deliveries" : role);

const mayDo = ({ operator }: ConsoleRequest, row: AnyRow): boolean => allows(operator.who.role, row);

const showingIn = ({ t, moments, opens }: ConsoleRequest): Showing => ({ t, moments, opens });

/** What is done twice to no end is not offered. */
function isPossible(verb: string, record: Readonly<Record<string, unknown>>, { possible }: Look): boolean {
  if (possible?.(verb, record) === false) return false;
  if (verb === "enable") return record["disabled"] === true;
  if (verb === "disable") return record["disabled"] !== true;
  if (verb === "resume") return record["paused"] !== false;
  return verb !== "pause" || record["paused"] !== true;
}

const offer = (request: ConsoleRequest, verb: string, row: AnyRow): OfferedAction => ({
  verb,
  row,
  href: addressOf(request.path, verb, keepingList(request.query)),
  isAllowed: mayDo(request, row),
});

function headAction(
  request: ConsoleRequest,
  noun: string,
  verb: string,
  row: AnyRow,
  isFirst: boolean,
): HeadAction {
  const label = verbLabel(request.t, noun, verb);
  return {
    label: row.effect === "create" ? label : request.t("admin.verb.opens", { verb: label }),
    href: addressOf(request.path, verb),
    ...(isFirst && row.effect === "create" && { isPrimary: true }),
  };
}

/** The operation that the address names. @throws NotFound if it names none of these. */
async function actingOn(
  request: ConsoleRequest,
  noun: string,
  rows: readonly (readonly [string, AnyRow])[],
  { acting }: Look,
  about: About,
): Promise<Acting | undefined> {
  const wanted = request.query.get("do");
  if (wanted === null) return undefined;
  const found = rows.find(([verb]) => verb === wanted);
  if (found === undefined) throw new NotFound("the page");
  const [verb, row] = found;
  request.require(row);
  const own =
    acting !== undefined && Object.hasOwn(acting, verb) ? await acting[verb]?.(request, about) : undefined;
  const options = { ...(await referencesIn(request, row)), ...own?.options };
  return { noun, entry: request.path.split("/")[1] ?? noun, verb, row, ...about, ...own, options };
}

/** The records that members of a form name, and the tables that they are in. */
const REFERENCES = { service: "services", group: "groups", portal: "portals" } as const;
/** More are typed. */
const MAX_OPTIONS = 200;

/** What can be chosen for the members that name a record of the directory. */
async function referencesIn(request: ConsoleRequest, row: AnyRow): Promise<FieldLook["options"]> {
  const members = Object.keys(membersOf(row));
  const found = Object.entries(REFERENCES).filter(([member]) => members.includes(member));
  const options = await Promise.all(
    found.map(async ([member, noun]) => {
      const { result } = await request.perform(noun, "list", { input: { limit: MAX_OPTIONS } });
      const { items, next } = result as {
        readonly items: readonly { readonly key: string; readonly name: string }[];
        readonly next: string | null;
      };
      if (next !== null) return [];
      const choices = items.map(({ key, name }) => ({ value: key, label: `${shortened(name)} (${key})` }));
      return [[member, choices] as const];
    }),
  );
  return Object.fromEntries(options.flat());
}

/** The page of an operation, after the sign-in that it needs. */
const opening = (request: ConsoleRequest, acting: Acting): ConsoleAnswer =>
  acting.row.recent === true && !request.isRecent ? { kind: "recent" } : formAnswer(request, acting);

async function posted(
  request: ConsoleRequest,
  form: Form,
  { forms = {} }: Look,
  wanted: () => Promise<Acting | undefined>,
): Promise<ConsoleAnswer> {
  const action = form.get("action") ?? "";
  const isOnPage = !request.query.has("do") && Object.hasOwn(forms, action);
  const own = isOnPage ? forms[action] : undefined;
  if (own !== undefined) return own(request, form);
  const acting = await wanted();
  if (acting === undefined) throw new NotFound("the page");
  return acting.row.recent === true && !request.isRecent
    ? { kind: "recent" }
    : actAnswer(request, acting, form);
}
