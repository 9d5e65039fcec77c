/** `docs/configuration.md`: written by hand, but for the table of all keys, which comes from the schema. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { configurationTable } from "../config/document.ts";
import type { Page } from "./page.ts";

const FILE = "docs/configuration.md";
const START = "<!-- all keys: written by npm run docs -->";
const END = "<!-- end of all keys -->";

/**
 * The document with the table of today between its markers.
 *
 * @throws Error when it does not have both markers, once each and in this order.
 */
export function withTable(document: string, table: string): string {
  const [before = "", rest = "", ...more] = document.split(START);
  const [, after, ...others] = rest.split(END);
  if (after === undefined || more.length + others.length > 0) {
    throw new Error(`${FILE} must hold ${START} and ${END}, once each and in this order`);
  }
  return `${before}${START}\n\n${table}\n\n${END}${after}`;
}

/** The page of all configuration keys. */
export const configurationPage: Page = {
  file: FILE,
  generate: () =>
    withTable(readFileSync(join(import.meta.dirname, "..", FILE), "utf8"), configurationTable()),
};
