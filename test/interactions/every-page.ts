/** Pages and views for the tests. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "@jest/globals";
import { createPages, type Pages, type PageSettings } from "../../interactions/pages.ts";
import { samplePages } from "../../interactions/sample-pages.ts";

/** The folder of the pages. */
export const SOURCES: string = join(import.meta.dirname, "../../interactions");
export const LOCALES: readonly string[] = ["en", "pl"];

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

/** Pages with the given settings and defaults. */
export function pagesWith(settings: Partial<PageSettings> = {}): Pages {
  return createPages({ locales: LOCALES, views: [], copy: {}, theme: {}, ...settings });
}

/** Every page in every state, with the given text everywhere. */
export function allPages(pages: Pages, locale: string, text: string): Record<string, Promise<string>> {
  return Object.fromEntries(
    samplePages(locale, text).map((sample) => [`${sample.page}, ${sample.state}`, sample.with(pages)]),
  );
}

/** The HTML of all of them. */
export async function everyPage(
  pages: Pages,
  locale: string,
  text = "harmless",
): Promise<Map<string, string>> {
  const entries = Object.entries(allPages(pages, locale, text));
  return new Map(await Promise.all(entries.map(async ([name, html]) => [name, await html] as const)));
}

/** The built-in texts of a locale. */
export function localeFile(locale: string): Record<string, string> {
  return JSON.parse(readFileSync(join(SOURCES, "../core/locales", `${locale}.json`), "utf8"));
}

/** A folder of a team's own views. It is removed after the tests of the file. */
export function viewsFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "views-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  folders.push(folder);
  return folder;
}
