/** The checks of `doctor --against`: whether this storage and configuration can go to another version. */
import { packageVersion } from "../../core/package-version.ts";
import { currentFormat } from "../../core/storage-formats.ts";
import type { StoredFormat } from "../../records/formats/format.ts";
import { type Finding, finding } from "./findings.ts";
import { type PublishedFormats, unknownKeys } from "./published-formats.ts";

interface UpgradeSubject {
  readonly to: PublishedFormats;
  /** As it was read, with the variables of the environment. */
  readonly config: object;
  /** Of the storage and the artifacts; empty if they can't be read. */
  readonly formats: readonly StoredFormat[];
}

/** Whether a version is older, by its numbers. */
function isOlder(version: string, than: string): boolean {
  const [one, other] = [version, than].map((text) => text.split(/[.+-]/u).slice(0, 3).map(Number));
  for (const [at, number] of (one ?? []).entries()) {
    const difference = number - (other?.[at] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function formatFindings({ to, formats }: Pick<UpgradeSubject, "to" | "formats">): Finding[] {
  const { version, format: next, reads, path } = to;
  const left = formats.filter(({ format, from }) => from !== undefined || format < currentFormat().format);
  if (left.length > 0 && next > currentFormat().format) return [finding("upgrade_unfinished", { version })];
  const unreadable = formats.find(({ format }) => !reads.includes(format));
  if (unreadable !== undefined) return [finding("upgrade_format", { format: unreadable.format, version })];
  if (formats.every(({ format }) => format === next)) return [];
  return [finding(path === "in one step" ? "upgrade_stops" : "upgrade_migrates", { version, next })];
}

export function upgradeFindings({ to, config, formats }: UpgradeSubject): Finding[] {
  const { version, node: needed } = to;
  const own = packageVersion();
  const { node } = process.versions;
  return [
    ...(isOlder(version, own)
      ? [finding("upgrade_backwards", { version, own })]
      : formatFindings({ to, formats })),
    ...(Number.parseInt(node, 10) < needed ? [finding("upgrade_node", { version, needed, node })] : []),
    ...unknownKeys(config, to).map((key) => finding("upgrade_key", { version, key })),
  ];
}
