/** `doctor --against`: reads what another version publishes about itself, and checks whether this storage and configuration can go to it. */
import { readFile, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { packageVersion } from "../../core/package-version.ts";
import { currentFormat } from "../../core/storage-formats.ts";
import type { StoredFormat } from "../../records/formats/format.ts";
import { misused } from "../program/command-failure.ts";
import { type Finding, finding } from "./findings.ts";

/** `docs/formats.json` of a version. */
const published = z.object({
  /** Of the package. */
  version: z.string().regex(/^\d{1,6}\.\d{1,6}\.\d{1,6}[\w.+-]{0,40}$/u),
  /** The format that it writes. */
  format: z.int().positive(),
  reads: z.array(z.int().positive()).min(1).max(10),
  /** How a storage of the format before gets there; `null` for the first format. */
  path: z.enum(["expand and contract", "in one step"]).nullable(),
  /** The oldest major version of Node.js that it runs on. */
  node: z.int().positive(),
  /** The paths of its keys, `*` for a name of one's own. */
  configuration: z.array(z.string().max(400)).max(5_000),
});

export interface PublishedFormats extends z.output<typeof published> {}

const MAX_BYTES = 1_000_000;

/**
 * @param place the folder of a package, its `package.json`, or the file itself.
 * @throws CommandFailure with exit code 2 for anything else.
 */
export async function readPublished(place: string): Promise<PublishedFormats> {
  const found = await stat(place).catch(() => undefined);
  const folder = found?.isDirectory() === true ? place : dirname(place);
  const isFile = found?.isFile() === true && basename(place) !== "package.json";
  const file = isFile ? place : join(folder, "docs", "formats.json");
  const size = (await stat(file).catch(() => undefined))?.size ?? Infinity;
  const refused = misused(
    `--against names no version of sign-in-service since 0.3.0: there is no usable ${file}`,
  );
  if (size > MAX_BYTES) throw refused;
  try {
    return published.parse(JSON.parse(await readFile(file, "utf8")));
  } catch {
    throw refused;
  }
}

/** The keys of a configuration that another version doesn't have. */
function unknownKeys(config: object, { configuration }: PublishedFormats): string[] {
  const known = configuration.map((path) => path.split("."));
  const unknown: string[] = [];
  function look(value: unknown, path: readonly string[], fitting: readonly (readonly string[])[]): void {
    // A leaf: its value is for the other version to check.
    if (fitting.some((each) => each.length === path.length)) return;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return;
    for (const [key, child] of Object.entries(value)) {
      const below = [...path, key];
      const exact = fitting.filter((each) => each[path.length] === key);
      const fits = exact.length > 0 ? exact : fitting.filter((each) => each[path.length] === "*");
      if (fits.length === 0) unknown.push(below.join("."));
      else if (child !== undefined) look(child, below, fits);
    }
  }
  look(config, [], known);
  return unknown;
}

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
