/** Pages and views for the tests. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "@jest/globals";
import { builtIn } from "../../core/texts.ts";
import type { Pages } from "../../interactions/page.ts";
import { createPages, type PageSettings } from "../../interactions/pages.ts";
import { samples } from "../../interactions/samples/samples.ts";

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

/** The HTML of every page in every state, with the given text everywhere. */
export function everyPage(pages: Pages, locale: string, text = "harmless"): Map<string, string> {
  const visit = { locale, here: text };
  return new Map(samples(() => text).map(({ name, render }) => [name, render(pages, visit)]));
}

/** The built-in texts of a locale. */
export function localeFile(locale: string): Readonly<Record<string, string>> {
  return builtIn(locale);
}

/** A folder of a team's own views. It is removed after the tests of the file. */
export function viewsFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "views-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  folders.push(folder);
  return folder;
}
