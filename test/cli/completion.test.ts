/** Completion in the shells themselves: each runs in a terminal, and the keys are typed. */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { COMMANDS } from "../../cli/commands.ts";
import { offersFor } from "../../cli/completion.ts";
import { atEnd, newFolder } from "../closing.ts";
import { ROOT } from "../examples/documents.ts";
import { bareEnvironment } from "../examples/processes.ts";
import { programFor } from "../machine.mjs";
import { here } from "./here.ts";

const TAB = "\t";
/** Writes the line into the file, and empties it. */
const CTRL_G = "\u0007";

/** How each shell is started, and how a key writes down the line that is being edited. */
const SHELLS = {
  bash: {
    file: ".bashrc",
    start: (shell: string, rc: string) => `${shell} --noprofile --rcfile ${rc} -i`,
    before: "",
    after: `dump() { printf '%s\\n' "$READLINE_LINE" >> lines; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\\C-g": dump' 2>/dev/null
bind 'set bell-style none'`,
  },
  zsh: {
    file: ".zshrc",
    start: (shell: string) => `${shell} -i`,
    before: "autoload -U compinit && compinit -u -D",
    after: `dump() { print -r -- "$BUFFER" >> lines; BUFFER=; }
zle -N dump
bindkey '^G' dump`,
  },
  fish: {
    file: ".config/fish/config.fish",
    start: (shell: string) => `${shell} -i`,
    before: "set -g fish_greeting",
    after: `function dump; commandline >> lines; commandline -r ''; end
bind \\cg dump`,
  },
} as const;

/** What is typed, and the line that comes of it. */
const TYPED: readonly (readonly [typed: string, line: string])[] = [
  [`acc${TAB}`, "accounts "],
  [`accounts fi${TAB}`, "accounts find "],
  [`accounts find ada --js${TAB}`, "accounts find ada --json "],
  [`accounts import re${TAB}--format k${TAB}`, "accounts import realm.json --format keycloak "],
  [`accounts import realm.json --format=au${TAB}`, "accounts import realm.json --format=auth0 "],
  [`clients update news --remove pol${TAB}`, "clients update news --remove policy-uri "],
  [`clients update news --native y${TAB}`, "clients update news --native yes "],
  [`keys rotate s${TAB}`, "keys rotate signing "],
  [`accounts list --config re${TAB}`, "accounts list --config realm.json "],
  [`help oper${TAB}con${TAB}`, "help operators confirm "],
];

/** Runs a shell in a folder with the program, and types. @returns the lines. */
async function typeInto(shell: keyof typeof SHELLS): Promise<readonly string[]> {
  const { file, start, before, after } = SHELLS[shell];
  const folder = newFolder();
  const program = join(folder, "sign-in-service");
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "cli/main.ts")}" "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(join(folder, "realm.json"), "{}");
  const { out: script } = await here(["completion", shell]);
  const rc = join(folder, file);
  mkdirSync(join(rc, ".."), { recursive: true });
  writeFileSync(rc, [before, script, after, "echo is ready", ""].join("\n"));
  const { PATH, ...environment } = bareEnvironment();
  const command = start(programFor(shell), rc);
  const terminal = spawn("script", ["-qec", command, "/dev/null"], {
    cwd: folder,
    env: { ...environment, PATH: `${folder}:${PATH}`, HOME: folder, ZDOTDIR: folder, TERM: "dumb" },
    stdio: ["pipe", "pipe", "ignore"],
  });
  atEnd(() => terminal.kill("SIGKILL"));
  let shown = "";
  const changed = new Promise<void>((resolve) => {
    terminal.stdout.on("data", (part) => {
      shown += String(part);
      if (shown.includes("is ready")) resolve();
    });
  });
  await changed;
  const written = join(folder, "lines");
  const lines = (): readonly string[] =>
    existsSync(written) ? readFileSync(written, "utf8").split("\n").slice(0, -1) : [];
  for (const [index, [typed]] of TYPED.entries()) {
    terminal.stdin.write(`sign-in-service ${typed}${CTRL_G}`);
    while (lines().length <= index) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return lines();
}

const offered = (...words: readonly string[]): readonly string[] =>
  offersFor(COMMANDS, words).map(([value]) => value);

describe("completion", () => {
  it.each(Object.keys(SHELLS) as (keyof typeof SHELLS)[])(
    "completes commands, options, values and files in %s [D-ADM-290]",
    async (shell) => {
      const lines = TYPED.map(([, line]) => `sign-in-service ${line}`);
      expect(await typeInto(shell)).toEqual(lines);
    },
    120_000,
  );

  it("offers every command with what it is about, and every option of it [D-ADM-290]", () => {
    for (const { words, summary, options = [], operands = [] } of COMMANDS.commands) {
      expect(offersFor(COMMANDS, [...words.slice(0, -1), ""])).toContainEqual([words.at(-1), summary]);
      const names = options.map(({ form, about }) => [form.split(" ")[0], about]);
      expect(offersFor(COMMANDS, [...words, "--"])).toEqual([...names, ["--help", expect.any(String)]]);
      for (const { form, values } of [...options, ...operands])
        if (/ FILE$|^\[?FILE/u.test(form)) {
          const before = form.startsWith("--") ? [form.split(" ")[0]!] : [];
          expect(offersFor(COMMANDS, [...words, ...before, "s"])).toEqual([[":files", ""]]);
        } else if (values !== undefined && form.startsWith("--"))
          expect(offersFor(COMMANDS, [...words, form.split(" ")[0]!, ""]).map(([each]) => each)).toEqual(
            values,
          );
    }
  });

  it("offers no option twice unless it is a list, none after --, and nothing for what nobody knows", () => {
    expect(offered("accounts", "list", "--service", "news", "--serv")).toEqual([]);
    expect(offered("clients", "register", "--grant-type", "password", "--grant")).toEqual(["--grant-type"]);
    expect(offered("accounts", "list", "--", "--")).toEqual([]);
    expect(offered("frobnicate", "")).toEqual([]);
    expect(offered("__proto__", "constructor", "--")).toEqual(["--help"]);
    expect(offered("accounts", "find", "x", "--config=")).toEqual([":files"]);
    // A value is no option, whatever it looks like.
    expect(offered("accounts", "list", "--search", "--service", "--serv")).toEqual(["--service"]);
  });

  it("is refused for another shell", async () => {
    expect(await here(["completion", "tcsh"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^SHELL must be one of bash, zsh, fish/u),
    });
    expect(await here(["completion"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^SHELL is missing/u),
    });
  });
});
