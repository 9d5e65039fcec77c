/** `clients`. All but the secret of a seed comes from the table of operations. */
import type { ClientChanges } from "../accounts/clients/client-schema.ts";
import type { Command } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown, YES } from "./program/on-service.ts";
import { commandsOf } from "./program/operation-command.ts";

async function rotateSecret(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const keepOldFor = args.duration("keep-old-for") ?? 0;
  const client = await service.clients.find(args.operand(0));
  if (client === undefined) throw unknown("client");
  const { client_id } = client;
  if (args.flag("from-seed")) return applySeedsSecret(call, client_id);
  if (keepOldFor === 0)
    await call.confirm(`Replace the secret of ${client_id}? The old one stops working now.`);
  print.record(await service.clients.rotateSecret(client_id, { keepOldFor }, by));
}

/** Sets the secret or the keys that the seed of the configuration names. The seed itself leaves them as they are. */
async function applySeedsSecret(call: Call, client_id: string): Promise<void> {
  const { service, args, print, by, context } = call;
  if (args.has("keep-old-for")) throw misused("--from-seed and --keep-old-for exclude each other");
  const { readProcessConfig } = await import("./server/config-file.ts");
  const { seed } = await readProcessConfig(args, context);
  const named: Pick<ClientChanges, "client_secret" | "jwks"> | undefined = seed?.clients?.find(
    (client) => client.client_id === client_id,
  );
  const { client_secret, jwks } = named ?? {};
  if (client_secret === undefined && jwks === undefined)
    throw new CommandFailure("The seed has no secret and no keys of this client.");
  await call.confirm(`Replace the secret or the keys of ${client_id} with those of the seed?`);
  await service.clients.update(client_id, jwks === undefined ? { client_secret } : { jwks }, by);
  print.done(`The secret or the keys of the seed are set: ${client_id}`, { client_id });
}

export const clientCommands: readonly Command[] = [
  ...commandsOf("clients", { rotateSecret: null }),
  {
    words: ["clients", "rotate-secret"],
    summary: "makes a new secret, and prints it once",
    operands: [{ form: "CLIENT_ID", about: "the client_id" }],
    options: [
      ...SERVICE_OPTIONS,
      {
        form: "--keep-old-for TIME",
        about: "how long the old secrets work, such as 1d; default: not at all",
      },
      { form: "--from-seed", about: "sets the secret, or the keys, of the seed in the configuration" },
      YES,
    ],
    about:
      "A seed never changes the secret or the keys of a client that exists, so that a rotated secret does not come back. With --from-seed this command does: run it after you have changed them in the seed.",
    examples: [
      "clients rotate-secret news --keep-old-for 1d",
      "clients rotate-secret news --from-seed --yes",
    ],
    load: async () => onService(rotateSecret),
  },
];
