import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { CommandContext } from "../../cli/program/command.ts";
import { start } from "../examples/processes.ts";
import { here } from "./here.ts";
import { newFolder } from "../closing.ts";

const PASSWORD = "the password/of:the@database";
const MAIL_PASSWORD = "the-password-of-the-mail-server";

let folder: string;
let path: string;
beforeEach(() => {
  folder = newFolder();
  path = join(folder, "config.json");
});

async function init(words: readonly string[], context: Partial<CommandContext> = {}) {
  const outcome = await here(words, context);
  const printed = outcome.out + outcome.err;
  expect(printed).not.toContain(PASSWORD);
  expect(printed).not.toContain(MAIL_PASSWORD);
  return outcome;
}

const readVariable = (name: string): string | undefined =>
  name === "MAIL" ? `smtps://mailer:${MAIL_PASSWORD}@mail.example` : undefined;
const written = (): unknown => JSON.parse(readFileSync(path, "utf8"));
const initHere = (words: readonly string[], context?: Partial<CommandContext>) =>
  init(["init", "--config", path, ...words], context);

/** A person who gives these answers. */
function person(answers: readonly string[], secrets: readonly string[] = []) {
  const asked: string[] = [];
  const [left, leftSecrets] = [[...answers], [...secrets]];
  const context: Partial<CommandContext> = {
    ask: async (question) => {
      asked.push(question);
      return left.shift() ?? "";
    },
    askSecret: async () => leftSecrets.shift() ?? "",
  };
  return { asked, left, context };
}

