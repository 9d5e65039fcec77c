/** What a rule between keys is. */
import type { DeploymentKind } from "../configuration.ts";
import { parseBase } from "../deployments.ts";
import { isLoopback } from "../loopback.ts";
import type { Problem } from "../problems.ts";
import type { CheckedConfig } from "../schema.ts";

/** The base URLs that were written, right or wrong. */
export type WrittenBases = Readonly<Partial<Record<DeploymentKind, string>>>;

/** What the rules look at. */
export interface Sound {
  /** The configuration; what is wrong by itself is left out of it, or has its default. */
  readonly config: CheckedConfig;
  readonly bases: WrittenBases;
  /** True when any base URL is not on loopback. */
  readonly production: boolean;
}

/** A rule and the keys that it reads: it holds its tongue while one of them is wrong by itself. */
export interface Rule {
  readonly reads: readonly string[];
  readonly find: (sound: Sound) => readonly Problem[];
}

/** Both kinds of deployments. */
export const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];

/** Whether any of these base URLs is not on loopback. */
export function isProduction(bases: WrittenBases): boolean {
  return KINDS.some((kind) => {
    const url = parseBase(bases[kind] ?? "");
    return url !== undefined && !isLoopback(url.hostname);
  });
}
