/** `npm run docs` writes the generated files. With `--check`, it only lists the outdated ones. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { administrationDocument, operationsPage } from "./administration.ts";
import { alertsPage } from "./alerts.ts";
import { commandLinePage, commandPages } from "./command-line.ts";
import { withOneCompiler } from "./comments.ts";
import { configurationPage, configurationPages, configurationSchemaFile, seedPage } from "./configuration.ts";
import { eventsPage, eventsSchemaFile } from "./events.ts";
import { formatsFile, upgradingPage } from "./formats.ts";
import { mailsPage } from "./mails.ts";
import { openapiPage } from "./openapi.ts";
import { operationTexts } from "./operations.ts";
import { claimsPage, endpointsPage, errorsPage } from "./protocol.ts";
import { type Folder, linksFrom, type Page, withFiles } from "./page.ts";
import {
  auditPage,
  clientSettingsPage,
  doctorPage,
  kindsPage,
  limitsPage,
  metricsPage,
  personalDataPage,
  scalePage,
  tokensPage,
} from "./tables.ts";
import { viewsPage } from "./views.ts";

const ROOT = join(import.meta.dirname, "..");

/** All generated files. */
export const pages: readonly Page[] = [
  // The reference of the commands reads it.
  operationTexts,
  administrationDocument,
  operationsPage,
  alertsPage,
  auditPage,
  claimsPage,
  clientSettingsPage,
  commandLinePage,
  configurationPage,
  ...configurationPages,
  configurationSchemaFile,
  doctorPage,
  endpointsPage,
  errorsPage,
  eventsPage,
  eventsSchemaFile,
  formatsFile,
  kindsPage,
  limitsPage,
  mailsPage,
  metricsPage,
  openapiPage,
  personalDataPage,
  scalePage,
  tokensPage,
  seedPage,
  upgradingPage,
  viewsPage,
];

/** All folders with nothing but generated files. */
const folders: readonly Folder[] = [commandPages];

/** Finds the outdated files. @param write Whether to update them. */
export function drifted(write: boolean): Promise<string[]> {
  return withOneCompiler(async () => {
    const found: string[] = [];
    for (const page of pages) {
      const text = await page.generate();
      if (textOf(page.file) === text) continue;
      found.push(page.file);
      if (write) writeFileSync(join(ROOT, page.file), text);
    }
    for (const { folder, generateAll } of folders) {
      const texts = await generateAll();
      for (const [name, written] of texts) {
        const file = `${folder}/${name}`;
        const text = linksFrom(file, written);
        if (textOf(file) === text) continue;
        found.push(file);
        if (!write) continue;
        mkdirSync(join(ROOT, folder), { recursive: true });
        writeFileSync(join(ROOT, file), text);
      }
      for (const name of namesIn(folder).filter((each) => !texts.has(each))) {
        found.push(`${folder}/${name}`);
        if (write) rmSync(join(ROOT, folder, name));
      }
    }
    for (const file of documents()) {
      const text = textOf(file) ?? "";
      const shown = withFiles(text);
      if (shown === text) continue;
      found.push(file);
      if (write) writeFileSync(join(ROOT, file), shown);
    }
    return found;
  });
}

/** All documents, any of which can show files. */
function documents(): string[] {
  const below = namesIn("docs").filter((name) => name.endsWith(".md"));
  return ["README.md", ...below.map((name) => `docs/${name}`)];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
  } catch {
    return [];
  }
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(join(ROOT, file), "utf8");
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const check = process.argv.includes("--check");
  const found = await drifted(!check);
  for (const file of found)
    console.log(check ? `${file} is out of date: run npm run docs` : `${file} written`);
  if (check && found.length > 0) process.exitCode = 1;
}
