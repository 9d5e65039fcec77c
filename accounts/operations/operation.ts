/**
 * The table of operations: what a row says, and the calls of the library, which come from rows and their functions. Other
 * views of the rows are the command line (`cli/program/operation-command.ts`) and its reference. A row loads no service.
 */
import type { z } from "zod";
import type { SignInErrorCode } from "../../core/errors.ts";
import type { AuditAction } from "../../records/audit/actions.ts";
import { type Caller, SYSTEM } from "../../records/audit/audit-event.ts";
import { anyString, type CallOptions, callerIn, checked, exactly, integer } from "../arguments.ts";

/** Positional arguments of calls, with the names that editors show. Their comments describe the operands of commands. */
export interface Positions {
  /** The account: its sub, or the username, e-mail address or user_id that only it has */
  readonly sub: [sub: string];
  /** 1 to 64 of `A-Z a-z 0-9 _ -` */
  readonly key: [key: string];
  /** An absolute https URI (http on loopback), which requests name as `resource` */
  readonly identifier: [identifier: string];
  /** The key, as `keys list` shows it */
  readonly kid: [kid: string];
  /** The id of a passkey, or `app` */
  readonly factor: [idOrApp: string];
  /** The key of the provider */
  readonly provider: [provider: string];
  /** The client_id */
  readonly client_id: [client_id: string];
  /** The username or the e-mail address of an account */
  readonly usernameOrEmail: [usernameOrEmail: string];
  /** The number of an account */
  readonly user_id: [user_id: number];
  /** The new password */
  readonly password: [password: string];
  /** The key of a service */
  readonly service: [serviceKey: string];
  /** The key of a service */
  readonly services: [serviceKeys: string | readonly string[]];
  /** The number of the account in the service */
  readonly user_id_in_service: [userIdInService?: number | null];
  /** The names of roles */
  readonly roles: [roles: readonly string[]];
  /** The client_id */
  readonly client: [client_id?: string];
  /** The address of a document, which is a client_id, or an origin such as `https://app.example.com` */
  readonly address: [addressOrOrigin: string];
  /** The name of an attribute */
  readonly attribute: [name: string];
  /** The webhook-id of the delivery */
  readonly id: [id: string];
  /** The id of a record of the audit */
  readonly record: [id: string];
  /** The id of the token, as `tokens list` shows it */
  readonly token: [tokenId: string];
  /** service:KEY, group:KEY, portal:KEY or events:KEY */
  readonly receiver: [receiver: string];
}
export type PositionName = keyof Positions;

/** `list`: a page of `{ items, next }`. `put`: creates or replaces. `change`: what is left out stays. `verb`: everything else. */
export type Effect = "read" | "list" | "create" | "change" | "put" | "verb" | "remove";

/** The least role of who may ask for it. */
export type Role = "viewer" | "support" | "administrator";

/**
 * What a token that is limited to a service may do: the least role, and how the target is its own. `assignment`: the account is
 * assigned to the service. `client`: the client is one of the service. `receiver`: it is `service:KEY`. `service`: it is the service, or
 * belongs to it.
 */
export interface Limited<Member extends string = string> {
  readonly role: Role;
  readonly by: "assignment" | "client" | "receiver" | "service";
  /** The members of the input that it may set. Default: all. */
  readonly only?: readonly Member[];
}

/** Where an operation can be called. */
export type Surface = "library" | "command" | "rest" | "console";

/** How sure somebody has to be: not at all, a page, a question because it can't be undone, the name typed again. */
export type Confirm = "none" | "page" | "final" | "typed";

type Input = z.ZodType<object, object>;

type ColumnOf<O> = string & (keyof O | (O extends readonly (infer Item)[] ? keyof Item : never));

/** One operation. Its comment is its documentation: the first sentence is the summary of the command. */
export interface Row<
  T extends readonly PositionName[],
  P extends readonly PositionName[],
  I extends Input,
  O extends z.ZodType<object>,
  F extends Effect,
  S extends readonly Surface[] = readonly Surface[],
