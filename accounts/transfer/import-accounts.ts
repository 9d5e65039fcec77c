/**
 * Imports accounts, many in one commit. What is wrong with one of them refuses that one only. Each `sub` follows from what the file
 * says, so a run that was stopped can be repeated from the beginning: what it has made is there.
 */
import type { KeyObject } from "node:crypto";
import { isOperator } from "../../config/operators.ts";
import { seconds } from "../../core/clock.ts";
import { AlreadyExists, InvalidArgument, SignInError, StorageUnavailable } from "../../core/errors.ts";
import { hmac } from "../../core/sealing.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import {
  ACCOUNT,
  ENTRIES,
  IDENTIFIER,
  SIGN_IN_NAME,
  USER_ID,
} from "../../records/directory/directory-kinds.ts";
import { AUTHENTICATOR_APP } from "../../records/factors/factor-kinds.ts";
import type { Ref } from "../../adapters/record-store.ts";
import type { Transaction } from "../../records/records.ts";
import type { AccountDecision, AccountWriter } from "../account-change.ts";
import { newRecord } from "../account-records.ts";
import { callerIn, invalid } from "../arguments.ts";
import { appRecord } from "../factors/factor-writer.ts";
import { namesOf, normalName } from "../names.ts";
import { requireRoles } from "../roles.ts";
import { subProblem } from "../text-rules.ts";
import {
  type AccountImport,
  type AccountLine,
  accountLine,
  type ImportOptions,
  type LineResult,
} from "./account-line.ts";
import { readNewWays, wayRefs } from "./line-ways.ts";
import { createLineUpdates, type TransferServices } from "./update-accounts.ts";

/** A line that can be imported. */
interface ReadLine {
  readonly line: AccountLine;
  readonly sub: string;
  readonly hash: string | null;
}

/** Ends a transaction that must not write. */
class DryRun extends Error {
  readonly results: readonly LineResult[];

  constructor(results: readonly LineResult[]) {
    super();
    this.results = results;
  }
}

/** Numbers for accounts that no commit writes. */
const DRY_NUMBER = Number.MAX_SAFE_INTEGER;

function refusal(error: unknown): LineResult {
  if (error instanceof StorageUnavailable) throw error;
  if (error instanceof SignInError || error instanceof InvalidArgument)
    return { kind: "refused", code: error.code, message: error.message };
  throw error;
}

/** A UUID (RFC 9562, version 8) that nobody can guess who has not the key of the storage. */
function mappedSub(key: KeyObject, id: string): string {
  const bytes = Buffer.from(hmac(key, JSON.stringify(["imported account", id])), "base64url").subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
}

