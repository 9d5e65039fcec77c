/** Checks README and docs against the software. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { endpointPaths } from "../../config/deployments.ts";
import { COMMANDS } from "../../cli/commands.ts";
import { here } from "../cli/here.ts";
import { checkConfigFile } from "../../cli/server/config-file.ts";
import { Browser } from "../../testing/browser/browser.ts";
import {
  type Block,
  blocks,
  blocksIn,
  documents,
  links,
  namedBlock,
  ROOT,
  tableAfter,
  textOf,
  writeBlock,
} from "./documents.ts";
import { freePorts, type Running, start } from "./processes.ts";

const FOLDER = ".cache/docs";
const TYPESCRIPT = blocks().filter(({ language }) => language === "ts");
const write = (block: Block, change?: (code: string) => string): string => writeBlock(block, FOLDER, change);

/** Starts a block on a free port. @param cwd default: a new folder. */
async function run(name: string, ready: RegExp, cwd?: string): Promise<{ running: Running; origin: string }> {
  const port = await freePorts();
  const running = start(
    write(namedBlock(name), (code) => code.replaceAll("3000", String(port))),
    {
      ...(cwd !== undefined && { cwd }),
    },
  );
  await running.until(ready);
  return { running, origin: `http://localhost:${port}` };
}

beforeAll(() => void mkdirSync(join(ROOT, FOLDER), { recursive: true }));
afterAll(() => rmSync(join(ROOT, FOLDER), { recursive: true, force: true }));

describe("the commands in README and docs", () => {
  it("run TypeScript with the installed Node.js, because older versions can't", () => {
    const commands = documents().flatMap((document) =>
      [...textOf(document).matchAll(/(\S*\s)?\S*\bnode (?:--\S+ )*\S+\.ts\b/g)].map(
        ([command]) => [document, command.trim()] as const,
      ),
    );
    expect(commands.length).toBeGreaterThan(4);
    for (const [document, command] of commands) {
      expect([document, command]).toEqual([
        document,
        expect.stringMatching(/npx node |node_modules\/\.bin\/node /),
      ]);
    }
  });
});

const SHELL = /^(?:sh|bash)$/;

describe("the shell blocks in README and docs", () => {
  it("have commands alone in their lines: no line begins in the middle of one", () => {
    const lines = blocks()
      .filter(({ language }) => SHELL.test(language))
      .flatMap(({ at, code }) =>
        code
          .replaceAll("\\\n", " ")
          .split("\n")
          .map((line) => `${at}: ${line}`),
      );
    expect(lines.length).toBeGreaterThan(100);
    expect(lines.filter((line) => /\d: (?:https?:|--)/.test(line))).toEqual([]);
  });
});

