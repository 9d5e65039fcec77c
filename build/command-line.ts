/** The reference of the command line: an overview, and a page for each noun. What commands have in common is said once. */
import type { Command, Described } from "../cli/program/command.ts";
import { YES } from "../cli/program/on-service.ts";
import { type Folder, type Page, pageWithTables, table } from "./page.ts";

const OVERVIEW = "docs/reference/command-line.md";
const FOLDER = OVERVIEW.replace(".md", "");

/** The page of the commands that have no noun. */
const WITHOUT_NOUN = "server";

/** The overview explains them. */
const GLOBAL: ReadonlySet<string> = new Set([
  "--config FILE: the JSON configuration; default: SIGN_IN_CONFIG, then sign-in.json in this folder",
  "--json: prints one JSON object per line",
]);

/** Commands whose options are members of a seed as well: the pages that explain those. */
const MEMBERS: Readonly<Record<string, string>> = {
  accounts: "[field of an account](../seed.md#accounts)",
  apis: "[setting of an API](../seed.md#apis)",
  clients: "[setting of a client](../client-settings.md#settings)",
  groups: "[setting of a group](../seed.md#services-groups-and-portals)",
  portals: "[setting of a portal](../seed.md#services-groups-and-portals)",
  services: "[setting of a service](../seed.md#services-groups-and-portals)",
};
const CREATE: ReadonlySet<string> = new Set(["create", "put", "register"]);

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
const code = ({ form }: Described): string => `\`${form}\``;
const keyOf = ({ form, about }: Described): string => `${form}: ${about}`;

const listOf = (rows: readonly Described[]): string =>
  rows.map((row) => `- ${code(row)}: ${row.about}`).join("\n");

/** What is left of the meaning of an option without its default. */
const meaning = (about: string): string => about.replace(/;.*/u, "");

/** Whether the page of the members of a seed explains an option. */
function memberOf(commands: readonly Command[]): (command: Command, row: Described) => boolean {
  const members = new Map(
    commands
      .filter(({ words: [noun, verb = ""] }) => noun in MEMBERS && CREATE.has(verb))
      .flatMap(({ options = [] }) => options.map(({ form, about }) => [form, meaning(about)] as const)),
  );
  return ({ words: [, verb = ""] }, { form, about }) =>
    (CREATE.has(verb) || verb === "update") &&
    !about.startsWith(YES.about) &&
    members.get(form) === meaning(about);
}

/** The page of the commands of a noun. */
function pageOf(commands: readonly Command[], title: string, about: string): string {
  const isMember = memberOf(commands);
  const rowsOf = (command: Command): readonly Described[] =>
    [...(command.operands ?? []), ...(command.options ?? [])].filter(
      (row) => !GLOBAL.has(keyOf(row)) && !isMember(command, row),
    );
  const every = commands.flatMap(rowsOf);
  const counts = Map.groupBy(every, keyOf);
  const shared = [...counts.values()].flatMap(([first, ...more]) => (more.length > 0 ? [first!] : []));
  const isShared = (row: Described): boolean => (counts.get(keyOf(row))?.length ?? 0) > 1;

  function section(command: Command): string {
    const { words, summary, about: more, operands = [], options = [], examples } = command;
    const name = words.join(" ");
    const rows = rowsOf(command);
    const call = [name, ...operands.map(({ form }) => form)].join(" ");
    const own = rows.filter((row) => !isShared(row));
    const others = rows.filter(isShared).map(code);
    return [
      `## ${name}`,
      sentence(summary),
      ...(more === undefined ? [] : [more]),
      ...(options.some((row) => isMember(command, row)) ? [`Each ${MEMBERS[words[0]]} is an option.`] : []),
      ["```sh", ...examples.map((example) => `sign-in-service ${example}`), "```"].join("\n"),
      ...(operands.length > 1 ? [`In this order: \`${call}\`.`] : []),
      ...(own.length > 0 ? [listOf(own)] : []),
      ...(others.length > 0 ? [`Also: ${others.join(", ")}.`] : []),
    ].join("\n\n");
  }

  return [
    `# ${title}`,
    about,
    `With \`--config\` and \`--json\`, as [every command](../command-line.md).`,
    ...(shared.length > 0 ? ["## Shared arguments and options", listOf(shared)] : []),
    ...commands.map(section),
    "",
  ].join("\n\n");
}

/** The pages: their names, titles and commands. Loaded late, because commands read the texts that have just been written. */
async function pagesOf(): Promise<
  readonly {
    readonly name: string;
    readonly title: string;
    readonly about: string;
    readonly commands: readonly Command[];
  }[]
> {
  const { COMMANDS } = await import("../cli/commands.ts");
  const single = COMMANDS.commands.filter(({ words: [, verb] }) => verb === undefined);
  const names = single.map(({ words: [word] }) => `\`${word}\``);
  return [
    {
      name: WITHOUT_NOUN,
      title: "Setup and processes",
      about: `The commands without a noun: ${names.join(", ")}.`,
      commands: single,
    },
    ...Object.entries(COMMANDS.nouns).map(([noun, about]) => ({
      name: noun,
      title: `Command line: ${noun}`,
      about: sentence(about),
      commands: COMMANDS.commands.filter(({ words: [first, verb] }) => first === noun && verb !== undefined),
    })),
  ];
}

const anchorOf = ({ words }: Command): string => words.join("-");

export const commandLinePage: Page = pageWithTables(OVERVIEW, async () => ({
  "all commands": table(
    ["Page", "Commands"],
    (await pagesOf()).map(({ name, commands }) => [
      `[${name}](command-line/${name}.md)`,
      commands.map((each) => `[${each.words.at(-1)}](command-line/${name}.md#${anchorOf(each)})`).join(", "),
    ]),
  ),
}));

export const commandPages: Folder = {
  folder: FOLDER,
  async generateAll() {
    const all = await pagesOf();
    return new Map(
      all.map(({ name, title, about, commands }) => [`${name}.md`, pageOf(commands, title, about)]),
    );
  },
};
