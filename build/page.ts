/** A page under `docs/` that is written from the code, so that it can't say something else. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Page {
  /** Path from the root of the project. */
  readonly file: string;
  /** The whole text of the page. The same code gives the same text. */
  readonly generate: () => string | Promise<string>;
}

/**
 * The document with the table of today between its markers, `<!-- NAME: written by npm run docs -->` and
 * `<!-- end of NAME -->`.
 *
 * @throws Error when it does not have both markers, once each and in this order.
 */
export function withTable(document: string, name: string, table: string): string {
  const [start, end] = [`<!-- ${name}: written by npm run docs -->`, `<!-- end of ${name} -->`];
  const [before = "", rest = "", ...more] = document.split(start);
  const [, after, ...others] = rest.split(end);
  if (after === undefined || more.length + others.length > 0) {
    throw new Error(`the page must hold ${start} and ${end}, once each and in this order`);
  }
  return `${before}${start}\n\n${table}\n\n${end}${after}`;
}

/** A page written by hand, but for its tables. @param tables name → table. */
export function pageWithTables(file: string, tables: () => Readonly<Record<string, string>>): Page {
  return {
    file,
    generate: () =>
      Object.entries(tables()).reduce(
        (document, [name, table]) => withTable(document, name, table),
        readFileSync(join(import.meta.dirname, "..", file), "utf8"),
      ),
  };
}
