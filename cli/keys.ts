/** `keys`: the keys that sign ID tokens, and the secrets that seal. */
import type { Command } from "./program/command.ts";
import { type Call, SERVICE_OPTIONS, YES } from "./program/on-service.ts";
import { commandsOf } from "./program/operation-command.ts";
import { Printer } from "./program/printer.ts";
import { keys } from "../accounts/operations/keys.ts";

/** Two tables: a person who rotates secrets looks at both. */
async function list({ service, args, print, context }: Call): Promise<void> {
  const { list: forSigning, secrets: forSealing } = keys.rows;
  const limit = args.count("limit") ?? 1_000;
  print.rows((await service.keys.list({ limit })).items, forSigning.columns);
  if (!args.flag("json")) context.out.write("\n");
  const { items } = await service.keys.secrets({ limit });
  new Printer(context.out, args.flag("json")).rows(items, forSealing.columns);
}

export const keyCommands: readonly Command[] = [
  ...commandsOf("keys", { list }),
  {
    words: ["keys", "reseal"],
    summary: "re-encrypts all stored secrets with the first of keys.secrets",
    about: `First put a new secret before the others in the configuration of every process. Remove the old one only after this command
has finished: until then, no service starts without it. Services can keep running. After an interruption or a crash, run the
same command again.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--check", about: "changes nothing; exits with 1 if another secret is still needed" },
    ],
    examples: ["keys reseal", "keys reseal --check"],
    load: async () => (await import("./reseal.ts")).runReseal,
  },
  {
    words: ["keys", "reset"],
    summary: "makes a storage usable whose keys.secrets are lost, and prints what is void",
    about: `Only for the case that a secret is lost for good: with a copy of it, add it again. Set new keys.secrets first, and stop every server and
worker. Signing keys, client secrets, credentials of receivers, authenticator apps, recovery codes, waiting mails, payloads of
notifications, sessions and tokens become void; the command lists what to set again. Accounts, password hashes, passkeys and
assignments stay. After an interruption or a crash, run the same command again: until it has finished, no service starts.`,
    options: [...SERVICE_OPTIONS, { form: "--lost", about: "required: it can't be undone" }, YES],
    examples: ["keys reset --lost"],
    load: async () => (await import("./reset-secrets.ts")).runReset,
  },
];
