/** The client for scripts: the operations of the library over HTTP, by their rows. It loads no code of the server. */
import { z } from "zod";
import {
  type AnyRow,
  type ByPosition,
  type InputArgs,
  isOn,
  type Output,
  type Page,
  type Result,
  takesObject,
} from "../accounts/operations/operation.ts";
import { isLoopback } from "../config/value-forms.ts";
import { isObject } from "../core/untrusted-json.ts";
import { type Noun, type Route, routeOf, rowsOf, searchPathOf, segmentOf, TABLES } from "./tables.ts";

/** What a call sends besides its arguments. */
export interface RequestOptions {
  /** The change is refused with `stale` if the record is not in this state any more: see {@link AdministrationClient.etagOf}. */
  readonly ifMatch?: string | undefined;
  /** Names the request: a repeat within 24 hours changes nothing again. Only for what is created, and for verbs such as `disable`. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
}

/** A page of a list; with `for await` all items from there on, page after page. */
export interface Listing<Item> extends Promise<Page<Item>>, AsyncIterable<Item> {}

type Answer<R extends AnyRow> = R["effect"] extends "list" ? Listing<Output<R>> : Promise<Result<R>>;
/** Whether a repeat with the same key can't read again what the first call returned, and returns nothing. */
type IsForgotten<R extends AnyRow, Rows> = R["effect"] extends "create" | "verb"
  ? Output<R> extends void
    ? false
    : Rows extends { readonly find: infer Find extends AnyRow }
      ? Output<R> extends Output<Find>
        ? false
        : true
      : true
  : false;
interface Unkeyed extends RequestOptions {
  readonly idempotencyKey?: never;
}
type Arguments<R extends AnyRow> = [
  ...ByPosition<R["target"]>,
  ...ByPosition<NonNullable<R["positional"]>>,
  ...InputArgs<R>,
];
type IsRemote<R> = R extends AnyRow
  ? "rest" extends NonNullable<R["surfaces"]>[number]
    ? true
    : false
  : false;

/** The calls of one noun, with the arguments and results that the library's have. */
export type Remote<Rows> = {
  readonly [K in keyof Rows as IsRemote<Rows[K]> extends true ? K : never]: Rows[K] extends AnyRow
    ? IsForgotten<Rows[K], Rows> extends true
      ? {
          (...args: [...Arguments<Rows[K]>, options?: Unkeyed]): Promise<Result<Rows[K]>>;
          /** `undefined` after a repeat: it was done, and what it returned is not kept. */
          (...args: [...Arguments<Rows[K]>, options?: RequestOptions]): Promise<Result<Rows[K]> | undefined>;
        }
      : (...args: [...Arguments<Rows[K]>, options?: RequestOptions]) => Answer<Rows[K]>
    : never;
};

/** Everything that the REST API has: `administration.accounts.disable(sub)`. */
export type AdministrationClient = {
  readonly [N in Noun]: Remote<(typeof TABLES)[N]["rows"]>;
} & {
  /** The state in which a call has returned the record, for `ifMatch`. `undefined` if it has none. */
  etagOf(record: object): string | undefined;
};

/** Where the REST API is, and who asks. */
export interface AdministrationClientSettings {
  /** `admin.url` of the configuration: https, or http on loopback. */
  readonly url: string;
  /** Of `sign-in-service tokens create`. */
  readonly token: string;
  /** Default: that of the platform. */
  readonly fetch?: typeof fetch;
}

/** What the service, or something on the way to it, has said instead of an answer. */
interface Problem {
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail?: string;
  readonly errors?: readonly {
    readonly pointer?: string;
    readonly parameter?: string;
    readonly header?: string;
    readonly detail: string;
  }[];
  readonly references?: readonly string[];
  readonly request_id?: string;
  /** Seconds until another try makes sense. */
  readonly retry_after?: number;
}

/**
 * A call was refused, or did not arrive. `code` is that of the library (`name_taken`, `stale`, `limit_reached` …), `unexpected_answer` for
 * what is no answer of the service, and `server_unreachable` if there was none. It holds neither the token nor a value that was sent.
 */
export class AdministrationError extends Error {
  readonly code: string;
  /** Of HTTP; 0 without an answer. */
  readonly status: number;
  readonly title: string;
  /** A sentence for people. */
  readonly detail: string | undefined;
  /** What is wrong with the input: JSON Pointers into the body, or names of parameters. */
  readonly errors: NonNullable<Problem["errors"]>;
  /** What still refers to the record. */
  readonly references: readonly string[];
  /** As in the log of the service and in its audit. */
  readonly request_id: string | undefined;
  /** Seconds until another try makes sense, for `limit_reached` and `storage_unavailable`. */
  readonly retry_after: number | undefined;

