/** Kinds of records. The declaration of a kind is the only place that describes its records. */
import type { Found, IndexEntry, Query, RecordData, RecordStore, Ref } from "../adapters/record-store.ts";
import { hashedPart, json, keyPart, type KindRules, type RefTo } from "./records.ts";

/** A name, or several that form a key. Any text is allowed: long or unusual names are hashed. */
export type Key = string | readonly string[];

/** A position in an index. */
export interface IndexPosition {
  /** The partition: records with the same one are listed together. */
  readonly at: Key;
  /** The sort key in the partition: a safe integer. Default: 0. */
  readonly order?: number;
}

/**
 * The store of a kind: `storage`; `artifacts`, which may be another store for codes, tokens and sessions; or `each`,
 * both, for facts about a store itself.
 */
type KindStore = "storage" | "artifacts" | "each";

/** The stores of a service. */
export interface Stores {
  readonly storage: RecordStore;
  /** The same as `storage` if artifacts have no store of their own. */
  readonly artifacts: RecordStore;
}

/** The store that holds the records of a kind. */
export function storeOf(stores: Stores, { declaration: { store } }: AnyKind): RecordStore {
  return stores[store === "each" ? "storage" : store];
}

/** Replaces a sealed text. @param context its sealing context. */
type ReplaceSealed = (context: string, sealed: string) => string;

/**
 * What becomes of a record when its storage has gone back to an earlier state: because a backup was restored, or a standby promoted that
 * lacks the last commits. What was valid once must not become valid again.
 */
type AfterRestore<Value> =
  | "kept"
  | "removed"
  | {
      /** For the tables: a phrase. */
      readonly becomes: string;
      /**
       * @param now milliseconds since the epoch.
       * @returns the value afterwards; `undefined` if the record is removed.
       */
      readonly change: (value: Value, now: number) => object | undefined;
    };

/** Everything that its owner declares about a kind. `docs/internals/kinds.md` prints the texts. */
export interface KindDeclaration<Value extends object, Index extends string> {
  /** Lower-case words with hyphens, such as `access-token`: at most 40 characters. */
  readonly name: string;
  /** What one record holds. */
  readonly holds: string;
  /** What its key consists of. */
  readonly key: string;
  /** Derives the key from the value. If it is left out, `record` needs the key. */
  readonly keyOf?: (value: Value) => Key;
  /** Keys come from user input, so they are always hashed. */
  readonly hashed?: true;
  /**
   * The positions of the record in each index, derived from the value only. Every position is a row that each write pays
   * for, so an index exists only for a call that a key, a parent or one bounded read can't answer.
   */
  readonly index?: { readonly [Name in Index]?: (value: Value) => readonly IndexPosition[] };
  /** The call that needs each index. */
  readonly indexFor?: { readonly [Name in Index]?: string };
  /**
   * The record exists only while its parent does. `key` is the key of the parent; `undefined` for a record without
   * one.
   */
  readonly parent?: { readonly kind: AnyKind; readonly key: (value: Value) => Key | undefined };
  /** Other records that must exist. `storage check` reports missing ones. */
  readonly references?: (value: Value) => readonly Ref[];
  /** When a record expires, in words. Default: it is stored until it is removed. */
  readonly expires?: string;
  /**
   * When the record expires, in milliseconds since the epoch, if that follows from the value. Otherwise `record`
   * takes it.
   */
  readonly expiresAt?: (value: Value) => number | undefined;
  readonly store: KindStore;
  /** Whether `storage copy` copies the records. Facts about one store are not copied. */
  readonly exported: boolean;
  /** The part of the value that is copied. Default: all of it. */
  readonly carried?: (value: Value) => object;
  /** The value with every text that is sealed with `keys.secrets` replaced. Default: nothing is sealed. */
  readonly sealed?: (value: Value, replace: ReplaceSealed, key: string) => object;
  readonly afterRestore: AfterRestore<Value>;
  /**
   * What becomes of a record when `keys.secrets` are lost: what is sealed can't be opened any more, and no hash under a key of the
   * service can be compared. Default: as after a restore, because sessions and tokens end as well.
   */
  readonly afterReset?: AfterRestore<Value>;
  /** The counter that numbers the records, if keys are numbers. */
  readonly counter?: string;
  /** The personal data in a record; `undefined` if there is none. */
  readonly personal: string | undefined;
}

/** The parts of a record that don't follow from its value. */
interface RecordParts {
  readonly key?: Key;
  readonly expiresAt?: number;
}

/** A kind: names, makes and finds its records. */
export interface Kind<Value extends object, Index extends string = string> {
  readonly declaration: KindDeclaration<Value, Index>;
  readonly name: string;
  ref(key: Key): RefTo<Value>;
  /** The record with its key, index entries, parent and expiry. */
  record(value: Value, parts?: RecordParts): RecordData;
  /** A stored record as it should be written: with its key, and with everything else derived from its value again. */
  restore(found: Found): RecordData;
  /** The record to write once its sealed texts are replaced; `undefined` if none of them changes. */
  resealed(found: Found, replace: ReplaceSealed): RecordData | undefined;
  /** The record as it is copied to another store. */
  carried(found: Found): Found;
  /**
   * The record in a storage that has gone back.
   * @param now milliseconds since the epoch.
   * @returns `undefined` if it is removed.
   */
  afterRestore(found: Found, now: number): Found | undefined;
  /** The same when `keys.secrets` are lost. */
  afterReset(found: Found, now: number): Found | undefined;
  /** The query for one partition of an index. */
  where(index: Index, at: Key): Pick<Query, "kind" | "index" | "at">;
}

