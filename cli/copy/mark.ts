/** The progress of a copy, stored as a setting of the target, so that the next run can continue. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { Position, RecordStore } from "../../adapters/record-store.ts";
import { SETTING, type Setting } from "../../records/directory/directory-kinds.ts";
import { UNFINISHED_COPY } from "../../records/storage.ts";

/** The progress of one kind. */
export interface KindMark {
  /** Records written. */
  readonly count: number;
  /** Where the next page begins. */
  readonly after?: Position;
  readonly isDone: boolean;
}

export interface Mark {
  /** Identifies the source: see `identityOf`. */
  readonly source: string;
  /** By the name of the kind. */
  readonly kinds: ReadonlyMap<string, KindMark>;
}

/** The format of the text. */
const VERSION = 2;
/**
 * Milliseconds for one commit of a copy. MongoDB holds the locks of a killed run until it ends the transaction, some time
 * after a minute.
 */
export const COMMIT_TIME = 120_000;

const REF = SETTING.ref(UNFINISHED_COPY);

/** Whether a record is the mark, which is never copied. */
export function isMark({ kind, key }: { readonly kind: string; readonly key: string }): boolean {
  return kind === REF.kind && key === REF.key;
}

export function writeMark({ source, kinds }: Mark): string {
  return JSON.stringify({ version: VERSION, source, kinds: Object.fromEntries(kinds) });
}

function toKindMark(value: unknown): KindMark | undefined {
  const { count, after, isDone } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof count !== "number" || typeof isDone !== "boolean") return undefined;
  return { count, isDone, ...(typeof after === "string" && { after }) };
}

/** @returns `undefined` for a text that this version did not write. */
export function readMark(text: string): Mark | undefined {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { version, source, kinds } = Object(found) as Readonly<Record<string, unknown>>;
  if (version !== VERSION || typeof source !== "string") return undefined;
  const marks = Object.entries(Object(kinds) as object).flatMap(([name, value]) => {
    const mark = toKindMark(value);
    return mark === undefined ? [] : [[name, mark] as const];
  });
  return { source, kinds: new Map(marks) };
}

/** The text of the mark in a storage; `undefined` where no copy is unfinished. */
export async function findMark(storage: RecordStore): Promise<string | undefined> {
  const [found] = await storage.get([REF]);
  return (found?.value as Setting | undefined)?.value;
}

export async function putMark(storage: RecordStore, mark: Mark, clock: Clock): Promise<void> {
  const put = [SETTING.record({ value: writeMark(mark) }, { key: UNFINISHED_COPY })];
  await storage.commit({ id: randomUUID(), deadline: clock.now() + COMMIT_TIME, put });
}

export async function removeMark(storage: RecordStore, clock: Clock): Promise<void> {
  await storage.commit({ id: randomUUID(), deadline: clock.now() + COMMIT_TIME, remove: [REF] });
}