describe("init", () => {
  it.each<[what: string, words: readonly string[], config: object]>([
    [
      "the defaults",
      [],
      {
        port: 3000,
        deployments: {
          oauth2: { url: "http://localhost:3000" },
          openid: { url: "http://localhost:3000/openid" },
        },
        storage: "sqlite:./sign-in.db",
      },
    ],
    [
      "a public address behind a proxy",
      ["--url", "https://login.example/", "--mail", "env:MAIL", "--mail-from", "Example <a@login.example>"],
      {
        deployments: {
          oauth2: { url: "https://login.example" },
          openid: { url: "https://login.example/openid" },
        },
        interactions: { theme: { name: "login.example" } },
        proxy: 1,
        storage: "sqlite:./sign-in.db",
        mail: { url: `smtps://mailer:${MAIL_PASSWORD}@mail.example`, from: "Example <a@login.example>" },
      },
    ],
    [
      "PostgreSQL, with new keys",
      [
        "--url",
        "https://login.example/sso",
        "--name",
        "Example Media",
        "--proxy",
        "10.0.0.0/8, fd00::1",
        "--storage",
        "postgresql://db/x",
      ],
      {
        deployments: {
          oauth2: { url: "https://login.example/sso" },
          openid: { url: "https://login.example/sso/openid" },
        },
        interactions: { theme: { name: "Example Media" } },
        proxy: ["10.0.0.0/8", "fd00::1"],
        storage: "postgresql://db/x",
        keys: { secrets: [expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/u)] },
      },
    ],
  ])("writes %s without a question with --yes, and config check accepts it", async (_what, words, config) => {
    const before = process.umask(0);
    const { code, out, err } = await initHere(["--yes", ...words], { readVariable }).finally(() =>
      process.umask(before),
    );
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(written()).toEqual(config);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["config.json"]);
    expect(
      out.match(/^ {2}sign-in-service (?:serve|services put|clients register) .*--config /gmu),
    ).toHaveLength(3);
    expect(await init(["config", "check", "--config", path])).toMatchObject({ code: 0 });
    expect(await initHere(["--yes", "--json", "--overwrite"])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^\{"file":".*","next":\["sign-in-service serve [^\n]*\]\}\n$/u),
    });
  });

  it("asks for what matters, asks again after a wrong answer, and hides passwords", async () => {
    const { asked, left, context } = person(
      [
        "login.example",
        "https://login.example?x=1",
        " https://login.example ",
        "x".repeat(81),
        "Example Media",
        "0",
        "mysql://db/x",
        "postgresql://sign-in@db.internal/sign_in",
        "smtps://mailer@mail.example",
        "",
      ],
      [PASSWORD, MAIL_PASSWORD],
    );
    const { code, err } = await initHere([], context);
    expect([code, left]).toEqual([0, []]);
    expect(asked.map((question) => question.split(/[ :;]/u)[0])).toEqual([
      "Address",
      "Address",
      "Address",
      "Name",
      "Name",
      "Proxies",
      "Storage",
      "Storage",
      "Mail",
      "Sender",
    ]);
    expect(err).toMatch(/^(?: {2}It must .*\n){3} {2}It must .*postgresql.*\.\n$/u);
    expect(written()).toMatchObject({
      interactions: { theme: { name: "Example Media" } },
      proxy: false,
      storage: `postgresql://sign-in:${encodeURIComponent(PASSWORD)}@db.internal/sign_in`,
      mail: { url: `smtps://mailer:${MAIL_PASSWORD}@mail.example` },
    });
    expect(await init(["config", "check", "--config", path])).toMatchObject({ code: 0 });
  });

  it("asks only for what no option says, and for no proxy of a local address", async () => {
    const { asked, context } = person([]);
    expect(await initHere(["--url", "http://localhost:8080"], context)).toMatchObject({ code: 0 });
    expect(asked.map((question) => question.split(/[ :;]/u)[0])).toEqual(["Storage", "Mail"]);
    expect(written()).toMatchObject({ port: 8080 });
  });

  it.each<[code: number, says: RegExp, words: readonly string[]]>([
    [2, /^There is no terminal for questions: pass --yes/u, []],
    [2, /^--url must be an absolute http or https URL/u, ["--yes", "--url", PASSWORD]],
    [2, /^--url must be https/u, ["--yes", "--url", "http://login.example"]],
    [2, /^--storage must be `sqlite:PATH`/u, ["--yes", "--storage", `mysql://a:${PASSWORD}@b`]],
    [
      2,
      /^--storage must not be in memory/u,
      ["--yes", "--url", "https://a.example", "--storage", "sqlite::memory:"],
    ],
    [2, /^--proxy /u, ["--yes", "--url", "https://a.example", "--proxy", "0.0.0.0/0"]],
    [2, /^--mail must be an `smtp/u, ["--yes", "--mail", `http://a:${PASSWORD}@b`]],
    [2, /^--mail-from /u, ["--yes", "--mail", "smtp://b", "--mail-from", "a\r\nBcc: b@example.com"]],
    [2, /^The environment variable NONE is not set/u, ["--yes", "--storage", "env:NONE"]],
  ])("refuses a wrong answer with %i and %s, and writes nothing", async (code, says, words) => {
    expect(await initHere(words)).toEqual({ code, out: "", err: expect.stringMatching(says) });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("warns about a password in an argument, without repeating it, and names the other way", async () => {
    const address = `smtps://mailer:${MAIL_PASSWORD}@mail.example`;
    const warned = await initHere(["--yes", "--mail", address]);
    expect(warned).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^warning: .* in --mail, .*env:NAME/u),
    });
    const storage = `postgresql://a:${encodeURIComponent(PASSWORD)}@db.example/sign_in`;
    const again = await initHere(["--yes", "--overwrite", "--storage", storage]);
    expect(again.err).toMatch(/^warning: .* in --storage, .*env:NAME/u);
    const quiet = await initHere(["--yes", "--overwrite", "--mail", "env:MAIL"], { readVariable });
    expect(quiet.err).not.toContain("warning");
  });

  it("never replaces a file without being told, and then keeps its keys", async () => {
    const secrets = [Buffer.alloc(32, 9).toString("base64")];
    writeFileSync(path, JSON.stringify({ storage: "mongodb://old", keys: { secrets } }));
    const { asked, context } = person([]);
    for (const words of [["--yes"], []]) {
      expect(await initHere(words, context)).toMatchObject({
        code: 1,
        err: expect.stringMatching(/config\.json exists\. With --overwrite, /u),
      });
    }
    expect(asked).toEqual([]);
    expect(written()).toMatchObject({ storage: "mongodb://old" });
    expect(await initHere(["--yes", "--overwrite", "--storage", "mongodb://new"])).toMatchObject({ code: 0 });
    expect(written()).toMatchObject({ storage: "mongodb://new", keys: { secrets } });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    writeFileSync(path, `{ "keys": "${PASSWORD}`);
    expect(await initHere(["--yes", "--overwrite"])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/config\.json can't be read, and it may contain keys: move it away\./u),
    });
    expect(readFileSync(path, "utf8")).toContain(PASSWORD);
    const inFile = await init(["init", "--yes", "--config", join(path, "config.json")]);
    expect(inFile).toMatchObject({ code: 1, err: expect.stringMatching(/can't be written: E/u) });
    expect(readdirSync(folder)).toEqual(["config.json"]);
  });

  it("makes one file when it runs several times at once", async () => {
    const runs = await Promise.all(
      Array.from({ length: 8 }, () => initHere(["--yes", "--storage", "postgresql://db/x"])),
    );
    expect(runs.filter(({ code }) => code === 0)).toHaveLength(1);
    expect(runs.filter(({ code }) => code === 1)).toHaveLength(7);
    expect(readdirSync(folder)).toEqual(["config.json"]);
  });

  it.each([0, 1, 2, 3, 4, 5])("leaves nothing when it is interrupted at question %i", async (at) => {
    const stop = new AbortController();
    const answers = ["https://login.example", "Example", "1", "sqlite:./a.db", "smtp://mail.example", ""];
    const ask = async (): Promise<string> => {
      if (answers.length === 6 - at) {
        stop.abort();
        throw stop.signal.reason;
      }
      return answers.shift() ?? "";
    };
    expect(await initHere([], { ask, signal: stop.signal })).toEqual({
      code: 130,
      out: "",
      err: "Interrupted.\n",
    });
    expect(existsSync(path)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("writes what serve starts with, in the folder of both", async () => {
    const made = start("cli/main.ts", { args: ["init", "--yes", "--json"], cwd: folder });
    await expect(made.ended).resolves.toBe(0);
    expect(JSON.parse(made.output())).toMatchObject({
      file: "sign-in.json",
      next: ["sign-in-service serve", expect.any(String), expect.any(String)],
    });
    const server = start("cli/main.ts", { args: ["serve", "--port", "0"], cwd: folder });
    await server.until(/listening on port \d+ for http:\/\/localhost:3000 and /u);
    expect(statSync(join(folder, "sign-in.db.keys")).mode & 0o777).toBe(0o600);
    await expect(server.stop()).resolves.toBe(0);
  }, 30_000);
});
