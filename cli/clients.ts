/** `clients`. All but the secret of a seed comes from the table of operations. */
import type { ClientChanges } from "../accounts/clients/client-schema.ts";
import type { Command } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import { type Call, unknown } from "./program/on-service.ts";
import { commandsOf, type Read } from "./program/operation-command.ts";

async function rotateSecret(call: Call, { target: [client_id = ""], input }: Read): Promise<void> {
  const { service, args, print, by } = call;
  if ((await service.clients.find(client_id)) === undefined) throw unknown("client");
  if (args.flag("from-seed")) return applySeedsSecret(call, client_id);
  if (!input["keepOldFor"])
    await call.confirm(`Replace the secret of ${client_id}? The old one stops working now.`);
  print.record(await service.clients.rotateSecret(client_id, input, by));
}

/** Sets the secret or the keys that the seed of the configuration names. The seed itself leaves them as they are. */
async function applySeedsSecret(call: Call, client_id: string): Promise<void> {
  const { service, args, print, by, context } = call;
  if (args.has("keep-old-for")) throw misused("--from-seed and --keep-old-for exclude each other");
  const { readProcessConfig } = await import("./server/config-file.ts");
  const { seed } = await readProcessConfig(args, context);
  const named = seed?.clients?.find((client) => client.client_id === client_id);
  const { client_secret = null, jwks } = named ?? {};
  if (client_secret === null && jwks === undefined)
    throw new CommandFailure("The seed has no secret and no keys of this client.");
  const changes: ClientChanges = client_secret === null ? { jwks } : { client_secret };
  await call.confirm(`Replace the secret or the keys of ${client_id} with those of the seed?`);
  await service.clients.update(client_id, changes, by);
  print.done(`The secret or the keys of the seed are set: ${client_id}`, { client_id });
}

const FROM_SEED = {
  form: "--from-seed",
  about: "sets the secret, or the keys, of the seed in the configuration",
};
const ABOUT_SEED =
  "A seed never changes the secret or the keys of a client that exists, so that a rotated secret does not come back. With --from-seed this command does: run it after you have changed them in the seed.";

function withSeed(command: Command): Command {
  const { words, about = "", options = [], examples } = command;
  if (words[1] !== "rotate-secret") return command;
  return {
    ...command,
    about: `${about}\n\n${ABOUT_SEED}`,
    options: [...options, FROM_SEED],
    examples: [...examples, "clients rotate-secret news --from-seed --yes"],
  };
}

export const clientCommands: readonly Command[] = commandsOf("clients", { rotateSecret }).map(withSeed);
