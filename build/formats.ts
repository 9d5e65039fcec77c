/** The formats of the storage: the tables of `docs/operate/day-to-day/upgrading.md`, and the file that `doctor --against` of other versions reads. */
import type { PublishedFormats } from "../cli/doctor/upgrade-checks.ts";
import { packageVersion } from "../core/package-version.ts";
import { NEEDED_NODE } from "../core/node-version.ts";
import { currentFormat, formerFormat, STORAGE_FORMATS } from "../core/storage-formats.ts";
import { configurationSchemaFile } from "./configuration.ts";
import { type Page, pageWithTables, table } from "./page.ts";

/** `0.3` of `0.3.0`. */
const minor = (version: string): string => version.split(".").slice(0, 2).join(".");

/** Whether servers of a row can run beside those of an earlier one. */
function together(row: number, earlier: number): string {
  if (row === earlier) return "yes";
  const isNext = row === earlier + 1 && STORAGE_FORMATS[row]?.path === "expand and contract";
  return isNext ? "until `storage migrate`" : "no";
}

export const upgradingPage: Page = pageWithTables("docs/operate/day-to-day/upgrading.md", () => ({
  formats: table(
    ["Format", "Since", "What is new", "From the one before"],
    STORAGE_FORMATS.map(({ format, since, what, path }) => [String(format), since, what, path ?? "–"]),
  ),
  versions: table(
    ["", ...STORAGE_FORMATS.map(({ since }) => `${minor(since)} and later`)],
    STORAGE_FORMATS.map(({ since }, row) =>
      [`${minor(since)} and later`].concat(
        STORAGE_FORMATS.map((_each, column) => together(Math.max(row, column), Math.min(row, column))),
      ),
    ),
  ),
}));

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

/** The paths of all keys: `*` for a name of one's own. A path that nothing longer begins with holds any value. */
function keysOf(schema: Schema, path = ""): string[] {
  const below = [
    ...Object.entries(schema.properties ?? {}),
    ...(typeof schema.additionalProperties === "object" ? [["*", schema.additionalProperties] as const] : []),
  ];
  const inner = (schema.anyOf ?? []).flatMap((each) => keysOf(each, path)).filter((each) => each !== path);
  if (below.length === 0 && inner.length === 0) return [path];
  return [...below.flatMap(([key, child]) => keysOf(child, path === "" ? key : `${path}.${key}`)), ...inner];
}

export const formatsFile: Page = {
  file: "docs/formats.json",
  async generate() {
    const schema = JSON.parse(await configurationSchemaFile.generate()) as Schema;
    const { format } = currentFormat();
    const former = formerFormat();
    const published: PublishedFormats = {
      version: packageVersion(),
      format,
      reads: former === undefined ? [format] : [former.format, format],
      path: currentFormat().path ?? null,
      node: NEEDED_NODE,
      configuration: [...new Set(keysOf(schema))].toSorted(),
    };
    return `${JSON.stringify(published, undefined, 2)}\n`;
  },
};
