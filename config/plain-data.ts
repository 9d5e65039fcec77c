/** Plain data: copies the caller's configuration, and freezes the result. */

/**
 * Deeply freezes a value and returns it. Only for values that this package created: objects of the host stay as they
 * are.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}

/** A part that can't be copied, with the reason. The reason never contains the value. */
export interface Refused {
  readonly path: readonly PropertyKey[];
  readonly reason: string;
}

interface Snapshot {
  /** The copy. Refused parts are replaced by a symbol, which no key of the configuration accepts. */
  readonly value: unknown;
  readonly refused: readonly Refused[];
}

/** Deeper than any key of the configuration. Also ends circular structures. */
const MAX_DEPTH = 12;
const MAX_ENTRIES = 10_000;

const REFUSED = Symbol("refused");

/** Whether {@link takeSnapshot} refused this part and has already reported the reason. */
export function isRefused(value: unknown): boolean {
  return value === REFUSED;
}

/** Whether this is an object literal, a parsed JSON object or an object without a prototype, from any realm. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

class Copier {
  readonly refused: Refused[] = [];
  readonly #isForeign: (path: readonly PropertyKey[], value: object) => boolean;

  constructor(isForeign: (path: readonly PropertyKey[], value: object) => boolean) {
    this.#isForeign = isForeign;
  }

  refuse(path: readonly PropertyKey[], reason: string): typeof REFUSED {
    this.refused.push({ path, reason });
    return REFUSED;
  }

  copy(value: unknown, path: readonly PropertyKey[]): unknown {
    try {
      if (typeof value !== "object" || value === null || this.#isForeign(path, value)) return value;
      if (path.length > MAX_DEPTH) return this.refuse(path, "is nested too deeply");
      if (Array.isArray(value)) return this.copyArray(value, path);
      if (!isPlainObject(value)) return this.refuse(path, "must be plain data, not an instance of a class");
      return this.copyObject(value, path);
    } catch {
      return this.refuse(path, "can't be read: reading it throws an error");
    }
  }

  copyArray(value: readonly unknown[], path: readonly PropertyKey[]): unknown {
    const { length } = value;
    if (length > MAX_ENTRIES) return this.refuse(path, `must not have more than ${MAX_ENTRIES} entries`);
    return Array.from({ length }, (_, index) => this.copyKey(value, index, path));
  }

  copyObject(value: Record<string, unknown>, path: readonly PropertyKey[]): unknown {
    const keys = Reflect.ownKeys(value);
    if (keys.length > MAX_ENTRIES) return this.refuse(path, `must not have more than ${MAX_ENTRIES} entries`);
    const copy: Record<string, unknown> = {};
    for (const key of keys) {
      // An own `__proto__` (from JSON.parse) would change the copy's prototype instead of being kept.
      if (typeof key === "symbol" || key === "__proto__") {
        this.refuse([...path, key], "is not a key of the configuration");
        continue;
      }
      const part = this.copyKey(value, key, path);
      if (part !== undefined) copy[key] = part;
    }
    return copy;
  }

  copyKey(value: object, key: string | number, path: readonly PropertyKey[]): unknown {
    const inner = [...path, key];
    let part: unknown;
    try {
      part = Reflect.get(value, key);
    } catch {
      return this.refuse(inner, "can't be read: reading it throws an error");
    }
    return this.copy(part, inner);
  }
}

/**
 * Copies plain data and reads each property exactly once. Keys with the value `undefined` are left out.
 *
 * @param isForeign whether an object belongs to the host and is used as it is.
 */
export function takeSnapshot(
  input: unknown,
  isForeign: (path: readonly PropertyKey[], value: object) => boolean,
): Snapshot {
  const copier = new Copier(isForeign);
  const value = copier.copy(input, []);
  return { value, refused: copier.refused };
}
