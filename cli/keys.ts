/** `keys`: the keys that sign ID tokens. */
import type { Command } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";
import { Printer } from "./program/printer.ts";
import { type Call, onService, SERVICE_OPTIONS, YES } from "./program/on-service.ts";

const COLUMNS = [
  "kid",
  "alg",
  "state",
  "published_at",
  "signs_from",
  "retires_at",
  "published_until",
] as const;

const SECRET_COLUMNS = ["id", "state", "position", "known_since"] as const;

async function list({ service, args, print, context }: Call): Promise<void> {
  print.rows(await service.keys.list(), COLUMNS);
  if (!args.flag("json")) context.out.write("\n");
  new Printer(context.out, args.flag("json")).rows(await service.keys.secrets(), SECRET_COLUMNS);
}

async function rotate({ service, args, print, by }: Call): Promise<void> {
  if (args.operand(0) !== "signing") throw misused("Only the keys named signing can be rotated");
  print.rows(await service.keys.rotate(by), COLUMNS);
}

async function retire(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const kid = args.operand(0);
  if (!args.flag("now"))
    throw misused(
      "A key retires automatically after keys rotate. To refuse what it has signed immediately, add --now",
    );
  await call.confirmTyped("Everything that this key has signed will be refused from now on.", kid);
  await service.keys.retire(kid, by);
  print.done(`Retired: ${kid}`, { kid });
}

export const keyCommands: readonly Command[] = [
  {
    words: ["keys", "list"],
    summary: "lists the keys that sign ID tokens, and the ids of keys.secrets, the oldest first",
    about: `A secret is shown as an id, which reveals nothing of it, with its place in keys.secrets: the newest has to be the first, a
needed one must not be removed before keys reseal has finished, a replaced one can be removed.`,
    options: SERVICE_OPTIONS,
    examples: ["keys list"],
    load: async () => onService(list),
  },
  {
    words: ["keys", "rotate"],
    summary: "creates new signing keys, which start signing in an hour",
    about:
      "A new key is published immediately. The old one stays published until nothing that it has signed can be used.",
    operands: [{ form: "KEYS", about: "signing" }],
    options: SERVICE_OPTIONS,
    examples: ["keys rotate signing"],
    load: async () => onService(rotate),
  },
  {
    words: ["keys", "retire"],
    summary: "removes a compromised key immediately",
    about:
      "What the key has signed is refused from now on. If it is the signing key, the next one takes over. On a terminal, you type the KID again to confirm.",
    operands: [{ form: "KID", about: "the key, as keys list shows it" }],
    options: [...SERVICE_OPTIONS, { form: "--now", about: "required: it can't be undone" }, YES],
    examples: ["keys retire KID --now --yes"],
    load: async () => onService(retire),
  },
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
