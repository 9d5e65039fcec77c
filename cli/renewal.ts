/** `storage restored` and `storage promoted`: after a restore by the tools of a database, and after a standby took over. */
import type { Configuration } from "../config/configuration.ts";
import { makeSigningKeys } from "../accounts/keys/signing-keys.ts";
import { openSealer } from "../accounts/keys/service-keys.ts";
import type { Storage } from "../records/storage.ts";
import type { Run, CommandContext } from "./program/command.ts";
import type { Arguments } from "./program/arguments.ts";
import { confirm, operator } from "./program/on-service.ts";
import { onStorage } from "./program/open-stores.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";

type Action = "storage.restored" | "storage.promoted";

const ENDED = `Sessions, tokens, codes, links, recovery codes and remembered browsers have ended, and new keys sign.
Notifications and mail are held. Look at them with deliveries list --state waiting, and then run deliveries resume.
`;

const AGAIN = `Do again what operators did since then: disabled, deleted and blocked accounts, disabled and removed clients, rotated client
secrets, retired signing keys, and other changes of the directory. An audit that you keep elsewhere names them.
`;

/** What an operator has to know about a storage that has gone back. @param since seconds since the epoch; `null`: unknown. */
export function notesAbout(since: number | null, { keys }: Pick<Configuration, "keys">): string {
  const missing =
    since === null
      ? "What was written last may be missing."
      : `What was written after ${new Date(since * 1000).toISOString()} may be missing.`;
  const own =
    keys.signing === undefined
      ? ""
      : "The keys of keys.signing in the configuration still sign: remove those that you have retired.\n";
  return `${missing}\n${ENDED}${own}${AGAIN}`;
}

interface Renewing {
  readonly action: Action;
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly args: Arguments;
  readonly context: CommandContext;
}

/** Notes that the storage is complete: nothing ends. */
async function acceptAsItIs({ action, storage, args, context }: Renewing): Promise<void> {
  const event = { actor: operator(), action, detail: { nothing_lost: true } };
  await storage.watch.accept({ isRestored: false, audit: storage.audit.recordOf(event) });
  new Printer(context.out, args.flag("json")).done("Noted: nothing is missing, and nothing has ended", {
    nothing_lost: true,
  });
}

async function renew({ action, configuration, storage, args, context }: Renewing): Promise<void> {
  const { signal, out, err } = context;
  const sealer = await openSealer(configuration, storage, { mustExist: true, isRenewing: true });
  await confirm("End all sessions and tokens, and hold all notifications and mail?", args, context);
  const before = await storage.watch.read();
  const progress = new Progress(err);
  try {
    const done = await storage.renewals.renew({
      event: { actor: operator(), action },
      makeKeys: (algorithms, now) => makeSigningKeys(sealer, algorithms, now),
      signal,
      onProgress: (kind, count) => progress.update(`renewing ${kind}`, count),
    });
    progress.clear();
    new Printer(out, args.flag("json")).done(`Renewed: ${done.records} records`, done);
    err.write(notesAbout(done.since, configuration));
    if (action === "storage.restored" && configuration.artifacts !== configuration.storage)
      err.write(
        `Restart all servers: what Redis holds under the id ${before?.id ?? "of before"} is not used any more.\n`,
      );
  } finally {
    progress.clear();
  }
}

const runAs =
  (action: Action): Run =>
  async (args, context) => {
    await onStorage(args, context, async (configuration, storage) => {
      const renewing = { action, configuration, storage, args, context };
      await (action === "storage.promoted" && args.flag("nothing-lost")
        ? acceptAsItIs(renewing)
        : renew(renewing));
    });
    return 0;
  };

export const runRestored: Run = runAs("storage.restored");
export const runPromoted: Run = runAs("storage.promoted");
