/** Follows "The first hour", what can be built on it, and "Day two" command by command, in an empty folder, and compares what is printed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { blocks, ROOT } from "./documents.ts";
import { bareEnvironment, freePorts, type Running, type Start, start } from "./processes.ts";

interface Step {
  /** The document and the number of its block. */
  readonly name: string;
  readonly command: string;
  /** What it prints: `…` is anything, and a word in capitals is a value that later commands use. */
  readonly prints: string;
}

/** The commands of the console blocks of a document. */
function stepsOf(document: string): readonly Step[] {
  return blocks()
    .filter(({ name, info }) => info === "console" && name.startsWith(`docs/${document}.md`))
    .flatMap(({ name, code }) =>
      code
        .split(/^\$ /mu)
        .slice(1)
        .map((part) => {
          const [command = "", ...prints] = part.trimEnd().split("\n");
          return { name, command, prints: prints.join("\n") };
        }),
    );
}

/** What a reader fills in. */
const VALUE = /\b(?:SUB|CODE|CLIENT_SECRET|API_SECRET|JOB_SECRET|ACCESS_TOKEN)\b(?!=)/gu;

/** The printed text as an expression with a group for each value. */
function expression(prints: string): RegExp {
  const escaped = prints
    .replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`)
    .replaceAll(/^…\n?/gmu, String.raw`[^]*?`)
    .replaceAll("…", ".*?")
    .replaceAll(/ +/gu, " +")
    .replaceAll(VALUE, (name) => String.raw`(?<${name}>[\w.~-]+)`);
  return new RegExp(`^${escaped}\n*$`, "u");
}

/** A person at a terminal. */
class Reader {
  readonly values = new Map<string, string>();
  /** Servers that the documents start. */
  readonly servers: Running[] = [];
  #folder: string;
  readonly #bin: string;
  /** Those of the documents → free ones. */
  readonly #ports: ReadonlyMap<string, string>;

  constructor(work: string, port: number) {
    this.#bin = join(work, "bin");
    this.#folder = join(work, "sign-in");
    this.#ports = new Map([
      ["3000", `${port}`],
      ["3001", `${port + 1}`],
    ]);
    for (const folder of [this.#bin, this.#folder]) mkdirSync(folder);
    // The package is installed by its own test; here, its program runs from source.
    this.#program("npm", "exit 0");
    this.#program("npx", `shift; exec "${process.execPath}" "${join(ROOT, "cli/main.ts")}" "$@"`);
    writeFileSync(join(this.#folder, "password.txt"), "a password of the first hour\n", { mode: 0o600 });
  }

  #program(name: string, script: string): void {
    const path = join(this.#bin, name);
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  }

  /** Text from a document, with this reader's values and ports. */
  filled(written: string): string {
    return written
      .replaceAll(VALUE, (name) => this.values.get(name) ?? name)
      .replaceAll(/\b300[01]\b/gu, (port) => this.#ports.get(port) ?? port);
  }

  async follow({ name, command, prints }: Step): Promise<void> {
    const line = this.filled(command);
    if (line.startsWith("cd ")) {
      this.#folder = resolve(this.#folder, line.slice(3));
      return;
    }
    const printed = line.endsWith(" serve") ? await this.#serve(prints) : await this.#run(line);
    expect([name, command, printed]).toEqual([
      name,
      command,
      expect.stringMatching(expression(this.filled(prints))),
    ]);
    const { groups = {} } = expression(this.filled(prints)).exec(printed) ?? {};
    for (const [value, found] of Object.entries(groups)) this.values.set(value, found);
  }

  async #run(line: string): Promise<string> {
    const child = spawn("sh", ["-c", `exec 2>&1; ${line}`], {
      cwd: this.#folder,
      env: { ...bareEnvironment(), PATH: `${this.#bin}:${process.env["PATH"] ?? ""}`, USER: "operator" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [printed, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    if (code !== 0) throw new Error(`${line} ended with ${String(code)}: ${printed}`);
    return printed;
  }

  async #serve(prints: string): Promise<string> {
    const [first = ""] = this.filled(prints).split("\n");
    const server = start("cli/main.ts", { args: ["serve"], cwd: this.#folder });
    this.servers.push(server);
    await server.until(new RegExp(first.replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`), "u"));
    return server.output().slice(server.output().indexOf(first));
  }
}

let work: string;
let reader: Reader;

beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), "sign-in-walk-"));
  reader = new Reader(work, await freePorts(2));
});
afterAll(async () => {
  for (const server of reader.servers) await server.stop();
  rmSync(work, { recursive: true });
});

it("The first hour ends with a person signed in at a client", async () => {
  const steps = stepsOf("first-hour");
  expect(steps.length).toBeGreaterThan(8);
  for (const step of steps) {
    if (step.command.includes("code=CODE")) {
      const browser = new Browser({ stopAt: reader.filled("http://localhost:3001/callback") });
      await browser.get(
        reader.filled("http://localhost:3000/oauth2/authorize?client_id=news&response_type=code&state=abc"),
      );
      const password = "a password of the first hour";
      await browser.submit(browser.form("password"), { username: "ada", password });
      reader.values.set("CODE", browser.location?.searchParams.get("code") ?? "none");
    }
    await reader.follow(step);
  }
  expect([...reader.values.keys()].toSorted()).toEqual(["ACCESS_TOKEN", "CLIENT_SECRET", "CODE", "SUB"]);
}, 60_000);

/** Signs Ada in. @returns where the client's answer goes. */
async function signedIn(address: string, stopAt: string): Promise<URL> {
  const browser = await new Browser({ stopAt }).get(address);
  const password = "a password of the first hour";
  await browser.submit(browser.form("password"), { username: "ada", password });
  return browser.location!;
}

/** The settings and arguments of a program of the repository that a document starts as `as`. */
function startOf(document: string, as: string): Start {
  const line = blocks()
    .filter(({ name, info }) => info === "sh" && name.startsWith(`docs/${document}.md`))
    .flatMap(({ code }) => code.split("\n"))
    .find((each) => each.includes(`npx node ${as}`));
  const [before = "", after = ""] = reader.filled(line ?? "").split(`npx node ${as}`);
  const env = Object.fromEntries(
    [...before.matchAll(/([A-Z_]+)=(\S+)/gu)].map(([, name, value]) => [name, value]),
  );
  return {
    env: env as Record<string, string>,
    args: after
      .trim()
      .split(" ")
      .filter((each) => each !== ""),
  };
}

it("A page, an API, a job and a command-line program are clients of that service", async () => {
  for (const document of ["browser-applications", "apis", "native-applications"]) {
    const steps = stepsOf(document);
    expect([document, steps.length > 0]).toEqual([document, true]);
    for (const step of steps) await reader.follow(step);
  }
  const page = "http://localhost:5173/";
  const challenge = `code_challenge=${"x".repeat(43)}&code_challenge_method=S256`;
  const request = `client_id=spa&response_type=code&${challenge}&redirect_uri=${encodeURIComponent(page)}`;
  const url = reader.filled(`http://localhost:3000/openid/oauth2/authorize?scope=openid&${request}`);
  expect((await signedIn(url, page)).searchParams.has("code")).toBe(true);

  const { env, ...rest } = startOf("apis", "main.ts");
  const PORT = reader.filled("3001");
  const api = start("examples/api/main.ts", { env: { ...env, PORT }, ...rest });
  reader.servers.push(api);
  await api.until(/Listening/);
  const job = start("examples/machine/job.ts", startOf("apis", "job.ts"));
  expect([await job.ended, job.output()]).toEqual([0, expect.stringMatching(/^200 .*First article/)]);

  const program = start("examples/cli-login/loopback.ts", startOf("native-applications", "loopback.ts"));
  reader.servers.push(program);
  const [address = ""] = await program.until(/http:\S+/);
  const { searchParams } = new URL(address);
  await fetch(await signedIn(address, searchParams.get("redirect_uri") ?? ""));
  expect([await program.ended, program.output()]).toEqual([
    0,
    expect.stringContaining("Signed in as ada@example.com"),
  ]);
}, 60_000);

it("Day two goes on where the first hour ended", async () => {
  const steps = stepsOf("day-two");
  expect(steps.length).toBeGreaterThan(12);
  for (const step of steps) await reader.follow(step);
}, 60_000);
