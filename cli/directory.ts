/** `services`, `groups` and `portals`: the entries of the directory, each with its receiver of notifications. */
import type { Entries, Entry, EntrySettings, ServiceEntry, ServiceSettings } from "../accounts/directory.ts";
import type { SignInService } from "../lib/service.ts";
import type { Command, CommandOption, CommandContext } from "./program/command.ts";
import { objectIn, readJsonObject } from "./program/json-file.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown, YES } from "./program/on-service.ts";

type Noun = "services" | "groups" | "portals";

const SINGULAR = { services: "service", groups: "group", portals: "portal" } as const;

const KEY = { form: "KEY", about: "1 to 64 of A-Z a-z 0-9 _ -" };

const RECEIVER_ABOUT = `The file of --receiver is a JSON object with url, client_id, client_secret, types and, to sign notifications, signing_secret.
The whole entry is replaced: without --receiver, it has none afterwards. The command asks before it removes a receiver, a
group or roles.`;

const groupOption: CommandOption = {
  form: "--group KEY",
  about: "the group that it belongs to; default: none",
};

const rolesOption: CommandOption = {
  form: "--roles ROLES",
  about: "the roles that people can have there, separated by commas; default: none",
};

function entriesOf(
  { directory }: SignInService,
  noun: Noun,
): Entries<ServiceSettings | EntrySettings, Entry> {
  return directory[noun];
}

/** The receiver of a file, or of standard input for `-`. The library checks it. */
async function readReceiver(path: string, { readInput }: CommandContext): Promise<unknown> {
  return path === "-" ? objectIn(await readInput(), "standard input") : readJsonObject(path);
}

/** Settings of the entry that the change would remove. */
function losses(before: Entry | undefined, settings: ServiceSettings): string[] {
  if (before === undefined) return [];
  const { group, roles = [] } = before as Entry & Partial<ServiceEntry>;
  return [
    ...(before.receiver !== null && settings.receiver === undefined ? ["receiver"] : []),
    ...(typeof group === "string" && settings.group === undefined ? ["group"] : []),
    ...(roles.some((role) => !settings.roles?.includes(role)) ? ["roles"] : []),
  ];
}

async function put(call: Call, noun: Noun): Promise<void> {
  const { service, args, print, by, context } = call;
  const key = args.operand(0);
  const entries = entriesOf(service, noun);
  const before = await entries.find(key);
  const [path, group, roles] = [args.text("receiver"), args.text("group"), args.text("roles")];
  const receiver = path === undefined ? undefined : await readReceiver(path, context);
  const settings: ServiceSettings = {
    name: args.text("name") ?? before?.name ?? args.required("name"),
    ...(receiver !== undefined && { receiver: receiver as NonNullable<ServiceSettings["receiver"]> }),
    ...(group !== undefined && { group }),
    ...(roles !== undefined && { roles: roles.split(",").filter((role) => role !== "") }),
  };
  const lost = losses(before, settings);
  if (lost.length > 0) await call.confirm(`Remove the ${lost.join(" and the ")} of ${key}?`);
  print.record(await entries.put(key, settings, by));
}

async function remove(call: Call, noun: Noun): Promise<void> {
  const { service, args, print, by } = call;
  const key = args.operand(0);
  const entries = entriesOf(service, noun);
  if ((await entries.find(key)) === undefined) throw unknown(SINGULAR[noun]);
  await call.confirm(`Remove the ${SINGULAR[noun]} ${key}?`);
  if (!(await entries.remove(key, by))) throw unknown(SINGULAR[noun]);
  print.done(`Removed: ${key}`, { key });
}

/** The four commands of a noun. @param key an entry for the examples. @param spare one that nothing refers to. */
function commandsOf(noun: Noun, key: string, spare: string): readonly Command[] {
  const one = SINGULAR[noun];
  const hasGroup = noun === "services";
  return [
    {
      words: [noun, "put"],
      summary: `creates a ${one}, or replaces it entirely`,
      about: RECEIVER_ABOUT,
      operands: [KEY],
      options: [
        ...SERVICE_OPTIONS,
        { form: "--name NAME", about: "display name; required for a new one" },
        ...(hasGroup ? [groupOption, rolesOption] : []),
        { form: "--receiver FILE", about: "its receiver as JSON, or - for standard input; default: none" },
        YES,
      ],
      examples: [
        `${noun} put ${key} --name News ${hasGroup ? "--group media --roles editor,author " : ""}--receiver receiver.json`,
      ],
      load: async () => onService((call) => put(call, noun)),
    },
    {
      words: [noun, "find"],
      summary: `shows a ${one}, and its receiver without the secrets`,
      operands: [KEY],
      options: SERVICE_OPTIONS,
      examples: [`${noun} find ${key}`],
      load: async () =>
        onService(async ({ service, args, print }) => {
          const entry = await entriesOf(service, noun).find(args.operand(0));
          if (entry === undefined) throw unknown(one);
          print.record(entry);
        }),
    },
    {
      words: [noun, "list"],
      summary: `lists all ${noun}`,
      options: SERVICE_OPTIONS,
      examples: [`${noun} list`],
      load: async () =>
        onService(async ({ service, print }) => {
          const all = await entriesOf(service, noun).list();
          print.rows(all, ["key", "name", "receiver"]);
        }),
    },
    {
      words: [noun, "remove"],
      summary: `removes a ${one} that nothing refers to`,
      operands: [KEY],
      options: [...SERVICE_OPTIONS, YES],
      examples: [`${noun} remove ${spare} --yes`],
      load: async () => onService((call) => remove(call, noun)),
    },
  ];
}

export const directoryCommands: readonly Command[] = [
  ...commandsOf("services", "news", "weather"),
  ...commandsOf("groups", "media", "sports"),
  ...commandsOf("portals", "main", "old"),
];
