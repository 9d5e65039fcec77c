/** All commands, in the order of `--help`. */
import { accountCommands, sessionCommands } from "./accounts.ts";
import type { Command } from "./command.ts";
import { storageCommands } from "./storage.ts";

/** The nouns that commands begin with, and what they are about. */
export const NOUNS: Readonly<Record<string, string>> = {
  accounts: "finds, creates, changes and deletes accounts",
  sessions: "ends sessions and tokens",
  storage: "copies and checks storages",
};

export const COMMANDS: readonly Command[] = [...accountCommands, ...sessionCommands, ...storageCommands];
