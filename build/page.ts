/** A file in `docs/` that is generated from the code, so that it always matches. */
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

export interface Page {
  /** Path from the root of the project. */
  readonly file: string;
  /** Returns the text of the file. Always the same for the same code. */
  readonly generate: () => string | Promise<string>;
}

/** A folder in `docs/` that holds generated files only. */
export interface Folder {
  /** Path from the root of the project. */
  readonly folder: string;
  /** Returns the texts by the names of their files. */
  readonly generateAll: () => Promise<ReadonlyMap<string, string>>;
}

/** A Markdown table. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heads, heads.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/**
 * Replaces the table between the markers `<!-- NAME: written by npm run docs -->` and `<!-- end of NAME -->`.
 *
 * @throws Error if the document doesn't have both markers, once each and in this order.
 */
export function withTable(document: string, name: string, text: string): string {
  const [start, end] = [`<!-- ${name}: written by npm run docs -->`, `<!-- end of ${name} -->`];
  const [before = "", rest = "", ...more] = document.split(start);
  const [, after, ...others] = rest.split(end);
  if (after === undefined || more.length + others.length > 0) {
    throw new Error(`the page must hold ${start} and ${end}, once each and in this order`);
  }
  return `${before}${start}\n\n${text}\n\n${end}${after}`;
}

/** Declarations link from the root of the project, as in `](docs/connect/choose-a-client.md)`, because several pages show them. */
export function linksFrom(file: string, text: string): string {
  return text.replaceAll(
    /\]\(docs\/([^)]+)\)/g,
    (_all, target: string) => `](${relative(dirname(file), `docs/${target}`)})`,
  );
}

/** A page with handwritten text and generated tables. @param tables Name → table. */
export function pageWithTables(
  file: string,
  tables: () => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>,
): Page {
  return {
    file,
    generate: async () =>
      Object.entries(await tables()).reduce(
        (document, [name, text]) => withTable(document, name, linksFrom(file, text)),
        textOf(file),
      ),
  };
}

/** A block that shows a file, or a region of it: "```ts examples/embed/app.ts#mount". */
const SHOWN = /^```(\S+ ((?:examples|deploy)\/[^\s#]+)(?:#(\S+))?(?: .*)?)\n[^]*?^```$/gm;
/** The start and the end of a region, in a comment of any language. */
const MARK = /^\s*(?:\/\/|\/\*|#|--|<!--)\s*#(end)?region\b(?:\s+([\w-]+))?/;

/**
 * Writes files of this repository into the blocks that name them, without the marks of regions and without common indentation.
 *
 * @param read returns the text of a file.
 * @throws Error if a file or a region is missing, or if its text would end the block.
 */
export function withFiles(document: string, read: (file: string) => string = textOf): string {
  return document.replaceAll(SHOWN, (_all, info: string, file: string, region: string | undefined) => {
    const lines = regionOf(read(file).split("\n"), region);
    if (lines === undefined) throw new Error(`${file} has no region ${region}, or no end of it`);
    const indentation = Math.min(
      ...lines.filter((line) => line.trim() !== "").map((line) => line.search(/\S/)),
    );
    const code = lines
      .map((line) => line.slice(indentation))
      .join("\n")
      .replace(/^\n+/, "")
      .trimEnd();
    if (/^```/m.test(code)) throw new Error(`${file} has a line that would end the block`);
    return `\`\`\`${info}\n${code}\n\`\`\``;
  });
}

const isMark = (line: string): boolean => MARK.test(line);

/** The lines of a region; of the whole file by default. */
function regionOf(lines: readonly string[], region?: string): readonly string[] | undefined {
  if (region === undefined) return lines.filter((line) => !isMark(line));
  const start = lines.findIndex((line) => MARK.exec(line)?.[2] === region);
  if (start === -1) return undefined;
  let depth = 1;
  for (const [index, line] of lines.entries()) {
    if (index <= start || !isMark(line)) continue;
    depth += MARK.exec(line)?.[1] === undefined ? 1 : -1;
    if (depth === 0) return lines.slice(start + 1, index).filter((each) => !isMark(each));
  }
  return undefined;
}

function textOf(file: string): string {
  return readFileSync(join(import.meta.dirname, "..", file), "utf8");
}