/** Any kind, if the type of its values doesn't matter. */
export type AnyKind = Kind<never, never>;

/** Declares a kind. Export it from a file of its owner, and add it to `records/all-kinds.ts`. */
export function defineKind<Value extends object, Index extends string = never>(
  declaration: KindDeclaration<Value, Index>,
): Kind<Value, Index> {
  const { name, hashed = false, index, parent } = declaration;
  const part = hashed ? hashedPart : keyPart;
  const indexes = Object.entries(index ?? {}) as [Index, (value: Value) => readonly IndexPosition[]][];
  const ref = (key: Key): Ref => ({ kind: name, key: toKey(key, part) });

  function become(rule: AfterRestore<Value>, found: Found, now: number): Found | undefined {
    if (typeof rule === "string") return rule === "kept" ? found : undefined;
    const value = rule.change(found.value as unknown as Value, now);
    if (value === undefined || value === found.value) return value && found;
    return { ...found, value: json(value) };
  }

  function write(at: Ref, value: Value, end: number | undefined): RecordData {
    const entries = indexes.flatMap(([each, positionsOf]): IndexEntry[] =>
      positionsOf(value).map((position) => ({
        name: each,
        at: toKey(position.at),
        order: position.order ?? 0,
      })),
    );
    const above = parent?.key(value);
    const expiresAt = declaration.expiresAt?.(value) ?? end;
    return {
      ...at,
      value: json(value),
      index: entries.length === 0 ? undefined : entries,
      parent: above === undefined ? undefined : parent?.kind.ref(above),
      expiresAt,
    };
  }

  return {
    declaration,
    name,
    ref,
    record(value, { key = declaration.keyOf?.(value), expiresAt } = {}) {
      if (key === undefined) throw new TypeError(`a record of ${name} needs a key`);
      return write(ref(key), value, expiresAt);
    },
    restore: ({ key, value, expiresAt }) => write({ kind: name, key }, value as unknown as Value, expiresAt),
    resealed({ key, value, expiresAt }, replace) {
      let hasChanged = false;
      const after = declaration.sealed?.(
        value as unknown as Value,
        (context, text) => {
          const replaced = replace(context, text);
          hasChanged ||= replaced !== text;
          return replaced;
        },
        key,
      );
      if (after === undefined || !hasChanged) return undefined;
      return write({ kind: name, key }, after as Value, expiresAt);
    },
    carried(found) {
      const value = declaration.carried?.(found.value as unknown as Value);
      return value === undefined ? found : { ...found, value: json(value) };
    },
    afterRestore: (found, now) => become(declaration.afterRestore, found, now),
    afterReset: (found, now) => become(declaration.afterReset ?? declaration.afterRestore, found, now),
    where: (each, at) => ({ kind: name, index: each, at: toKey(at) }),
  };
}

function toKey(key: Key, part: (name: string) => string = keyPart): string {
  return typeof key === "string" ? part(key) : key.map(part).join("~");
}

/** The kinds of a service. */
export interface Kinds extends KindRules {
  /** Parents before their children. */
  readonly all: readonly AnyKind[];
  /** @throws TypeError for a kind that is not declared. */
  get(name: string): AnyKind;
}

/** @throws TypeError for two kinds with one name, or an invalid parent. */
export function collectKinds(declared: readonly AnyKind[]): Kinds {
  const byName = new Map<string, AnyKind>();
  for (const kind of declared) {
    if (byName.has(kind.name)) throw new TypeError(`two kinds have the name ${kind.name}`);
    byName.set(kind.name, kind);
  }
  for (const { name, declaration } of declared) {
    const above = declaration.parent?.kind;
    if (above === undefined) continue;
    if (byName.get(above.name) !== above) throw new TypeError(`the parent of ${name} is not declared`);
    if (above.declaration.parent !== undefined) throw new TypeError(`the parent of ${name} has a parent`);
    if (above.declaration.store !== declaration.store)
      throw new TypeError(`the parent of ${name} is in another store`);
  }
  const get = (name: string): AnyKind => {
    const kind = byName.get(name);
    if (kind === undefined) throw new TypeError(`the kind ${name} is not declared`);
    return kind;
  };
  return {
    all: declared.toSorted(
      (one, other) =>
        Number(one.declaration.parent !== undefined) - Number(other.declaration.parent !== undefined),
    ),
    get,
    checkTogether(names) {
      let first: AnyKind | undefined;
      for (const name of names) {
        const kind = get(name);
        if (kind.declaration.store === "each") continue;
        first ??= kind;
        if (kind.declaration.store !== first.declaration.store) {
          throw new TypeError(`a commit can't write kinds of two stores: ${first.name}, ${name}`);
        }
      }
    },
  };
}
