/**
 * The one way in which a request of an administrator becomes a call: who may ask, for what, how often, and what the commit carries. The
 * REST API and the console both use it.
 *
 * The order of the checks decides what a refusal reveals: the role first; then whether the target is there for this administrator; then
 * everything else (docs/decisions/0126).
 */
import type { z } from "zod";
import { byCaller, checked } from "../accounts/arguments.ts";
import { type AnyRow, invoke, isOn, type Page } from "../accounts/operations/operation.ts";
import type { AccountServices } from "../accounts/services.ts";
import { allows, isOperator } from "../config/operators.ts";
import { InvalidArgument, NotFound, SignInError, StorageUnavailable } from "../core/errors.ts";
import { pagesOf } from "../core/pages.ts";
import { createEncrypter, deriveKey, hmac } from "../core/sealing.ts";
import { canonicalJson } from "../core/untrusted-json.ts";
import type { IdempotencyRecord } from "../records/administration/idempotency-kinds.ts";
import type { AuditEvent, Caller } from "../records/audit/audit-event.ts";
import { AUDIT, type StoredAudit } from "../records/audit/audit-kinds.ts";
import type { Transaction } from "../records/records.ts";
import type { Administrator } from "./administrator.ts";
import type { HourlyLimits } from "./limits.ts";
import { createIdempotency, inUse } from "./idempotency.ts";
import { createLimited } from "./limited.ts";
import { matches, tagOf } from "./tags.ts";
import { CALLS, type Calls, isRepeatable, makesRecord, type Noun, rowsOf } from "./tables.ts";

/** What somebody asks for: not checked yet. */
export interface PerformRequest {
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
  /** The tags of the state that a change is meant for, as `If-Match` has them. Default: any. */
  readonly ifMatch?: string | undefined;
  /** Names the request, so that a repeat of it changes nothing again. */
  readonly idempotencyKey?: string | undefined;
  /** Where it came from, for the audit. */
  readonly origin: Omit<Caller, "actor">;
}

/** What came of it. */
export interface Performed {
  /** What the call returned; of a list a page. `undefined`: nothing to say. */
  readonly result: unknown;
  /** The tag of the record, if the result is one: what `If-Match` takes. */
  readonly tag?: string;
}

/**
 * Carries out an operation for an administrator.
 * @throws SignInError with a code of `ERRORS`, InvalidArgument for wrong input.
 */
export type Perform = (
  who: Administrator,
  noun: Noun,
  verb: string,
  request: PerformRequest,
) => Promise<Performed>;

export interface PerformServices extends Pick<
  AccountServices,
  "configuration" | "storage" | "clock" | "keys" | "limits" | "fields" | "audit"
> {
  readonly calls: Calls;
  readonly hourly: HourlyLimits;
}

/** Items of a page: the most, and what a request gets that does not say. */
const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;
/** How often a token's look at one account is a record of its own. */
const LOOK_SECONDS = 3_600;

/** Their records change by themselves all the time, so they have no tags. */
const UNTAGGED: ReadonlySet<Noun> = new Set<Noun>(["receivers", "deliveries"]);
/** Of a person. */
const REMOVES_FACTORS: ReadonlySet<string> = new Set(["removeFactor", "removeFactors"]);

const missing = (): NotFound => new NotFound("this");

/**
 * Whether somebody may ask for an operation at all.
 * @throws SignInError `role_required`.
 */
export function requireRole({ role, service }: Administrator, row: AnyRow): void {
  const { limited } = row;
  const may =
    service === undefined
      ? allows(role, row)
      : limited !== false && role !== "deliveries" && allows(role, row) && allows(role, limited);
  if (!may) throw new SignInError("role_required", "this needs another role");
}

/** The row of an operation that administrators can ask for. @throws NotFound if there is none. */
export function rowOf(noun: Noun, verb: string): AnyRow {
  const rows = rowsOf(noun);
  const row = Object.hasOwn(rows, verb) ? rows[verb] : undefined;
  if (row === undefined || !(isOn(row, "rest") || isOn(row, "console"))) throw missing();
  return row;
}

/** What is asked for, with its row. */
interface Asked {
  readonly noun: Noun;
  readonly verb: string;
  readonly row: AnyRow;
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
}

