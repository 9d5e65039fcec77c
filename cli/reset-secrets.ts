/** `keys reset --lost`: makes a storage usable whose `keys.secrets` are lost, and says what is void. */
import type { Configuration } from "../config/configuration.ts";
import { makeSigningKeys } from "../accounts/keys/signing-keys.ts";
import { readSecrets, UNFINISHED } from "../accounts/keys/service-keys.ts";
import { receiverName } from "../accounts/receivers.ts";
import { ConfigurationError, SignInError, StorageMissing } from "../core/errors.ts";
import { createSealer } from "../core/sealing.ts";
import { lackingSecrets } from "../records/secrets.ts";
import type { Storage } from "../records/storage.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { confirmTyped, operator } from "./program/on-service.ts";
import { onStorage } from "./program/open-stores.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";

/** Something that is void, and what follows from that. */
interface Void {
  readonly void: string;
  /** Clients or receivers; empty if it concerns all. */
  readonly of: readonly string[];
  readonly next: string;
}

async function voids({ directory }: Pick<Storage, "directory">): Promise<readonly Void[]> {
  const clients = (await directory.listClients()).filter(({ secrets }) => secrets.length > 0);
  const kinds = ["service", "group", "portal"] as const;
  const receivers = await Promise.all(
    kinds.map(async (kind) =>
      (await directory.listEntries(kind)).flatMap(({ key, receiver }) =>
        receiver === null ? [] : [receiverName(kind, key)],
      ),
    ),
  );
  return [
    { void: "signing keys", of: [], next: "nothing: new ones sign, and clients fetch them" },
    {
      void: "client secrets",
      of: clients.map(({ client_id }) => client_id),
      next: "clients rotate-secret, with --from-seed for those of the seed",
    },
    {
      void: "credentials of receivers",
      of: receivers.flat(),
      next: "services put --receiver, or groups or portals; a start with the seed sets those of the seed",
    },
    { void: "authenticator apps", of: [], next: "people add them again; until then the password is enough" },
    { void: "recovery codes", of: [], next: "people make new ones on their account page" },
    {
      void: "waiting mails",
      of: [],
      next: "people ask again for what they did not get, as for codes and links",
    },
    { void: "payloads of notifications", of: [], next: "deliveries list --state parked: tell the receivers" },
    { void: "sessions and tokens", of: [], next: "people sign in again, and clients with them" },
    { void: "the index of the search for people", of: [], next: "storage reindex, when the servers run" },
    { void: "what the seed remembers", of: [], next: "remove from the seed what must not be made again" },
  ];
}

/** The ids of the secrets that are there. None without a key file. */
async function presentIds(configuration: Configuration): Promise<readonly string[]> {
  try {
    return createSealer(await readSecrets(configuration, true)).ids;
  } catch (error) {
    if (error instanceof SignInError && error.code === "unusable_secrets") return [];
    throw error;
  }
}

async function reset(
  configuration: Configuration,
  storage: Storage,
  { args, context }: { readonly args: Arguments; readonly context: CommandContext },
): Promise<void> {
  const { signal, out, err } = context;
  const { directory, secrets, renewals } = storage;
  const [known, unfinished] = await Promise.all([secrets.read(), directory.unfinished()]);
  if (known.length === 0) throw new StorageMissing("no server has used this storage yet");
  if (unfinished !== undefined && unfinished !== "reset")
    throw new ConfigurationError([`config.storage: ${UNFINISHED[unfinished]}`]);
  if (unfinished === undefined && lackingSecrets(known, await presentIds(configuration)).length === 0)
    throw new CommandFailure("keys.secrets has all secrets that the storage needs. Nothing was changed.");
  await confirmTyped(
    "Is a secret lost for good, and is every server and worker stopped? All sessions, tokens, client secrets and authenticator apps become void.",
    "lost",
    args,
    context,
  );
  const sealer = createSealer(await readSecrets(configuration, false));
  const progress = new Progress(err);
  try {
    // From here on no service starts, until it is finished.
    await renewals.renew({
      event: { actor: operator(), action: "secrets.reset" },
      makeKeys: (algorithms, now) => makeSigningKeys(sealer, algorithms, now),
      beforeEnd: () => secrets.reset(sealer.ids[0] ?? ""),
      signal,
      onProgress: (kind, count) => progress.update(`renewing ${kind}`, count),
    });
    progress.clear();
    new Printer(out, args.flag("json")).rows(await voids(storage), ["void", "of", "next"]);
    err.write(
      "Accounts, password hashes, passkeys and assignments are as they were. Start the servers and workers, and see docs/operate/runbooks/lost-secrets.md.\n",
    );
  } finally {
    progress.clear();
  }
}

export const runReset: Run = async (args, context) => {
  if (!args.flag("lost"))
    throw misused("This makes everything void that is sealed: if keys.secrets are lost for good, add --lost");
  await onStorage(args, context, (configuration, storage) =>
    reset(configuration, storage, { args, context }),
  );
  return 0;
};
