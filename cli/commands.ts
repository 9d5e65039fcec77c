/** All commands, in the order of `--help`. */
import { accountCommands } from "./accounts.ts";
import { auditCommands } from "./audit.ts";
import { clientCommands } from "./clients.ts";
import { completionCommand } from "./completion.ts";
import type { CommandTable } from "./program/command.ts";
import { configCommands } from "./config.ts";
import { deliveryCommands } from "./deliveries.ts";
import { keyCommands } from "./keys.ts";
import { commandsOf } from "./program/operation-command.ts";
import { seedCommands } from "./seed.ts";
import { processCommands } from "./serve.ts";
import { setupCommands } from "./setup.ts";
import { storageCommands } from "./storage.ts";

export const COMMANDS: CommandTable = {
  nouns: {
    accounts: "finds, creates, changes and deletes accounts",
    factors: "lists and removes second factors of accounts",
    identities: "lists, links and unlinks accounts at other providers",
    invitations: "invites people, sends invitations again and withdraws them",
    sessions: "ends sessions and tokens",
    clients: "registers, changes and removes clients",
    services: "edits the services of the directory",
    groups: "edits the groups of services",
    portals: "edits the portals",
    apis: "edits the APIs that clients get tokens for",
    documents: "lists and blocks clients that nobody has registered",
    receivers: "pauses, resumes and tests receivers of notifications",
    deliveries: "finds notifications, and sends them again",
    audit: "reads who did what",
    keys: "rotates the keys that sign ID tokens",
    tokens: "makes and ends tokens for programs that administer over HTTP",
    operators: "confirms second factors of operators",
    config: "checks and prints a configuration",
    seed: "writes the directory and the clients as a seed, and compares a seed with them",
    storage: "copies, checks, renews and indexes storages",
  },
  commands: [
    ...setupCommands,
    ...processCommands,
    ...accountCommands,
    ...commandsOf("invitations"),
    ...clientCommands,
    ...commandsOf("services"),
    ...commandsOf("groups"),
    ...commandsOf("portals"),
    ...commandsOf("apis"),
    ...commandsOf("documents"),
    ...deliveryCommands,
    ...auditCommands,
    ...keyCommands,
    ...commandsOf("tokens"),
    ...commandsOf("operators"),
    ...configCommands,
    ...seedCommands,
    ...storageCommands,
    completionCommand(() => COMMANDS),
  ],
};
