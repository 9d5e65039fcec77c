/** `keys reseal`: encrypts all sealed values again, beside running services. */
import type { Configuration } from "../config/configuration.ts";
import { readConfiguration } from "../config/read.ts";
import type { RewritingRun } from "../records/rewriting.ts";
import { openSealer } from "../accounts/keys/service-keys.ts";
import { isResealPending } from "../records/secrets.ts";
import { storageOver } from "../records/storage.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { CommandFailure } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { operator } from "./program/on-service.ts";
import { openAddressed } from "./program/open-stores.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";
import { readSettings, refuseMemory } from "./program/settings.ts";

const UNREADABLE =
  "Some records were sealed with a secret that is not in keys.secrets. Add it at the end, and run keys reseal again.";

async function reseal(
  configuration: Configuration,
  { args, context }: { readonly args: Arguments; readonly context: CommandContext },
): Promise<void> {
  const { clock, storage: address } = configuration;
  const { signal, out, err } = context;
  const print = new Printer(out, args.flag("json"));
  const options = { name: "The storage", mustExist: true, onWarning: () => undefined };
  // Nothing in Redis is sealed with these secrets.
  const stores = await openAddressed({ storage: address, artifacts: undefined, secrets: "" }, options, clock);
  const progress = new Progress(err);
  try {
    const storage = storageOver(stores.storage, configuration);
    const sealer = await openSealer(configuration, storage, { mustExist: true, asConfigured: true });
    const run: RewritingRun = {
      signal,
      onProgress: (kind, done) => progress.update(`looking at ${kind}`, done),
    };
    if (args.flag("check")) {
      const found = await storage.sealed.outdated(sealer, run);
      progress.clear();
      print.done(`Not sealed with the first secret: ${found.old + found.unreadable} records`, found);
      if (found.unreadable > 0) throw new CommandFailure(UNREADABLE);
      if (found.old > 0 || isResealPending(await storage.secrets.read(), sealer.ids))
        throw new CommandFailure("Run keys reseal before you remove a secret.");
      return;
    }
    // Nothing else may seal with the one before: a server that starts with it would leave something behind.
    await storage.secrets.admit(sealer.ids);
    await storage.audit.append({ actor: operator(), action: "secrets.reseal" });
    const done = await storage.sealed.reseal(sealer, run);
    progress.clear();
    print.done(`Re-encrypted: ${done.resealed} records`, done);
    if (done.unreadable > 0) throw new CommandFailure(UNREADABLE);
  } finally {
    progress.clear();
    await stores.close();
  }
}

export const runReseal: Run = async (args, context) => {
  const { config, explain } = await readSettings(args, context);
  const configuration = await explain(async () => readConfiguration(config));
  refuseMemory(configuration.storage);
  await reseal(configuration, { args, context });
  return 0;
};
