/** A person at a terminal who follows a document, in an empty folder. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect } from "@jest/globals";
import { type Block, blocksOf } from "./documents.ts";
import { bareEnvironment, freePorts, type Running, startProgram } from "./processes.ts";

export interface Step {
  /** The document, and the line of its block. */
  readonly at: string;
  readonly command: string;
  /** What it prints: `…` is anything, and a word in capitals is a value that later commands use. */
  readonly prints: string;
}

/** The commands of the console blocks of a document. */
export function stepsOf(document: string): readonly Step[] {
  return blocksOf(document)
    .filter(({ language }) => language === "console")
    .flatMap(({ at, code }) =>
      code
        .split(/^\$ /mu)
        .slice(1)
        .map((part) => {
          const [command = "", ...prints] = part.trimEnd().split("\n");
          return { at, command, prints: prints.join("\n") };
        }),
    );
}

/** What a reader fills in. */
const VALUE = /\b(?:SUB|CODE|CLIENT_SECRET|API_SECRET|JOB_SECRET|NOTES_SECRET|ACCESS_TOKEN)\b(?!=)/gu;

/** The ports of the documents. */
const PORTS = ["3000", "3001", "3002", "3003", "5173"];

const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`);

/** The printed text as an expression with a group for each value. */
function expression(prints: string): RegExp {
  const escaped = literal(prints)
    .replaceAll(/^…\n?/gmu, String.raw`[^]*?`)
    .replaceAll("…", ".*?")
    .replaceAll(/ +/gu, " +")
    .replaceAll(VALUE, (name) => String.raw`(?<${name}>[\w.~-]+)`);
  return new RegExp(`^${escaped}\n*$`, "u");
}

export class Reader {
  readonly values: Map<string, string> = new Map();
  readonly #servers: Running[] = [];
  #folder: string;
  readonly #bin: string;
  /** Those of the documents → free ones. */
  readonly #ports: ReadonlyMap<string, string>;

  private constructor(
    work: string,
    port: number,
    { programs, folder }: { readonly programs: Readonly<Record<string, string>>; readonly folder: string },
  ) {
    this.#bin = join(work, "bin");
    this.#folder = join(work, folder);
    this.#ports = new Map(PORTS.map((each, index) => [each, `${port + index}`]));
    for (const each of [this.#bin, this.#folder]) mkdirSync(each, { recursive: true });
    for (const [name, script] of Object.entries(programs)) {
      writeFileSync(join(this.#bin, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(this.#bin, name), 0o755);
    }
  }

  /**
   * @param work an empty folder.
   * @param programs shell scripts that the terminal finds before others, by name.
   * @param folder where the terminal opens, below `work`.
   */
  static async at(
    work: string,
    programs: Readonly<Record<string, string>>,
    folder: string = "sign-in",
  ): Promise<Reader> {
    return new Reader(work, await freePorts(PORTS.length), { programs, folder });
  }

  get folder(): string {
    return this.#folder;
  }

  /** Text from a document, with this reader's values and ports. */
  filled(written: string): string {
    return written
      .replaceAll(VALUE, (name) => this.values.get(name) ?? name)
      .replaceAll(/\b(?:300[0-3]|5173)\b/gu, (port) => this.#ports.get(port) ?? port);
  }

  /** Saves a file of the document. @param name default: the one in the document. */
  save({ code, file }: Pick<Block, "code" | "file">, name: string = file ?? ""): void {
    const path = join(this.#folder, name);
    mkdirSync(dirname(path), { recursive: true });
    // A configuration holds secrets.
    writeFileSync(path, this.filled(code), { mode: 0o600 });
  }

  /** The text of a file in the present folder. */
  read(name: string): string {
    return readFileSync(join(this.#folder, name), "utf8");
  }

  /** Types commands, one line after the other. @returns what they print. */
  async type(commands: string): Promise<string> {
    const mark = "at the end in: ";
    const script = `exec 2>&1; set -e\n${this.filled(commands)}\necho "${mark}$PWD"`;
    const shell = this.#start("sh", ["-c", script]);
    const code = await shell.ended;
    if (code !== 0) throw new Error(`${commands} ended with ${code}: ${shell.output()}`);
    const [printed = "", folder = ""] = shell.output().split(mark);
    this.#folder = folder.trim();
    return printed;
  }

  /** Starts a program that goes on running, until {@link Reader.end}. */
  async serve(command: string, ready: RegExp): Promise<Running> {
    const server = this.#start("sh", ["-c", `exec ${this.filled(command)}`]);
    this.#servers.push(server);
    await server.until(ready);
    return server;
  }

  /** Does a step, and compares what it prints. */
  async follow({ at, command, prints }: Step): Promise<void> {
    const line = this.filled(command);
    if (line.startsWith("cd ")) {
      this.#folder = resolve(this.#folder, line.slice(3));
      return;
    }
    const printed = line.endsWith(" serve") ? await this.#served(line, prints) : await this.type(line);
    expect([at, command, printed]).toEqual([
      at,
      command,
      expect.stringMatching(expression(this.filled(prints))),
    ]);
    const { groups = {} } = expression(this.filled(prints)).exec(printed) ?? {};
    for (const [value, found] of Object.entries(groups)) this.values.set(value, found);
  }

  /** Keeps a process that somebody else started, to be stopped with the others. */
  keep(server: Running): void {
    this.#servers.push(server);
  }

  /** Stops everything that still runs. */
  async end(): Promise<void> {
    for (const server of this.#servers.splice(0).toReversed()) await server.stop();
  }

  async #served(line: string, prints: string): Promise<string> {
    const [first = ""] = this.filled(prints).split("\n");
    const server = await this.serve(line, new RegExp(literal(first), "u"));
    // A terminal shows the text alone; this is the log.
    const texts = server
      .output()
      .split("\n")
      .map((each) => (each.startsWith("{") ? (JSON.parse(each) as { msg: string }).msg : each))
      .join("\n");
    return texts.slice(texts.indexOf(first));
  }

  #start(program: string, args: readonly string[]): Running {
    const PATH = `${this.#bin}:${process.env["PATH"] ?? ""}`;
    const env = { ...bareEnvironment(), PATH, USER: "operator" };
    return startProgram(program, { args, env, cwd: this.#folder });
  }
}