> {
  readonly effect: F;
  /** What it is about: the first arguments of the call, segments of a path, operands of the command. */
  readonly target: T;
  /** Members of the input that are positional arguments of the library's call. The other members follow as one object. */
  readonly positional?: P;
  /** Members of a body, options of the command, fields of a form; their comments are the texts. */
  readonly input: I;
  /** What comes back; of a list one item. */
  readonly output: O;
  readonly role: Role;
  /** The role `deliveries`, which is only about deliveries and receivers, may do it too. */
  readonly deliveries?: true;
  /** `false`: no token that is limited to a service may do it. */
  readonly limited: false | Limited<keyof z.input<I> & string>;
  readonly confirm: Confirm;
  /** The console asks for a recent sign-in. */
  readonly recent?: true;
  /** Members of a change that nobody can restore once they are removed: the command asks before that. */
  readonly final?: readonly (keyof z.input<I> & string)[];
  /** What the audit records; empty for what only reads. */
  readonly audit: readonly AuditAction[];
  readonly errors: readonly SignInErrorCode[];
  /** What a list shows of an item. */
  readonly columns: readonly ColumnOf<z.output<O>>[];
  /** Members of the output that are shown only once. */
  readonly secret?: readonly (keyof z.output<O> & string)[];
  readonly example: { readonly target: { readonly [K in keyof T]: string }; readonly input: z.input<I> };
  /** What the command says is not there when the call has found nothing. Default: what the table is about. */
  readonly missing?: string;
  /** Where it can be called. Default: everywhere. */
  readonly surfaces?: S;
  /**
   * The segment of its path after what it is about; with a `/` before it the whole path below `/v1`. Default: nothing; of a verb its name.
   * What a `create` makes is named in the body if nothing follows.
   */
  readonly path?: string;
  /** It changes deliveries or sessions, not in the commit of a record. A repeat does no harm: it may run again after a crash. */
  readonly store?: "elsewhere";
  /** The words of the command, where they are not noun and verb. */
  readonly words?: string;
  /** How many the command lists if nothing says so. Default: all. */
  readonly latest?: number;
}

export type AnyRow = Row<readonly PositionName[], readonly PositionName[], Input, z.ZodType<object>, Effect>;

/** The operations on one kind of object. */
export interface Table<Rows> {
  /** What it is called in messages, and in the name of a wrong argument. */
  readonly noun: string;
  readonly rows: Rows;
}
export type AnyTable = Table<Readonly<Record<string, AnyRow>>>;

/** A row. Everything but the row itself is inferred; columns, secrets and the example are checked against the schemas. */
export function operation<
  const T extends readonly PositionName[],
  I extends Input,
  O extends z.ZodType<object>,
  const F extends Effect,
  const P extends readonly PositionName[] = readonly [],
  const S extends readonly Surface[] = readonly Surface[],
>(row: Row<T, P, I, O, F, S>): Row<T, P, I, O, F, S> {
  return row;
}

/** A table. Its rows are not constrained here, because the compiler would infer less of them. */
export function operations<const Rows>(noun: string, rows: Rows): Table<Rows> {
  return { noun, rows };
}

/** The input of an operation that takes none, and the output of one that answers nothing. */
export const NONE: z.ZodObject<{}, z.core.$strict> = exactly({});

/** One page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** `after` of the next page; `null` at the end. A page may be short, even empty, although there is a next one. */
  readonly next: string | null;
}

const paging = {
  /** The most items of a page, 1 to 1,000. Default 100. */
  limit: integer(1, 1_000).default(100),
  /** `next` of the page before. Default: the first page. */
  after: anyString.optional(),
};

/** Which page of a list. */
export interface Paging extends Readonly<z.input<z.ZodObject<typeof paging>>> {}

/** Which page, with its defaults. */
export interface Window extends Readonly<z.output<z.ZodObject<typeof paging>>> {}

