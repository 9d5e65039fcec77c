/**
 * Keys that come from outside. Such a key may be `__proto__` or `constructor`, which every object inherits: a plain
 * lookup would find something that nobody stored. So identifiers with these names are refused, and nothing here
 * reads a prototype or assigns by key.
 */
const OBJECT_NAMES: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** Why such a name is refused, completing "NAME: …". */
export const OBJECT_NAME_PROBLEM = "must not be a name that every object has, such as constructor";

/** Whether `Object.prototype` has this name. */
export function isObjectName(name: string): boolean {
  return OBJECT_NAMES.has(name);
}

/** The value of the record's own key; `undefined` when it has none. */
export function ownValue<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

/** A copy of the record with one key set. */
export function withEntry<T>(
  record: Readonly<Record<string, T>>,
  key: string,
  value: T,
): Readonly<Record<string, T>> {
  return { ...record, [key]: value };
}

/** A copy of the record without these keys. */
export function withoutEntries<T>(
  record: Readonly<Record<string, T>>,
  keys: ReadonlySet<string>,
): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !keys.has(key)));
}