export function createAccountImport(writer: AccountWriter, services: TransferServices): AccountImport {
  const { configuration, clock, fields, keys, passwords, sealer, storage } = services;
  const { directory, records } = storage;
  const update = createLineUpdates(writer, services);

  /** @throws InvalidArgument for a line that nothing can be made of. */
  async function readLine(value: unknown, { mapSub }: ImportOptions): Promise<ReadLine> {
    const { sub, ...rest } = Object(value) as { readonly sub?: unknown };
    const isForeign = mapSub && typeof sub === "string" && subProblem(sub) !== undefined;
    const given = isForeign ? { ...rest, id: sub } : value;
    const result = accountLine.safeParse(given);
    if (!result.success) throw invalid("account", result.error.issues);
    const line = result.data;
    const problems = fields.problems(line, clock);
    if (problems.length > 0) throw invalid("account", problems);
    if (line.id !== undefined && line.sub === undefined && !mapSub)
      throw new InvalidArgument({ path: "account.sub", message: "must be a UUID, or made by --map-sub" });
    const { password = null, password_hash = null } = line;
    if (password !== null) passwords.checkForm(password);
    return {
      line,
      sub: line.sub ?? mappedSub(keys.seeds, line.id ?? `mailto:${normalName(line.email)}`),
      // Of a password that is known, a hash is made when it is clear that the account is new.
      hash: password_hash,
    };
  }

  /** Everything that importing these lines reads, so that one round trip reads it. */
  function refsOf(lines: readonly ReadLine[]): Ref[] {
    return lines.flatMap(({ line, sub }) => [
      ACCOUNT.ref(sub),
      IDENTIFIER.ref(sub),
      ...namesOf({ email: line.email, username: line.username ?? null }).map((name) =>
        SIGN_IN_NAME.ref(name),
      ),
      ...(line.user_id === undefined ? [] : [USER_ID.ref(String(line.user_id))]),
      ...Object.keys(line.services ?? {}).map((key) => ENTRIES.service.ref(key)),
      ...(typeof line.portal === "string" ? [ENTRIES.portal.ref(line.portal)] : []),
      ...wayRefs(line, services),
    ]);
  }

  async function create(
    tx: Transaction,
    read: ReadLine,
    draw: () => Promise<number>,
    { notify }: ImportOptions,
    caller: Caller,
  ): Promise<LineResult> {
    const { line, sub, hash } = read;
    if (line.user_id !== undefined && (await tx.get(USER_ID.ref(String(line.user_id)))) !== undefined)
      throw new AlreadyExists(`the user_id ${line.user_id}`);
    const { app } = line;
    const added = await readNewWays(tx, services, { line, sub, has: {} });
    for (const [service, names] of Object.entries(line.roles ?? {}))
      await requireRoles(tx, { services: line.services ?? {} }, { service, names, clock });
    const user_id = line.user_id ?? (await draw());
    const fresh = newRecord(line, fields, { sub, user_id, now: seconds(clock) });
    const record: AccountRecord = {
      ...fresh,
      ...(line.disabled === true && { disabled: true }),
      ways: {
        ...fresh.ways,
        ...added.ways,
        ...(added.ways.passkey && { generation: 1 }),
        ...(hash !== null && { password: { hash, generation: 0 } }),
      },
    };
    const decision: AccountDecision = { action: "account.imported", record, isAnnounced: notify };
    await writer.change(sub, caller, () => decision, { within: tx });
    // Only now: nothing of an account that was refused may be written.
    added.put();
    if (app !== undefined)
      tx.create(AUTHENTICATOR_APP.record(appRecord({ sealer, clock }, sub, app.secret, 0)));
    return { kind: "created", sub };
  }

  async function importOne(
    tx: Transaction,
    read: ReadLine,
    draw: () => Promise<number>,
    options: ImportOptions,
    caller: Caller,
  ): Promise<LineResult> {
    const { sub } = read;
    const { updates, notify } = options;
    const isThere = (await tx.get(ACCOUNT.ref(sub))) !== undefined;
    if (isThere && updates === "none") return { kind: "same", sub };
    if (isOperator(configuration, sub))
      throw new SignInError("operator_protected", "the account of an operator is never changed");
    if (!isThere || updates === "none") return create(tx, read, draw, options, caller);
    const changed = await update(tx, { ...read, updates, notify }, caller);
    return { kind: changed ? "updated" : "same", sub };
  }

  /** The draws of this process, one after the other: those of two batches would overlap. */
  let drawn: Promise<unknown> = Promise.resolve();

  /** The first of so many numbers, with two calls. Those that other processes draw meanwhile are conflicts. */
  function drawNumbers(count: number): Promise<number> {
    const numbers = drawn.then(async () => {
      const first = await directory.nextUserId();
      if (count > 1) await directory.passUserId(first + count - 1);
      return first;
    });
    drawn = numbers.catch(() => undefined);
    return numbers;
  }

  /** Draws numbers for all lines that may need one, when the first of them does. */
  function drawing(count: number, isDry: boolean): () => Promise<number> {
    let next: number | undefined;
    return async () => {
      next ??= isDry ? DRY_NUMBER - count : await drawNumbers(count);
      next += 1;
      return next - 1;
    };
  }

  async function commit(
    lines: readonly ReadLine[],
    options: ImportOptions,
    caller: Caller,
    before: Promise<unknown>,
  ): Promise<readonly LineResult[]> {
    try {
      return await records.transact(async (tx) => {
        await tx.peekAll(refsOf(lines));
        const draw = drawing(lines.filter(({ line }) => line.user_id === undefined).length, options.isDry);
        const results: LineResult[] = [];
        for (const line of lines)
          results.push(await importOne(tx, line, draw, options, caller).catch(refusal));
        // If the lines before have written one of these accounts or names, the commit conflicts with that, and these are decided again.
        await before;
        if (options.isDry) throw new DryRun(results);
        const numbers = lines.flatMap(({ line }, index) =>
          results[index]?.kind === "created" && line.user_id !== undefined ? [line.user_id] : [],
        );
        if (numbers.length > 0) await directory.passUserId(Math.max(...numbers));
        return results;
      });
    } catch (error) {
      if (error instanceof DryRun) return error.results;
      if (error instanceof StorageUnavailable) throw error;
      if (lines.length === 1) return [refusal(error)];
      // Something that only the commit has found, such as a number that somebody drew. One after the other it is clear whose it is.
      const results: LineResult[] = [];
      for (const line of lines) results.push(...(await commit([line], options, caller, before)));
      return results;
    }
  }

  /** Hashes the passwords that are known, of accounts that are new or whose password is another one. */
  async function withHashes(
    lines: readonly ReadLine[],
    { isDry, updates }: ImportOptions,
  ): Promise<readonly ReadLine[]> {
    const known = lines.filter(({ line }) => typeof line.password === "string");
    if (known.length === 0 || isDry) return lines;
    const found = await records.store.get(known.map(({ sub }) => ACCOUNT.ref(sub)));
    const hashes = new Map<ReadLine, string>();
    const work = known.map(async (each, index) => {
      const before = found[index]?.value as unknown as AccountRecord | undefined;
      const password = each.line.password ?? "";
      if (before !== undefined && updates !== "credentials") return;
      if (before !== undefined && (await passwords.verify(before.ways.password?.hash ?? null, password)))
        return;
      hashes.set(each, await passwords.hash(password));
    });
    await Promise.all(work);
    return lines.map((each) => ({ ...each, hash: hashes.get(each) ?? each.hash }));
  }

  return {
    async importLines(values, options, by, before = Promise.resolve()) {
      const caller = callerIn(by);
      // What changes accounts depends on how the lines before have left them.
      if (options.updates !== "none") await before;
      const results: LineResult[] = [];
      const lines: ReadLine[] = [];
      const places: number[] = [];
      for (const [index, value] of values.entries())
        try {
          lines.push(await readLine(value, options));
          places.push(index);
        } catch (error) {
          results[index] = refusal(error);
        }
      const imported =
        lines.length === 0 ? [] : await commit(await withHashes(lines, options), options, caller, before);
      for (const [index, result] of imported.entries()) {
        const { id, sub } = lines[index]?.line ?? {};
        const isMapped = result.kind !== "refused" && id !== undefined && sub === undefined;
        results[places[index] ?? 0] = isMapped ? { ...result, id } : result;
      }
      return results;
    },
  };
}