export function createPerform(services: PerformServices): Perform {
  const { calls, configuration, hourly, keys, storage } = services;
  const limited = createLimited(calls, services);
  const idempotency = createIdempotency(services);
  const cursors = createEncrypter([
    deriveKey(hmac(keys.administration, "cursors"), "sign-in-service cursors"),
  ]);

  const call = (
    { noun, verb, row, target, input }: Asked,
    options: Parameters<typeof invoke>[3]["options"] = {},
  ): Promise<unknown> => invoke(CALLS[noun](calls), verb, row, { target, input, options });

  /** The record that the noun is about; `undefined` if there is none. */
  async function find(noun: Noun, target: readonly string[]): Promise<unknown> {
    const row = recordRow(noun);
    return row && call({ noun, verb: "find", row, target: target.slice(0, row.target.length), input: {} });
  }

  /** What somebody sees of a record. */
  async function seen({ service }: Administrator, noun: Noun, record: unknown): Promise<unknown> {
    if (service === undefined) return record;
    const [view] = await limited.views(service, noun, [record as object]);
    return view;
  }

  /** What somebody sees of a record, and its tag. */
  async function shown(who: Administrator, noun: Noun, record: unknown): Promise<Performed> {
    const { service } = who;
    const result = await seen(who, noun, record);
    if (UNTAGGED.has(noun)) return { result };
    return {
      result,
      tag: tagOf(keys.administration, [noun, ...(service === undefined ? [] : [service])], result),
    };
  }

  /** @throws NotFound; SignInError `stale` when the record is not the one that the change is meant for. */
  async function requireState(who: Administrator, { noun, target }: Asked, ifMatch: string): Promise<void> {
    const record = await find(noun, target);
    if (record === undefined && recordRow(noun) !== undefined) throw missing();
    // What has no tag is in no state that somebody could have read.
    const { tag = "" } = record === undefined ? {} : await shown(who, noun, record);
    if (!matches(ifMatch, tag)) throw new SignInError("stale", "nothing was changed: read it again");
  }

  async function list(who: Administrator, asked: Asked): Promise<Page<unknown>> {
    const { noun, verb } = asked;
    const { limit = DEFAULT_PAGE, after, ...filters } = asked.input;
    if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_PAGE)
      throw new InvalidArgument({
        path: "filter.limit",
        message: `must be an integer from 1 to ${MAX_PAGE}`,
      });
    if (noun === "accounts" && who.role !== "administrator" && filters["search"] === undefined)
      throw new SignInError("search_required", "lists of accounts need a search term");
    if (noun === "accounts") await hourly.requireRoom(who);
    const { actor, service } = who;
    const context = canonicalJson(["list", actor, service ?? null, noun, verb, asked.target, filters]);
    const position = typeof after === "string" ? cursors.decrypt(context, after) : undefined;
    if (after !== undefined && position === undefined)
      throw new InvalidArgument({
        path: "filter.after",
        message: "must be `next` of another page of this list",
      });
    const window = { limit: limit as number, ...(position !== undefined && { after: position }) };
    const page =
      service === undefined
        ? await call({ ...asked, input: { ...filters, ...window } })
        : await limited.list(service, { ...asked, input: filters }, window);
    const { items, next } = page as Page<object>;
    if (noun === "accounts") await hourly.take(who, "accounts", items.length);
    return {
      items: service === undefined ? items : await limited.views(service, noun, items),
      next: next === null ? null : cursors.encrypt(context, next),
    };
  }

  /** Counts a look at an account once an hour, and records a token's. The console records who opens a page. */
  async function noteLook(who: Administrator, sub: string, origin: PerformRequest["origin"]): Promise<void> {
    const { actor } = who;
    const key = hmac(keys.administration, canonicalJson(["look", actor, sub]));
    const bucket = { limit: "administration.looks", points: 1, seconds: LOOK_SECONDS, key };
    const [first] = await storage.rateLimits.look([bucket]);
    if (first?.allowed !== true) return;
    await hourly.take(who, "accounts", 1);
    const event: AuditEvent = { ...origin, actor, action: "account.viewed", subject: sub };
    if (actor.kind === "token") await storage.audit.append(event);
    await storage.rateLimits.consume([bucket]);
  }

  async function read(
    who: Administrator,
    asked: Asked,
    origin: PerformRequest["origin"],
  ): Promise<Performed> {
    const { noun, row, target, input } = asked;
    const result = await call(asked);
    if (result === undefined) throw missing();
    // What the address says instead of a person's identifier gets into no record.
    const sub = row.target[0] === "sub" ? target[0] : input["account"];
    if (typeof sub === "string" && (await calls.accounts.find(sub)) !== undefined)
      await noteLook(who, sub, origin);
    return row === recordRow(noun) ? shown(who, noun, result) : { result };
  }

  /** Nobody but an administrator changes an account that is an operator. */
  function requireUnprotected({ role, service }: Administrator, { row, target: [sub = ""] }: Asked): void {
    if (row.target[0] !== "sub" || !isOperator(configuration, sub)) return;
    if (role !== "administrator" || service !== undefined)
      throw new SignInError("operator_protected", "the account is an operator's");
  }

  /** How many changes it is. Of the deliveries that it would send, no more are counted than tell that it is too many. */
  async function changesIn(who: Administrator, { noun, verb, row, input }: Asked): Promise<number> {
    const room =
      noun === "deliveries" && verb === "redriveAll" ? await hourly.left(who, "changes") : undefined;
    if (room === undefined) return 1;
    const { force: _force, ...filter } = checked("delivery", row.input, input) as {
      readonly force?: boolean;
    };
    let parked = 0;
    const pages = pagesOf((after) =>
      calls.notifications.list({ ...filter, state: "parked", ...(after !== undefined && { after }) }),
    );
    for await (const { items } of pages) {
      parked += items.length;
      if (parked > room.left) break;
    }
    return Math.max(1, parked);
  }

  async function countChange(who: Administrator, asked: Asked): Promise<void> {
    const {
      noun,
      verb,
      target: [sub = ""],
    } = asked;
    await hourly.take(who, "changes", await changesIn(who, asked));
    if (noun === "accounts" && REMOVES_FACTORS.has(verb)) await hourly.take(who, "people", sub);
  }

  /** What a repeat of an earlier request gets. @throws SignInError `gone`. */
  async function repeated(
    who: Administrator,
    { noun, row }: Asked,
    { made }: IdempotencyRecord,
  ): Promise<Performed> {
    if (made === null) return { result: undefined };
    const record = await find(noun, made.target);
    if (record === undefined) throw new SignInError("gone", "what the earlier request made is gone");
    if (row.output === recordRow(noun)?.output) return shown(who, noun, record);
    return { result: makesRecord(noun, row) ? membersIn(row, record) : undefined };
  }

  async function change(who: Administrator, asked: Asked, request: PerformRequest): Promise<Performed> {
    const { noun, verb, row, target, input } = asked;
    const { ifMatch, idempotencyKey, origin } = request;
    const isElsewhere = row.store === "elsewhere";
    requireUnprotected(who, asked);
    const keyed =
      isRepeatable(row) && idempotencyKey !== undefined
        ? await idempotency.begin({
            actor: who.actor,
            key: idempotencyKey,
            operation: [noun, verb, ...target],
            input,
          })
        : undefined;
    if (keyed?.earlier?.state === "done") return repeated(who, asked, keyed.earlier);
    await countChange(who, asked);
    const hasState = ifMatch !== undefined && row.target.length > 0 && !makesRecord(noun, row);
    if (hasState) await requireState(who, asked, ifMatch);

    const status = row.effect === "create" ? 201 : 200;
    const done = (made: IdempotencyRecord["made"]) =>
      ({ state: "done", status, made, held_secret: row.secret !== undefined }) as const;
    const itself =
      recordRow(noun) === undefined || target.length === 0 ? null : { noun, target: target.slice(0, 1) };
    if (isElsewhere && keyed !== undefined && keyed.earlier === undefined)
      await storage.records.transact((tx) => keyed.put(tx, { ...done(itself), state: "begun" }));
    let isCommitted = false;
    async function rider(tx: Transaction): Promise<boolean> {
      if (who.service !== undefined) await limited.check(who.service, asked);
      if (hasState) await requireState(who, asked, ifMatch);
      const record = auditOf(tx, row);
      if (record === undefined) return false;
      const { subject } = record;
      if (!isElsewhere)
        keyed?.put(
          tx,
          done(makesRecord(noun, row) && subject !== undefined ? { noun, target: [subject] } : itself),
        );
      tx.afterCommit(() => void (isCommitted = true));
      return true;
    }

    let result: unknown;
    try {
      result = await storage.records.along(rider, () =>
        call(asked, byCaller({ ...origin, actor: who.actor })),
      );
    } catch (error) {
      // What it made is there: the refusal comes from the request that was faster.
      const isRefused = !isElsewhere && !isCommitted && !(error instanceof StorageUnavailable);
      if (isRefused && (await keyed?.wasFaster()) === true) throw inUse();
      throw error;
    }
    if (row.effect === "remove" && result === false) throw missing();
    if (keyed !== undefined && !isElsewhere) {
      // It changed nothing, and a repeat must not change what somebody else does from now on.
      if (!isCommitted) await storage.records.transact((tx) => keyed.put(tx, done(itself)));
      if (row.secret?.every((member) => !hasValue(result, member)) === true) await keyed.heldNoSecret();
    }
    if (row.output === recordRow(noun)?.output) return shown(who, noun, result);
    return { result: row.output === rowsOf(noun)["list"]?.output ? await seen(who, noun, result) : result };
  }

  return async (who, noun, verb, { target, input, ...request }) => {
    const row = rowOf(noun, verb);
    requireRole(who, row);
    const asked = { noun, verb, row, target, input };
    if (who.service !== undefined) await limited.check(who.service, asked);
    if (row.effect === "list") return { result: await list(who, asked) };
    if (row.effect === "read") return read(who, asked, request.origin);
    return change(who, asked, { ...request, target, input });
  };
}

/** The operation that shows what the noun is about; `undefined` if there is none. */
function recordRow(noun: Noun): AnyRow | undefined {
  return rowsOf(noun)["find"];
}

/** What the operation answers of a record that it has made. */
function membersIn({ output }: AnyRow, record: unknown): object {
  const members = Object.keys((output as unknown as z.ZodObject).shape);
  return Object.fromEntries(Object.entries(record as object).filter(([name]) => members.includes(name)));
}

/** The audit record of the change in its own transaction; `undefined` in another one, such as that of a counter. */
function auditOf(tx: Transaction, row: AnyRow): StoredAudit | undefined {
  const records = tx.changes.parts().put.filter(({ kind }) => kind === AUDIT.name);
  return records
    .map(({ value }) => value as unknown as StoredAudit)
    .find(({ action }) => row.audit.some((each) => each === action));
}

function hasValue(result: unknown, member: string): boolean {
  return (Object(result) as Readonly<Record<string, unknown>>)[member] !== undefined;
}
