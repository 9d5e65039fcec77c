/**
 * Object keys that come from outside. `__proto__` and `constructor` are names that every object inherits, so a plain
 * look-up would find values that were never stored. Identifiers with these names are refused, and these functions
 * never read a prototype.
 */
const OBJECT_NAMES: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** Why such a name is refused, completing "NAME: …". */
export const OBJECT_NAME_PROBLEM = "must not be a name that every object has, such as constructor";

/** Whether `Object.prototype` has this name. */
export function isObjectName(name: string): boolean {
  return OBJECT_NAMES.has(name);
}

/** The value of the record's own key; `undefined` if it has none. */
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
