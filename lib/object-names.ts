/**
 * Names that every object inherits, such as `constructor` and `__proto__`. Looking one of them up in a plain object
 * finds something that nobody put there, so no identifier, key or other name from outside may be one of them.
 */
const OBJECT_NAMES: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** What is wrong with such a name, completing "NAME: …". */
export const OBJECT_NAME_PROBLEM = "must not be a name that every object has, such as constructor";

/** Whether `Object.prototype` has this name. */
export function isObjectName(name: string): boolean {
  return OBJECT_NAMES.has(name);
}