/** A page of what has been read completely. @param idOf names an item, which may be gone when the next page is read. */
export function pageOf<Item>(
  all: readonly Item[],
  idOf: (item: Item) => string,
  { limit, after }: Window,
): Page<Item> {
  const at = after === undefined ? -1 : all.findIndex((item) => idOf(item) === after);
  const rest = after === undefined || at >= 0 ? all.slice(at + 1) : all.filter((item) => idOf(item) > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return { items, next: rest.length > limit && last !== undefined ? idOf(last) : null };
}

/** Nothing is a type without known members, which zod infers as one whose keys are all strings. */
type IsNothing<T> = string extends keyof T ? true : false;

type Given<R extends AnyRow> = Omit<z.input<R["input"]>, NonNullable<R["positional"]>[number]>;
export type Output<R extends AnyRow> =
  IsNothing<z.output<R["output"]>> extends true ? void : z.output<R["output"]>;
/** A list is empty rather than missing, and what is about nothing in particular is always there. */
type IsAlwaysThere<R extends AnyRow> =
  Output<R> extends readonly unknown[]
    ? true
    : [...ByPosition<R["target"]>, ...ByPosition<NonNullable<R["positional"]>>] extends []
      ? true
      : false;
export type Result<R extends AnyRow> = R["effect"] extends "list"
  ? Page<Output<R>>
  : R["effect"] extends "read"
    ? Output<R> | (IsAlwaysThere<R> extends true ? never : undefined)
    : R["effect"] extends "remove"
      ? boolean
      : Output<R>;

export type ByPosition<T extends readonly PositionName[]> = T extends readonly [
  infer H extends PositionName,
  ...infer Rest extends readonly PositionName[],
]
  ? [...Positions[H], ...ByPosition<Rest>]
  : [];
export type InputArgs<R extends AnyRow> =
  IsNothing<z.input<R["input"]>> extends true
    ? R["effect"] extends "list"
      ? [paging?: Paging]
      : []
    : keyof Given<R> extends never
      ? []
      : R["effect"] extends "list"
        ? [filter?: z.input<R["input"]> & Paging]
        : {} extends Given<R>
          ? [input?: Given<R>]
          : [input: NonNullable<R["positional"]>["length"] extends 0 ? z.input<R["input"]> : Given<R>];
type OptionArgs<R extends AnyRow> = R["effect"] extends "read" | "list" ? [] : [options?: CallOptions];

/**
 * The calls of the library: what each is about, what it takes, and who asks. A wrong argument is a `TypeError` that names it;
 * a storage fault is `StorageUnavailable`. Every change writes an audit record that names its `actor`.
 */
export type Facade<Rows extends { readonly [K in keyof Rows]: AnyRow }> = {
  readonly [K in keyof Rows]: (
    ...args: [
      ...ByPosition<Rows[K]["target"]>,
      ...ByPosition<NonNullable<Rows[K]["positional"]>>,
      ...InputArgs<Rows[K]>,
      ...OptionArgs<Rows[K]>,
    ]
  ) => Promise<Result<Rows[K]>>;
};

/** What the function behind a row gets: everything checked, whoever calls. */
export interface Call<R extends AnyRow> {
  readonly target: Readonly<ByPosition<R["target"]>>;
  readonly input: R["effect"] extends "list" ? z.output<R["input"]> & Window : z.output<R["input"]>;
  /** Who asks, for the audit. */
  readonly caller: Caller;
}

/** The functions behind the rows. `undefined` of a read and `false` of a removal mean that there is no such target. */
export type Handlers<Rows extends { readonly [K in keyof Rows]: AnyRow }> = {
  readonly [K in keyof Rows]: (call: Call<Rows[K]>) => Promise<Result<Rows[K]>>;
};

/** Whether the operation can be called there. */
export function isOn({ surfaces }: AnyRow, surface: Surface): boolean {
  return surfaces === undefined || surfaces.includes(surface);
}

/** The members of the input, without those for the page of a list. */
export function membersOf({ input }: AnyRow): Readonly<Record<string, z.ZodType>> {
  return (input as unknown as z.ZodObject<Record<string, z.ZodType>>).shape;
}

/** The schema of everything that the operation takes. */
export function inputOf({ effect, input }: AnyRow): Input {
  return effect === "list" ? (input as unknown as z.ZodObject).safeExtend(paging) : input;
}

/** Whether the operation changes or sends something. */
export function changes({ effect }: AnyRow): boolean {
  return effect !== "read" && effect !== "list";
}

/** Whether the call takes an object of input. */
export function takesObject(row: AnyRow): boolean {
  return row.effect === "list" || Object.keys(membersOf(row)).length > (row.positional ?? []).length;
}

/** The calls of the library. */
export function facade<const Rows extends { readonly [K in keyof Rows]: AnyRow }>(
  { noun, rows }: Table<Rows>,
  handlers: Handlers<Rows>,
): Facade<Rows> {
  const calls = Object.entries<AnyRow>(rows).map(([verb, row]) => {
    const { target, positional = [], effect } = row;
    const schema = inputOf(row);
    const name = effect === "list" ? "filter" : noun;
    const handler = handlers[verb as keyof Rows] as unknown as (call: object) => Promise<unknown>;
    async function call(...args: readonly unknown[]): Promise<unknown> {
      const about = target.map((each, index) => checked(each, anyString, args[index]));
      const [first, ...others] = args.slice(target.length + positional.length);
      const [given, options] = takesObject(row) ? [first, others[0]] : [undefined, first];
      const placed = positional.map((each, index) => [each, args[target.length + index]] as const);
      const input = placed.length === 0 ? (given ?? {}) : { ...Object(given), ...Object.fromEntries(placed) };
      return handler({
        target: about,
        input: checked(name, schema, given === null ? given : input),
        caller: changes(row) ? callerIn(options as CallOptions | undefined) : SYSTEM,
      });
    }
    return [verb, call];
  });
  return Object.fromEntries(calls) as Facade<Rows>;
}

/** What a view has read: not checked yet. */
export interface Request {
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
  readonly options: CallOptions;
}

/** Calls the library with what a view has read. @param calls the object with the calls of the table. */
export async function invoke(
  calls: object,
  verb: string,
  row: AnyRow,
  { target, input, options }: Request,
): Promise<unknown> {
  const positional: readonly string[] = row.positional ?? [];
  const rest = Object.entries(input).filter(([name]) => !positional.includes(name));
  // A call that takes no object would not see what is too much.
  if (!takesObject(row) && rest.length > 0) checked("input", inputOf(row), input);
  const call = Reflect.get(calls, verb) as (...args: readonly unknown[]) => Promise<unknown>;
  return call(
    ...target,
    ...positional.map((name) => input[name]),
    ...(takesObject(row) ? [Object.fromEntries(rest)] : []),
    ...(changes(row) ? [options] : []),
  );
}
