/** What is left of a wrong configuration: enough for the rules between keys to be looked at as well. */
import type { z } from "zod";
import { type CheckedConfig, configurationSchema } from "./schema.ts";
import { isPlainObject } from "./snapshot.ts";

/** Taking out what is wrong may leave an object without a key that it needs: then that goes in the next round. */
const ROUNDS = 6;

/** Takes a key out; when it is not there, takes out the object that lacks it. */
function takeOut(root: Record<string, unknown>, path: readonly PropertyKey[]): void {
  let holder = root;
  let above: (() => void) | undefined;
  for (const [depth, key] of path.map(String).entries()) {
    if (!Object.hasOwn(holder, key)) break;
    const parent = holder;
    above = () => delete parent[key];
    // What is taken out as a whole is not looked at: it may be an object of the host, and throw.
    if (depth === path.length - 1) break;
    const child = holder[key];
    if (!isPlainObject(child)) break;
    holder = child;
  }
  above?.();
}

function pathsOf(issue: z.core.$ZodIssue): readonly (readonly PropertyKey[])[] {
  return issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
}

/**
 * The configuration without what is wrong in it: defaults are in its place, and there may be no deployment.
 *
 * @param snapshot is used up.
 */
export function salvage(snapshot: unknown): CheckedConfig {
  const rest = isPlainObject(snapshot) ? snapshot : {};
  for (let round = 0; round < ROUNDS; round++) {
    if (!isPlainObject(rest["deployments"])) rest["deployments"] = {};
    const result = configurationSchema.safeParse(rest);
    if (result.success) return result.data;
    for (const path of result.error.issues.flatMap(pathsOf)) takeOut(rest, path);
  }
  return configurationSchema.parse({ deployments: {} });
}
