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

/**
 * A page that shows whole files of this repository, each in one block: "```LANGUAGE PATH", where the language is the ending of the file.
 *
 * @throws Error if the page has no such block.
 */
export function pageWithFiles(file: string, shown: readonly string[]): Page {
  return {
    file,
    generate: () =>
      shown.reduce((document, path) => {
        const fence = `\`\`\`${path.slice(path.lastIndexOf(".") + 1)} ${path}\n`;
        const [before = "", rest] = document.split(fence);
        if (rest === undefined) throw new Error(`${file} must have a block for ${path}`);
        const after = rest.slice(rest.indexOf("\n```\n"));
        return `${before}${fence}${textOf(path).trimEnd()}${after}`;
      }, textOf(file)),
  };
}

function textOf(file: string): string {
  return readFileSync(join(import.meta.dirname, "..", file), "utf8");
}
