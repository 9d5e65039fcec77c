/** How far a copy has come: kept in the target, so that the next run goes on there. */
import { PARTS, type PartName } from "../../adapters/transfer.ts";

/** How far one part has come. */
export interface PartMark {
  /** Records written. */
  readonly count: number;
  /** Where the next page begins. */
  readonly after?: string;
  readonly isDone: boolean;
}

export interface Mark {
  /** What the copy is of: see `identityOf`. */
  readonly source: string;
  readonly parts: Readonly<Partial<Record<PartName, PartMark>>>;
}

const VERSION = 1;

export function writeMark({ source, parts }: Mark): string {
  return JSON.stringify({ version: VERSION, source, parts });
}

function toPartMark(value: unknown): PartMark | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { count, after, isDone } = value as Record<string, unknown>;
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
  if (typeof found !== "object" || found === null) return undefined;
  const { version, source, parts } = found as Record<string, unknown>;
  if (version !== VERSION || typeof source !== "string") return undefined;
  const marks = PARTS.flatMap((name) => {
    const mark = toPartMark(Reflect.get(Object(parts), name));
    return mark === undefined ? [] : [[name, mark] as const];
  });
  return { source, parts: Object.fromEntries(marks) };
}
