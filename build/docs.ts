/** `npm run docs` writes the generated files. With `--check`, it only lists the outdated ones. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { administrationDocument, administrationPage } from "./administration.ts";
import { commandLinePage } from "./command-line.ts";
import { withOneCompiler } from "./comments.ts";
import { configurationPage, configurationSchemaFile, seedPage } from "./configuration.ts";
import { eventsPage, eventsSchemaFile } from "./events.ts";
import { formatsFile, upgradingPage } from "./formats.ts";
import { openapiPage } from "./openapi.ts";
import { operationTexts } from "./operations.ts";
import { type Page, pageWithFiles } from "./page.ts";
import {
  auditPage,
  clientsPage,
  doctorPage,
  kindsPage,
  metricsPage,
  scalePage,
  securityPage,
} from "./tables.ts";

const ROOT = join(import.meta.dirname, "..");

const otherLanguagesPage = pageWithFiles(
  "docs/notifications/other-languages.md",
  ["py", "go"].map((ending) => `examples/receivers/receiver.${ending}`),
);
const yourApplicationPage = pageWithFiles(
  "docs/connect/your-application.md",
  ["express", "koa", "next"].map((name) => `examples/your-application/${name}.ts`),
);

/** All generated files. */
export const pages: readonly Page[] = [
  // The reference of the commands reads it.
  operationTexts,
  administrationDocument,
  administrationPage,
  auditPage,
  clientsPage,
  commandLinePage,
  configurationPage,
  configurationSchemaFile,
  doctorPage,
  eventsPage,
  eventsSchemaFile,
  formatsFile,
  kindsPage,
  metricsPage,
  openapiPage,
  otherLanguagesPage,
  scalePage,
  securityPage,
  seedPage,
  upgradingPage,
  yourApplicationPage,
];

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
    return found;
  });
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
