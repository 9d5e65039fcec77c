/**
 * What a seed has made or found. If it is gone, somebody has removed it, so no seed makes it again (decisions.md, Seed
 * on a living database).
 */
import type { KeyObject } from "node:crypto";
import { hmac } from "../core/sealing.ts";
import { SEEDED } from "../records/directory/directory-kinds.ts";
import type { Transaction } from "../records/records.ts";

/** A keyed hash, so that the storage keeps no address of a deleted person. */
export type SeedMark = string & { readonly [MARK]: true };

declare const MARK: unique symbol;

type SeededKind = "portal" | "group" | "service" | "api" | "client" | "account" | "sub";

/** What a seed has done with something that it names. */
export type Seeded =
  | { readonly kind: "created" | "same" | "removed" }
  /** @property fields the members that have changed; none for an entry of the directory. */
  | { readonly kind: "updated"; readonly fields: readonly string[] };

/** @param key of the storage. @param name of something of this kind. */
export function seedMark(key: KeyObject, kind: SeededKind, name: string): SeedMark {
  return hmac(key, JSON.stringify([kind, name])) as SeedMark;
}

/**
 * Reads a mark. Call it before reading what the mark is about: whoever makes it writes both at once, so what has a mark and is
 * missing was removed.
 */
export async function readMark(tx: Transaction, mark: SeedMark): Promise<boolean> {
  return (await tx.get(SEEDED.ref(mark))) !== undefined;
}

/** Puts marks that {@link readMark} has found missing, in the commit that makes what they are about. */
export function putMarks(tx: Transaction, marks: readonly SeedMark[]): void {
  for (const mark of marks) tx.put(SEEDED.record({ mark }));
}
