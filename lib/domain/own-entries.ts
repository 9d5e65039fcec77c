/**
 * Reading and changing records whose keys come from outside. Such a key may be `__proto__` or `constructor`, so
 * nothing here looks at a prototype or assigns by key.
 */

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
