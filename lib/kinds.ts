/** Kinds of records. Each is declared once, with everything that anybody has to know of it. */
import type { Found, IndexEntry, Query, RecordData, RecordStore, Ref } from "../adapters/record-store.ts";
import { hashedPart, json, keyPart, type KindRules } from "./records.ts";

/** A name, or several that make a key together. They may hold anything: what is long or not plain is hashed. */
export type Key = string | readonly string[];

/** Where an index has a record. */
export interface Place {
  /** The records that are found together have the same. */
  readonly at: Key;
  /** Their sequence: a safe integer. Default: 0. */
  readonly order?: number;
}

/**
 * The store of a kind: the one that keeps everything, or the one for codes, tokens and sessions where that is another;
 * `each`: both, for what says something about the store itself.
 */
export type KindStore = "storage" | "artifacts" | "each";

/** The stores of a service. */
export interface Stores {
  readonly storage: RecordStore;
  /** The same as `storage` where artifacts have no store of their own. */
  readonly artifacts: RecordStore;
}

/** Where the records of a kind are. */
export function storeOf(stores: Stores, { declaration: { store } }: AnyKind): RecordStore {
  return stores[store === "each" ? "storage" : store];
}

/** What the owner of a kind says about it. The texts are what `docs/kinds.md` prints. */
export interface KindDeclaration<Value extends object, Index extends string> {
  /** Lower-case words with hyphens, such as `access-token`: at most 40 characters. */
  readonly name: string;
  /** What one record is. */
  readonly holds: string;
  /** What its key is made of. */
  readonly key: string;
  /** The key, where the value has it. Left out: `record` has to be told. */
  readonly keyOf?: (value: Value) => Key;
  /** Keys are what people type: they are hashed, however plain they look. */
  readonly hashed?: true;
  /** Where each index has the record: worked out from the value and nothing else. */
  readonly index?: { readonly [Name in Index]: (value: Value) => readonly Place[] };
  /** The record is there only as long as its parent. `key`: that of the parent; `undefined` for a record without one. */
  readonly parent?: { readonly kind: AnyKind; readonly key: (value: Value) => Key | undefined };
  /** Other records that have to be there. `storage check` reports those that are not. */
  readonly references?: (value: Value) => readonly Ref[];
  /** When a record ends, in words. Default: it stays until it is removed. */
  readonly expires?: string;
  /** The end, in milliseconds since the epoch, where it follows from the value. Else `record` is told. */
  readonly expiresAt?: (value: Value) => number | undefined;
  readonly store: KindStore;
  /** Whether it goes along to another storage; what says something about one storage only stays there. */
  readonly exported: boolean;
  /** What goes along of a value that says something about its store, too. Default: all of it. */
  readonly carried?: (value: Value) => object;
  /** The counter from which the keys come, where they are numbers. */
  readonly counter?: string;
  /** The personal data in it; `undefined` where there is none. */
  readonly personal: string | undefined;
}

/** What `record` can't work out of the value. */
export interface RecordParts {
  readonly key?: Key;
  readonly expiresAt?: number;
}

/** A kind: how its records are named, made and found. */
export interface Kind<Value extends object, Index extends string = string> {
  readonly declaration: KindDeclaration<Value, Index>;
  readonly name: string;
  ref(key: Key): Ref;
  /** The record with its key, index entries, parent and end. */
  record(value: Value, parts?: RecordParts): RecordData;
  /** The record that was read, as it has to be written: with its own key, and the rest worked out again. */
  restore(found: Found): RecordData;
  /** The record without what belongs to its store alone. */
  carried(found: Found): Found;
  /** What `list` and `count` of the store are asked: the records that an index has in one place. */
  where(index: Index, at: Key): Pick<Query, "kind" | "index" | "at">;
}

/** A kind of which only the declaration counts, whatever its values are. */
export type AnyKind = Kind<never, never>;

/** Declares a kind. Export it from the file of its owner, and add it to `lib/all-kinds.ts`. */
export function defineKind<Value extends object, Index extends string = never>(
  declaration: KindDeclaration<Value, Index>,
): Kind<Value, Index> {
  const { name, hashed = false, index, parent } = declaration;
  const part = hashed ? hashedPart : keyPart;
  const indexes = Object.entries(index ?? {}) as [Index, (value: Value) => readonly Place[]][];
  const ref = (key: Key): Ref => ({ kind: name, key: toKey(key, part) });

  function write(at: Ref, value: Value, end: number | undefined): RecordData {
    const entries = indexes.flatMap(([each, places]): IndexEntry[] =>
      places(value).map((place) => ({ name: each, at: toKey(place.at), order: place.order ?? 0 })),
    );
    const above = parent?.key(value);
    const expiresAt = declaration.expiresAt?.(value) ?? end;
    return {
      ...at,
      value: json(value),
      ...(entries.length === 0 ? {} : { index: entries }),
      ...(above === undefined ? {} : { parent: parent?.kind.ref(above) as Ref }),
      ...(expiresAt === undefined ? {} : { expiresAt }),
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
    carried(found) {
      const value = declaration.carried?.(found.value as unknown as Value);
      return value === undefined ? found : { ...found, value: json(value) };
    },
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
  /** @throws TypeError when nobody has declared it. */
  get(name: string): AnyKind;
}

/** @throws TypeError for a name that two kinds have, and for a parent that its children can't have. */
export function collectKinds(declared: readonly AnyKind[]): Kinds {
  const byName = new Map<string, AnyKind>();
  for (const kind of declared) {
    if (byName.has(kind.name)) throw new TypeError(`two kinds are called ${kind.name}`);
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
    if (kind === undefined) throw new TypeError(`nobody has declared the kind ${name}`);
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
          throw new TypeError(`one commit is about kinds of two stores: ${first.name}, ${name}`);
        }
      }
    },
  };
}
