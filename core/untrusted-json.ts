/** JSON from outside. Nested deep enough, it exhausts the stack of whatever walks or writes it. */

/** Levels of objects and lists in one another (decisions.md, JSON). */
export const MAX_JSON_LEVELS = 20;

/** True for an object that is not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Whether parsed JSON is nested deeper than that. Walks it level by level, without recursion. */
export function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isContainer);
  for (let levels = 0; level.length > 0; levels += 1) {
    if (levels === MAX_JSON_LEVELS) return true;
    level = level.flatMap((each) => Object.values(each)).filter(isContainer);
  }
  return false;
}

/** Whether JSON text is; false for text that is no JSON. */
export function isTooDeepText(text: string): boolean {
  try {
    return isTooDeep(JSON.parse(text));
  } catch {
    return false;
  }
}

/** Whether the header or the payload of a JWT is; false for text that is no JWT. */
export function isTooDeepJwt(jwt: string): boolean {
  return jwt.split(".", 2).some((part) => isTooDeepText(Buffer.from(part, "base64url").toString("utf8")));
}

/** JSON that is the same for equal values, whatever the order of their keys. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, each: unknown) =>
    isObject(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}