describe("the package", () => {
  /** A name that nobody has published could become somebody else's package. */
  const BY_NAME = /\bnpm (?:install|i|add|exec)\b[^\n`]*(?<![\w/.-])sign-in-service(?![\w./*-])/;

  it("is installed from its file everywhere, and never by a name that nobody owns", () => {
    const folders = ["docs", "examples", "deploy"].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
        .filter((file) => /\.(?:md|ya?ml|sh|service|json|ts)$|Dockerfile/.test(file))
        .map((file) => join(folder, file)),
    );
    const found = ["README.md", ...folders].filter((file) =>
      BY_NAME.test(textOf(file).replaceAll("\\\n", " ")),
    );
    expect(found).toEqual([]);
    for (const planted of [
      "npm install sign-in-service",
      "npm install --prefix /opt/sign-in-service sign-in-service@0.3.0",
      "npm i koa sign-in-service",
    ])
      expect([planted, BY_NAME.test(planted)]).toEqual([planted, true]);
    expect(BY_NAME.test("npm install node@24 ../sign-in-service/sign-in-service-0.3.0.tgz")).toBe(false);
  });
});

/** Calls of the program in shell blocks and inline code, each as its words. */
function callsIn(document: string): string[][] {
  const text = textOf(document);
  const shell = blocksIn(document, text).filter(
    ({ language }) => SHELL.test(language) || language === "console",
  );
  const inline = [...text.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/`([^`\n]+)`/g)];
  return [...shell.map(({ code }) => code), ...inline.map(([, code = ""]) => code)].flatMap((code) =>
    [
      ...code
        .replaceAll("\\\n", " ")
        // `npm start` in the repository.
        .replaceAll("npm start -- ", "sign-in-service serve --demo ")
        .matchAll(/(?:^|[ /])(?:sign-in-service|main\.[jt]s) ([a-z][^\n|;&]*)/gm),
    ].map(([, call = ""]) => call.trim().split(/\s+/)),
  );
}

/** What the program would not understand. */
function unknownIn(words: readonly string[]): string[] {
  const command = COMMANDS.commands.find((each) => each.words.every((word, index) => words[index] === word));
  if (command === undefined) return [words.join(" ")];
  const known = new Set((command.options ?? []).map(({ form }) => form.split(" ")[0]));
  // What follows `--` is no option.
  const end = words.indexOf("--");
  return words
    .slice(0, end === -1 ? undefined : end)
    .filter((word) => word.startsWith("--") && word !== "--help")
    .map((word) => word.replace(/=.*/, ""))
    .filter((option) => !known.has(option))
    .map((option) => `${command.words.join(" ")} ${option}`);
}

describe("the commands of sign-in-service in README and docs", () => {
  it("exist, with their options", () => {
    const calls = documents().flatMap((document) => callsIn(document));
    expect(calls.length).toBeGreaterThan(50);
    expect(calls.flatMap((words) => unknownIn(words))).toEqual([]);
    expect(unknownIn(["accounts", "planted"])).toEqual(["accounts planted"]);
    expect(unknownIn(["accounts", "delete", "SUB", "--planted=1"])).toEqual(["accounts delete --planted"]);
  });
});

describe("the events of notifications", () => {
  it("are all in the documentation", () => {
    const declared = readFileSync(join(ROOT, "core/events.ts"), "utf8").matchAll(
      /"((?:delivery|receiver)\.\w+)":/g,
    );
    const rows = tableAfter("docs/reference/notifications.md", "`worker.events`.");
    const documented = rows.flatMap(([names = ""]) => names.split(", "));
    expect(new Set(documented)).toEqual(new Set([...declared].map(([, name]) => name)));
    expect(documented).toHaveLength(new Set(documented).size);
    expect(documented.length).toBeGreaterThanOrEqual(10);
  });
});

describe("the code in README and docs", () => {
  it("compiles", () => {
    expect(TYPESCRIPT.length).toBeGreaterThan(20);
    for (const block of TYPESCRIPT) write(block);
    // A wrong name in a block is found.
    write({ ...namedBlock("first-program"), name: "wrong" }, (code) =>
      code.replace("service.routes()", "service.router()"),
    );
    const settings = {
      extends: "../../tsconfig.json",
      compilerOptions: { types: ["node"] },
      include: ["*.ts"],
    };
    writeFileSync(join(ROOT, FOLDER, "tsconfig.json"), JSON.stringify(settings));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [compiler, "-p", FOLDER], { cwd: ROOT, encoding: "utf8" });
    // `npm run types` reports errors in the sources.
    expect(stdout.split("\n").filter((line) => line.startsWith(FOLDER))).toEqual([
      expect.stringMatching(/wrong.*Property 'router' does not exist/u),
    ]);
  });

  it("in the README starts repeatedly, signs a user in and returns the profile", async () => {
    const cwd = join(ROOT, FOLDER);
    await (await run("first-program", /client_secret: .*/, cwd)).running.stop();
    const { running, origin } = await run("first-program", /client_secret: .*/, cwd);
    try {
      const [, client_id = ""] = await running.until(/client_id: ["'](\S+?)["']/);
      const [, client_secret = ""] = await running.until(/client_secret: ["'](\S+?)["']/);
      const redirect_uri = "http://localhost:3001/callback";
      const browser = new Browser({ stopAt: redirect_uri });
      const request = new URLSearchParams({
        client_id,
        redirect_uri,
        response_type: "code",
        scope: "openid",
        state: "s",
      });
      await browser.get(`${origin}/oauth2/authorize?${request}`);
      await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
      const code = browser.location?.searchParams.get("code") ?? "";
      const answer = await fetch(`${origin}/oauth2/token`, {
        method: "POST",
        headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
        body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri }),
      });
      const { access_token } = (await answer.json()) as { access_token: string };
      const profile = await fetch(`${origin}/external/profile?client_id=${client_id}`, {
        headers: { authorization: `Bearer ${access_token}` },
      });
      expect(await profile.json()).toMatchObject({ email: "ada@example.com", surname: null });
    } finally {
      await running.stop();
    }
  });

  it("about embedding works with other routes and middleware, and stops on SIGTERM", async () => {
    const { running, origin } = await run("embed-in-koa", /ready/);
    const own = await fetch(`${origin}/`);
    expect([await own.text(), own.headers.get("x-answered-by")]).toEqual(["my own page", "my application"]);
    const ours = await fetch(`${origin}/auth/oauth2/authorize`);
    expect([ours.status, await ours.json()]).toEqual([
      400,
      expect.objectContaining({ error: "invalid_request" }),
    ]);
    await expect(running.stop()).resolves.toBe(0);
  });

  it.each([
    ["test-with-time", 2],
    ["test-second-factors", 2],
    ["test-a-receiver", 0],
    ["test-a-provider", 0],
    ["test-failing-storage", 0],
    ["test-a-store", 30],
    ["use-a-store", 0],
  ])("called %s runs, and at least %i tests in it pass", async (name, least) => {
    write(namedBlock("memory-store.ts"));
    const env = { SIGN_IN_SECRET: Buffer.alloc(32, 1).toString("base64") };
    const running = start(write(namedBlock(name)), { env });
    await expect(running.ended).resolves.toBe(0);
    if (least === 0) return;
    const [, passed, failed] = /pass (\d+)\b[^]*fail (\d+)\b/u.exec(running.output()) ?? [];
    expect(Number(passed)).toBeGreaterThanOrEqual(least);
    expect(failed).toBe("0");
  });

  it.each(
    blocks()
      .filter(({ language, file }) => language === "json" && file !== undefined)
      .map((block) => [block.at, block] as const),
  )("at %s is a configuration, or a receiver of one", async (_at, { file: name, code }) => {
    const deployments = { oauth2: { url: "http://127.0.0.1:3000" } };
    // The pages keep secrets out of files.
    const secret = Buffer.alloc(32, 1).toString("base64");
    const written = JSON.parse(code.replaceAll(`"…"`, `"${secret}"`)) as object;
    const services = { news: { name: "News", receiver: written } };
    const seed = name === "receiver.json" && { seed: { services } };
    const file = { deployments, keys: { secrets: [secret] }, ...(seed || written) };
    await expect(checkConfigFile(file)).resolves.toBeDefined();
  });
});

/** The variables of the environment that a block sets, as a shell, a container or systemd reads them. */
function variablesIn(code: string): Map<string, string> {
  return new Map(
    [...code.matchAll(/\b(SIGN_IN_[A-Z0-9_]+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]),
  );
}

describe("the variables in README and docs", () => {
  const sets = blocks().filter(({ code }) => variablesIn(code).has("SIGN_IN_INTERACTIONS_THEME_NAME"));

  it.each(sets)("of $at are a configuration", async ({ code }) => {
    const secret = join(ROOT, FOLDER, "secret");
    writeFileSync(secret, Buffer.alloc(32, 1).toString("base64"), { mode: 0o600 });
    const named = [...variablesIn(code)].map(([name, value]) => [
      name,
      name.endsWith("_FILE") ? secret : value,
    ]);
    const variables = new Map(named as [string, string][]);
    expect(await here(["config", "check"], { variables })).toEqual({
      code: 0,
      out: "The configuration is valid.\n",
      err: "",
    });
  });

  it("are in several documents, and those of Compose are in its file", () => {
    expect(sets.length).toBeGreaterThanOrEqual(3);
    const env = blocks().find(({ code }) => code.includes("> .env"))?.code ?? "";
    const names = [...env.matchAll(/(SIGN_IN_[A-Z]+)=/g)].map(([, name]) => name);
    const read = [...textOf("deploy/compose.yml").matchAll(/\$\{(\w+):/g)].map(([, name]) => name);
    expect(new Set(names)).toEqual(new Set(read));
  });
});

describe("the tables of endpoints", () => {
  it("list every endpoint, with its methods and deployments", () => {
    const documented = ["endpoints", "addresses of pages"].flatMap((name) =>
      tableAfter("docs/reference/endpoints.md", `<!-- ${name}: written by npm run docs -->`).flatMap(
        ([methods, path, deployment]) =>
          (["oauth2", "openid"] as const)
            .filter((kind) => deployment === "both" || deployment === kind)
            .map((kind) => `${kind} ${methods} ${path}`),
      ),
    );
    const served = (["oauth2", "openid"] as const).flatMap((kind) =>
      endpointPaths[kind].map(({ methods, path, below }) => {
        const written = path.replace(/:.*/u, "…") + (below && !path.includes(":") ? "/…" : "");
        return `${kind} ${methods.filter((each) => each !== "OPTIONS").join(", ")} ${written}`;
      }),
    );
    expect(documented.toSorted()).toEqual([...new Set(served)].toSorted());
  });
});

describe("the links", () => {
  it.each(documents())("of %s lead to files that exist", (document) => {
    const missing = links(document).filter((target) => !existsSync(join(ROOT, dirname(document), target)));
    expect(missing).toEqual([]);
  });
});
