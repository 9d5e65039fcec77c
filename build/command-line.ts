/** `docs/reference/command-line.md`: the text is written by hand, the reference of the commands is generated. */
import type { Command, CommandTable, Described } from "../cli/program/command.ts";
import { type Page, pageWithTables } from "./page.ts";

const escaped = (cell: string): string => cell.replaceAll("|", String.raw`\|`);

function table(head: string, rows: readonly Described[]): string {
  return [
    `| ${head} | Meaning |`,
    "| --- | --- |",
    ...rows.map(({ form, about }) => `| \`${escaped(form)}\` | ${escaped(about)} |`),
  ].join("\n");
}

function section({ words, summary, about, operands = [], options = [], examples }: Command): string {
  const call = ["sign-in-service", ...words, ...operands.map(({ form }) => form), "[options]"].join(" ");
  return [
    `### ${words.join(" ")}`,
    `${summary.slice(0, 1).toUpperCase()}${summary.slice(1)}.`,
    ...(about === undefined ? [] : [about]),
    `\`${call}\``,
    ...(operands.length === 0 ? [] : [table("Argument", operands)]),
    table("Option", options),
    ["```sh", ...examples.map((example) => `sign-in-service ${example}`), "```"].join("\n"),
  ].join("\n\n");
}

function chapter({ commands: all }: CommandTable, noun: string, about: string): string {
  const commands = all.filter(({ words: [first, verb] }) => first === noun && verb !== undefined);
  const sentence = `${about.slice(0, 1).toUpperCase()}${about.slice(1)}.`;
  return [`## ${noun}`, sentence].concat(commands.map(section)).join("\n\n");
}

export const commandLinePage: Page = pageWithTables("docs/reference/command-line.md", async () => {
  // Loaded now, because they read the texts that have just been written.
  const { COMMANDS } = await import("../cli/commands.ts");
  const single = COMMANDS.commands.filter(({ words: [, verb] }) => verb === undefined).map(section);
  const chapters = Object.entries(COMMANDS.nouns).map(([noun, about]) => chapter(COMMANDS, noun, about));
  return { "all commands": ["## Commands without a noun", ...single, ...chapters].join("\n\n") };
});
