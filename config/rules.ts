/** Rules between keys. Each looks at what is right by itself, so that all problems come at once. */
import type { Problem } from "./problems.ts";
import { deploymentRules } from "./rules/deployments.ts";
import type { Sound } from "./rules/rule.ts";
import { settingRules } from "./rules/settings.ts";

/** Whether one path is the other, or above it; the empty path is above all. */
function touch(one: string, other: string): boolean {
  return one === other || other === "" || one.startsWith(`${other}.`) || other.startsWith(`${one}.`);
}

/**
 * What is wrong between keys.
 *
 * @param wrong paths of what is wrong by itself.
 */
export function brokenRules(sound: Sound, wrong: readonly (readonly PropertyKey[])[]): readonly Problem[] {
  const paths = wrong.map((path) => path.map(String).join("."));
  return [...deploymentRules, ...settingRules]
    .filter(({ reads }) => !reads.some((read) => paths.some((path) => touch(read, path))))
    .flatMap(({ find }) => find(sound));
}
