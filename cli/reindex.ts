/** `storage reindex`: builds the index of the search for people, beside running services. */
import { openSearchKey } from "../accounts/keys/service-keys.ts";
import { buildSearchIndex } from "../accounts/search/search-index.ts";
import { readConfiguration } from "../config/read.ts";
import { BY_NUMBER } from "../records/directory/directory-kinds.ts";
import { storageOver } from "../records/storage.ts";
import type { Run } from "./program/command.ts";
import { operator } from "./program/on-service.ts";
import { openAddressed } from "./program/open-stores.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";
import { readSettings, refuseMemory } from "./program/settings.ts";

export const runReindex: Run = async (args, context) => {
  const { config, explain } = await readSettings(args, context);
  const configuration = await explain(async () => readConfiguration(config));
  const { clock, storage: address } = configuration;
  refuseMemory(address);
  const options = { name: "The storage", mustExist: true, onWarning: () => undefined };
  // Artifacts are not searched.
  const stores = await openAddressed({ storage: address, artifacts: undefined, secrets: "" }, options, clock);
  const progress = new Progress(context.err);
  try {
    const storage = storageOver(stores.storage, configuration);
    const key = await openSearchKey(configuration, storage);
    const [total] = await stores.storage.count([{ ...BY_NUMBER, limit: Number.MAX_SAFE_INTEGER }]);
    const accounts = await buildSearchIndex(storage, key, {
      signal: context.signal,
      onProgress: (done) => progress.update("indexing accounts", done, total),
      event: { actor: operator(), action: "storage.reindexed" },
    });
    progress.clear();
    new Printer(context.out, args.flag("json")).done(`Indexed: ${accounts} accounts`, { accounts });
    return 0;
  } finally {
    progress.clear();
    await stores.close();
  }
};
