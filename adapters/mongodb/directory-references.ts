/**
 * How a change that refers to an entry of the directory conflicts with its removal. An entry has some guards, small
 * documents that live as long as it does: whoever refers to the entry writes one of them, whoever removes it deletes
 * them all. There are several so that many people who come to one service at once seldom meet.
 */
import { hash } from "node:crypto";
import type { ClientSession } from "mongodb";
import { IdentifierTaken, UnknownReference, VersionConflict } from "../../lib/errors.ts";
import type { EntryKind } from "../directory.ts";
import type { CollectionName } from "./collections.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { toKey } from "./keys.ts";

const GUARDS = 16;

/** Of a guard nothing counts but that it was written. */
export interface StoredGuard {
  readonly _id: string;
  readonly writes: number;
}

/** An entry that a change refers to, and how an error names it. */
export interface Reference {
  readonly kind: EntryKind;
  readonly key: string;
  readonly label: string;
}

export interface Guards {
  /** For a new entry. */
  create(kind: EntryKind, key: string, session: ClientSession): Promise<void>;
  /** For an entry that goes. */
  remove(kind: EntryKind, key: string, session: ClientSession): Promise<void>;
  /** For a change that refers to these. @throws UnknownReference for one that is not there. */
  require(references: readonly Reference[], session: ClientSession): Promise<void>;
}

function guardId(kind: EntryKind, key: string, number: number): string {
  return toKey(kind, key, String(number));
}

function allIds(kind: EntryKind, key: string): string[] {
  return Array.from({ length: GUARDS }, (_, number) => guardId(kind, key, number));
}

/** All guards of an entry. */
export function guardDocuments(kind: EntryKind, key: string): StoredGuard[] {
  return allIds(kind, key).map((_id) => ({ _id, writes: 0 }));
}

export function createGuards(connection: Connection): Guards {
  const guards = connection.collection<StoredGuard>("entry_guards");
  return {
    async create(kind, key, session) {
      await guards.insertMany(guardDocuments(kind, key), { session });
    },
    async remove(kind, key, session) {
      await guards.deleteMany({ _id: { $in: allIds(kind, key) } }, { session });
    },
    async require(references, session) {
      for (const { kind, key, label } of references) {
        const id = guardId(kind, key, Math.floor(Math.random() * GUARDS));
        const { matchedCount } = await guards.updateOne({ _id: id }, { $inc: { writes: 1 } }, { session });
        if (matchedCount === 0) throw new UnknownReference(label);
      }
    },
  };
}

/** @throws IdentifierTaken when the identifier of a new record is one of the other kind's. */
export type RequireFree = (id: string, session: ClientSession) => Promise<void>;

/**
 * How a new account conflicts with a client that gets its `sub` as `client_id` at the same time. Neither transaction
 * sees the other's record, so both write the same guard: one of 256, so that few others write it too.
 * @param others where the identifier must not be.
 * @param what what would be there, for the error.
 */
export function createRequireFree(
  connection: Connection,
  others: CollectionName & ("accounts" | "clients"),
  what: string,
): RequireFree {
  const taken = connection.collection<{ readonly _id: string }>(others);
  const guards = connection.collection<StoredGuard>("entry_guards");
  return async (id, session) => {
    const guard = toKey("identifier", hash("sha256", id).slice(0, 2));
    try {
      await guards.updateOne({ _id: guard }, { $inc: { writes: 1 } }, { session, upsert: true });
    } catch (error) {
      // Two that write a guard for the first time: one of them may be told so, and begins again.
      throw isDuplicate(error) ? new VersionConflict("another identifier was taken in between") : error;
    }
    if ((await taken.findOne({ _id: id }, { session })) !== null) throw new IdentifierTaken(what);
  };
}
