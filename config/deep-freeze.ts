/**
 * Freezes a value and all plain objects and arrays inside it, and returns it. Only for values that
 * this package made itself: an object of the host must stay as the host made it.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