  constructor(problem: Problem, options?: ErrorOptions) {
    const { code, status, title, detail, errors = [], references = [], request_id, retry_after } = problem;
    const places = errors.map((each) =>
      `${each.pointer ?? each.parameter ?? each.header ?? ""} ${each.detail}`.trim(),
    );
    super([title, ...(detail === undefined ? [] : [detail]), ...places].join(": "), options);
    this.name = "AdministrationError";
    this.code = code;
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.errors = errors;
    this.references = references;
    this.request_id = request_id;
    this.retry_after = retry_after;
  }
}

/** What a call names, takes and sends. */
interface Asked {
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
  readonly options: RequestOptions;
}

/** The arguments of a call: what it is about, what is written by position, an object, and the options. */
function askedBy(row: AnyRow, args: readonly unknown[]): Asked {
  const { target, positional = [] } = row;
  const placed = positional.map((name, index) => [name, args[target.length + index]] as const);
  const [first, second] = args.slice(target.length + positional.length);
  const [given, options] = takesObject(row) ? [first, second] : [{}, first];
  const members = [...Object.entries(Object(given)), ...placed].filter(([, value]) => value !== undefined);
  return {
    target: args.slice(0, target.length).map(String),
    input: Object.fromEntries(members),
    options: options ?? {},
  };
}

/** Bytes are written in Base64. */
function written(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
}

function queryOf(input: Asked["input"]): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input))
    for (const each of [value].flat()) query.append(name, String(each));
  return query.size === 0 ? "" : `?${query}`;
}

/** What somebody looks for is sent in the body, not in an address that proxies log. */
function routeFor(noun: Noun, verb: string, row: AnyRow): Route {
  const route = routeOf(noun, verb, row);
  const path = searchPathOf(noun, row);
  return path === undefined ? route : { ...route, method: "POST", path, isQuery: false };
}

function isArray(output: z.ZodType): boolean {
  return output instanceof z.ZodReadonly
    ? isArray(output.unwrap() as z.ZodType)
    : output instanceof z.ZodArray;
}

/** @throws AdministrationError for anything but an answer of the service. */
async function problemIn(response: Response): Promise<AdministrationError> {
  const { status, headers } = response;
  const body: unknown = /json/u.test(headers.get("Content-Type") ?? "")
    ? await response.json().catch(() => undefined)
    : await response.body?.cancel();
  const retry = Number(headers.get("Retry-After") ?? Number.NaN);
  const more = Number.isFinite(retry) ? { retry_after: retry } : {};
  if (isObject(body) && typeof body["code"] === "string" && typeof body["title"] === "string")
    return new AdministrationError({ ...(body as unknown as Problem), status, ...more });
  const title = `The answer has the status ${status}, and is not one of the service`;
  return new AdministrationError({ code: "unexpected_answer", status, title, ...more });
}

/**
 * Connects to the REST API of a service.
 * @throws TypeError for a URL that is not https, because the token would be readable on the way.
 */
