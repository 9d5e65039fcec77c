/**
 * The REST API under `/v1`: who asks, which operation, the input, the answer. What the operation may do is decided in `perform.ts`.
 * Scripts of other origins can't read it, and it knows no cookies.
 */
import type { Context } from "koa";
import { isObject } from "../../core/untrusted-json.ts";
import { InvalidArgument, LimitReached, NotFound } from "../../core/errors.ts";
import type { Administrator } from "../administrator.ts";
import { type Perform, type Performed, type PerformRequest, requireRole } from "../perform.ts";
import { type Noun, rowsOf, segmentOf } from "../tables.ts";
import { type Address, ADDRESSES, createFinder, type Destination } from "./addresses.ts";
import { readBody, readQuery, refuseBody, refuseQuery } from "./input.ts";
import { type Placement, type ProblemDocument, problemOf, RequestProblem } from "./problems.ts";

export interface RestServices {
  readonly perform: Perform;
  /** @returns who the token belongs to; `undefined` if it is unknown, has ended or has expired. */
  readonly findToken: (secret: string) => Promise<Administrator | undefined>;
  /** The OpenAPI document. */
  readonly openApi: () => object;
}

/** What the listener knows of a request. */
export interface RestRequest {
  readonly requestId: string;
  /** Where it came from, for the audit. */
  readonly origin: PerformRequest["origin"];
  /** For the log: the path with names in place of identifiers. */
  template: string;
  /** Who asks, once it is known. */
  actor?: Administrator["actor"];
}

export type RestContext = Context & { readonly administration: RestRequest };

/** Longer ones are none of ours. */
const MAX_TOKEN = 128;
const CHALLENGE = 'Bearer realm="sign-in-service administration"';
const OPEN_API = "/v1/openapi.json";
const NOWHERE: Placement = { isQuery: false, named: [] };

/**
 * Serves the requests at `/v1`.
 * @throws what is no fault of the caller; the listener answers 503.
 */
export function createRest({
  perform,
  findToken,
  openApi,
}: RestServices): (ctx: RestContext) => Promise<void> {
  const find = createFinder(ADDRESSES);

  /** @throws RequestProblem without a valid token. */
  async function authenticate(ctx: Context): Promise<Administrator> {
    const [, secret] = /^Bearer +([\x21-\x7e]+) *$/iu.exec(ctx.get("Authorization")) ?? [];
    const who = secret === undefined || secret.length > MAX_TOKEN ? undefined : await findToken(secret);
    if (who === undefined) {
      ctx.set("WWW-Authenticate", `${CHALLENGE}${secret === undefined ? "" : ', error="invalid_token"'}`);
      throw new RequestProblem("invalid_token");
    }
    return who;
  }

  async function carryOut(
    ctx: RestContext,
    who: Administrator,
    { target }: Destination,
    { noun, verb, row, named, isQuery, method }: Address,
  ): Promise<Performed> {
    requireRole(who, row);
    if (isQuery) refuseBody(ctx);
    else refuseQuery(ctx.querystring);
    const given = isQuery ? readQuery(row, ctx.querystring) : await readBody(ctx, row);
    // A body can come long after its head, and the token may have been ended meanwhile.
    const now = isQuery ? who : await authenticate(ctx);
    const { names, input } = withNames(given, named);
    const ifMatch = ctx.get("If-Match");
    const idempotencyKey = ctx.get("Idempotency-Key");
    return perform(now, noun, verb, {
      target: [...target, ...names],
      input,
      ...(ifMatch !== "" && { ifMatch }),
      ...(idempotencyKey !== "" && method === "POST" && { idempotencyKey }),
      origin: ctx.administration.origin,
    });
  }

  return async (ctx) => {
    const { administration } = ctx;
    const { requestId } = administration;
    let placement = NOWHERE;
    ctx.set("Cache-Control", "no-store");
    try {
      const who = await authenticate(ctx);
      administration.actor = who.actor;
      if (ctx.path === OPEN_API) {
        administration.template = OPEN_API;
        requireMethod(ctx, ["GET"]);
        ctx.body = openApi();
        return;
      }
      const destination = find(ctx.path);
      if (destination === undefined) throw new NotFound("this address");
      administration.template = destination.template;
      const address = addressOf(ctx, destination);
      placement = address;
      answer(ctx, address, await carryOut(ctx, who, destination, address));
    } catch (error) {
      const problem = problemOf(error, requestId, placement);
      // The listener answers for faults of ours.
      if (problem.status >= 500) throw error;
      refuse(ctx, error, problem);
    }
  };
}

/** Puts a problem on the response. */
function refuse(ctx: Context, error: unknown, problem: ProblemDocument): void {
  if (error instanceof LimitReached) ctx.set("Retry-After", String(Math.ceil(error.retryAfter)));
  if (error instanceof RequestProblem) {
    if (error.allow !== undefined) ctx.set("Allow", error.allow.join(", "));
    if (error.closes) ctx.set("Connection", "close");
  }
  ctx.status = problem.status;
  ctx.type = "application/problem+json";
  ctx.body = JSON.stringify(problem);
}

/** @throws RequestProblem for another method. */
function requireMethod(ctx: Context, methods: readonly string[]): string {
  const method = ctx.method === "HEAD" ? "GET" : ctx.method;
  if (methods.includes(method)) return method;
  const allow = methods.flatMap((each) => (each === "GET" ? ["GET", "HEAD"] : [each]));
  throw new RequestProblem("method_not_allowed", { allow });
}

function addressOf(ctx: Context, { byMethod }: Destination): Address {
  return byMethod.get(requireMethod(ctx, [...byMethod.keys()])) as Address;
}

/** Takes the members of the body that name what is made. @throws InvalidArgument if one is missing. */
function withNames(
  given: Readonly<Record<string, unknown>>,
  named: readonly string[],
): { readonly names: readonly string[]; readonly input: Readonly<Record<string, unknown>> } {
  const names = named.map((name) => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    if (typeof value === "string") return value;
    throw new InvalidArgument({
      path: name,
      message: value === undefined ? "is required" : "must be a string",
    });
  });
  const others = Object.entries(given).filter(([name]) => !named.includes(name));
  return { names, input: Object.fromEntries(others) };
}

function answer(ctx: Context, { noun, row }: Address, { result, tag }: Performed): void {
  if (tag !== undefined) ctx.set("ETag", tag);
  if (row.effect === "remove" || result === undefined) {
    ctx.status = 204;
    return;
  }
  ctx.status = row.effect === "create" ? 201 : 200;
  const made = row.effect === "create" && row.path === undefined ? nameOf(noun, result) : undefined;
  if (made !== undefined) ctx.set("Location", `/v1/${noun}/${segmentOf(made)}`);
  // A list that is not read in pages.
  ctx.body = Array.isArray(result) ? { items: result } : result;
}

/** The identifier of a record. */
function nameOf(noun: Noun, record: unknown): string | undefined {
  const [member = ""] = rowsOf(noun)["find"]?.target ?? [];
  const name = isObject(record) ? record[member] : undefined;
  return typeof name === "string" ? name : undefined;
}
