/** `docs/configuration.md` and `docs/seed.md`: the text is written by hand, the tables are generated from the schemas. */
import { keyTable } from "../config/documented-schema.ts";
import { configurationSchema } from "../config/schema.ts";
import { documentedVariable } from "../config/variables.ts";
import { fileSchema } from "../config/file-schema.ts";
import { importedAccount } from "../accounts/account-schema.ts";
import { entrySettings, serviceSettings } from "../accounts/directory.ts";
import { seedClient, seedSchema } from "../lib/seed.ts";
import { type Page, pageWithTables } from "./page.ts";

/** All keys of the configuration. */
export const configurationPage: Page = pageWithTables("docs/configuration.md", () => ({
  "all keys": keyTable(configurationSchema, documentedVariable),
}));

/** The keys of the configuration file: `port`, and the contents of a seed. */
export const seedPage: Page = pageWithTables("docs/seed.md", () => ({
  "the file": keyTable(fileSchema, documentedVariable),
  "the seed": keyTable(seedSchema),
  "portals and groups": keyTable(entrySettings),
  services: keyTable(serviceSettings),
  clients: keyTable(seedClient),
  accounts: keyTable(importedAccount),
}));