export function createAdministrationClient({
  url,
  token,
  fetch: send = fetch,
}: AdministrationClientSettings): AdministrationClient {
  const base = new URL(url);
  if (base.protocol !== "https:" && !(base.protocol === "http:" && isLoopback(base.hostname)))
    throw new TypeError("url: must be https, or http on loopback");
  if (!/^[\x21-\x7e]+$/u.test(token)) throw new TypeError("token: must be a token of administration");
  const tags = new WeakMap<object, string>();

  async function exchange(noun: Noun, verb: string, row: AnyRow, asked: Asked): Promise<unknown> {
    const { method, path, named, isQuery } = routeFor(noun, verb, row);
    const { target, options } = asked;
    const segments = named.length > 0 ? [] : [...target];
    const names = named.map((name, index) => [name, target[index]] as const);
    const entries = Object.entries(asked.input).map(([name, value]) => [name, written(value)] as const);
    const input = Object.fromEntries([...names, ...entries]);
    const address = path.replaceAll(/\{\w+\}/gu, () => segmentOf(segments.shift() ?? ""));
    const body = isQuery || Object.keys(input).length === 0 ? undefined : JSON.stringify(input);
    const response = await send(new URL(`${address}${isQuery ? queryOf(input) : ""}`, base), {
      method,
      // The token is for this server only.
      redirect: "error",
      headers: {
        Accept: "application/json, application/problem+json",
        Authorization: `Bearer ${token}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(options.ifMatch !== undefined && { "If-Match": options.ifMatch }),
        ...(options.idempotencyKey !== undefined && { "Idempotency-Key": options.idempotencyKey }),
      },
      ...(body !== undefined && { body }),
      ...(options.signal !== undefined && { signal: options.signal }),
    }).catch((cause: unknown) => {
      if (options.signal?.aborted === true) throw cause;
      const title = "The service can't be reached";
      throw new AdministrationError({ code: "server_unreachable", status: 0, title }, { cause });
    });
    return resultOf(row, response);
  }

  async function resultOf(row: AnyRow, response: Response): Promise<unknown> {
    const isNothing = response.status === 204;
    if (response.ok && isNothing) return row.effect === "remove" ? true : undefined;
    const isJson = /^application\/json\b/iu.test(response.headers.get("Content-Type") ?? "");
    if (!response.ok || !isJson) {
      const problem = await problemIn(response);
      if (problem.code !== "not_found") throw problem;
      if (row.effect === "read") return undefined;
      if (row.effect === "remove") return false;
      throw problem;
    }
    const body = (await response.json()) as object;
    const tag = response.headers.get("ETag");
    if (tag !== null) tags.set(body, tag);
    return row.effect !== "list" && isArray(row.output) && "items" in body ? body.items : body;
  }

  function listing(noun: Noun, verb: string, row: AnyRow, asked: Asked): Listing<unknown> {
    const pageAfter = (after?: string): Promise<Page<unknown>> => {
      const input = after === undefined ? asked.input : { ...asked.input, after };
      return exchange(noun, verb, row, { ...asked, input }) as Promise<Page<unknown>>;
    };
    const first = pageAfter();
    async function* all(): AsyncGenerator {
      // A page may be empty although there is a next one.
      for (let page = await first; ; page = await pageAfter(page.next)) {
        yield* page.items;
        if (page.next === null) return;
      }
    }
    return Object.assign(first, { [Symbol.asyncIterator]: all });
  }

  const calls = (Object.keys(TABLES) as Noun[]).map((noun) => {
    const rows = Object.entries(rowsOf(noun)).filter(([, row]) => isOn(row, "rest"));
    const own = rows.map(([verb, row]) => {
      const call = (...args: readonly unknown[]): unknown =>
        (row.effect === "list" ? listing : exchange)(noun, verb, row, askedBy(row, args));
      return [verb, call] as const;
    });
    return [noun, Object.fromEntries(own)] as const;
  });
  return {
    ...Object.fromEntries(calls),
    etagOf: (record: object) => tags.get(record),
  } as AdministrationClient;
}
