/** `seed`: writes the directory and the clients as a seed, and compares a seed with them. */
import { dirname } from "node:path";
import { CLIENT_ROWS } from "../accounts/clients/client-settings.ts";
import { ConfigurationError } from "../core/errors.ts";
import type { Command } from "./program/command.ts";
import { CommandFailure } from "./program/command-failure.ts";
import { readJsonObject } from "./program/json-file.ts";
import { createWhole, requireAbsent } from "./program/new-file.ts";
import { type Call, onService, SERVICE_OPTIONS } from "./program/on-service.ts";
import { jsonText, printable } from "./program/printable.ts";

const partsOf = ({ clients, directory }: Call["service"]) => ({
  clients,
  directory,
  clientRows: CLIENT_ROWS,
});

async function exportFile({ service, args, context, print }: Call): Promise<void> {
  const { exportSeed } = await import("../lib/seed-export.ts");
  const { seed, disabled, withLogo } = await exportSeed(partsOf(service));
  const text = jsonText({ seed });
  const file = args.text("output");
  if (file === undefined) context.out.write(text);
  else {
    await requireAbsent(file);
    await createWhole(file, (handle) => handle.writeFile(text));
    print.done(`Exported: ${file}`, { file });
  }
  const tell = (what: string, clients: readonly string[]): void => {
    if (clients.length > 0) context.err.write(`${what}: ${printable(clients.join(", "))}\n`);
  };
  tell("Left out, because a seed would register them enabled", disabled);
  tell("Without their logos, whose paths a seed names", withLogo);
}

async function diff({ service, args, print }: Call): Promise<void> {
  const [{ compareSeed }, { withLogos }] = await Promise.all([
    import("../lib/seed-export.ts"),
    import("./server/config-file.ts"),
  ]);
  const file = args.operand(0);
  const { seed } = await readJsonObject(file);
  if (seed === undefined) throw new CommandFailure(`${file} has no seed.`, { code: "invalid_argument" });
  const problems: string[] = [];
  const read = await withLogos(seed, dirname(file), problems);
  if (problems.length > 0) throw new ConfigurationError(problems);
  const differences = await compareSeed(partsOf(service), read);
  if (differences.length > 0) {
    print.rows(differences, ["difference", "kind", "name", "members"]);
    throw new CommandFailure("The seed and the service differ.");
  }
  if (!args.flag("json")) print.done("The seed and the service are the same.", {});
}

export const seedCommands: readonly Command[] = [
  {
    words: ["seed", "export"],
    summary: "writes the directory and the clients as the seed of a configuration, without secrets",
    about: `Writes a JSON object with the key seed: portals, groups, services, APIs and clients, in an order that depends on nothing else. In place
of a secret it has null, which a seed takes: what exists keeps its secrets, and what is new waits for some. Accounts, disabled clients and
logos are left out.`,
    options: [...SERVICE_OPTIONS, { form: "--output FILE", about: "the new file; default: standard output" }],
    examples: ["seed export", "seed export --output seed.json"],
    load: async () => onService(exportFile),
  },
  {
    words: ["seed", "diff"],
    summary: "compares a seed with the directory and the clients",
    about: `Prints a line for each difference: what is missing in the service, what was added to it, and what was changed, with the names of the
members. Of a client, the members that the seed names are compared. Secrets and accounts are not. The exit code is 1 if there are
differences.`,
    operands: [
      {
        form: "FILE",
        about: "a JSON file with the key seed: a configuration, or what seed export has written",
      },
    ],
    options: SERVICE_OPTIONS,
    examples: ["seed diff seed.json", "seed diff sign-in.json --json"],
    load: async () => onService(diff),
  },
];
