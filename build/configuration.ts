/** `docs/configuration.md` and `docs/seed.md`: written by hand, but for the tables of keys, which come from the schemas. */
import { keyTable } from "../config/documented-schema.ts";
import { configurationSchema } from "../config/schema.ts";
import { fileSchema } from "../examples/server/config-file.ts";
import { importedAccount } from "../lib/domain/account-schema.ts";
import { entrySettings, serviceSettings } from "../lib/domain/directory.ts";
import { seedClient, seedSchema } from "../lib/seed.ts";
import { type Page, pageWithTables } from "./page.ts";

/** The page of all configuration keys. */
export const configurationPage: Page = pageWithTables("docs/configuration.md", () => ({
  "all keys": keyTable(configurationSchema),
}));

/** The page of the configuration file: `port`, and everything that a seed may hold. */
export const seedPage: Page = pageWithTables("docs/seed.md", () => ({
  "the file": keyTable(fileSchema),
  "the seed": keyTable(seedSchema),
  "portals and groups": keyTable(entrySettings),
  services: keyTable(serviceSettings),
  clients: keyTable(seedClient),
  accounts: keyTable(importedAccount),
}));
