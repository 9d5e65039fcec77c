import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { buildReceiver } from "../build/receiver.ts";
import { buildImage } from "./deploy/dockerfile.ts";
import { freePorts, startProgram } from "./examples/processes.ts";
import { installPacked, linkPackages, manifest, packInto, run } from "./installed.ts";
import { newFolder } from "./closing.ts";
import { BODY, deliverer, options as requestOptions, target } from "./notifier/attempts.ts";

const root = join(import.meta.dirname, "..");
/** The entry points. The package also exports a document. */
const modules = Object.entries(manifest.exports).filter(([path]) => !path.endsWith(".json"));
const entries = modules.map(([path]) => join(manifest.name, path));
const work = newFolder();
/** A project that has only this package installed. */
const consumer = join(work, "consumer");
const installed = join(consumer, "node_modules", manifest.name);
/** The same for a project in CommonJS. */
const commonjs = join(consumer, "commonjs");

/** The names that each entry point exports, as a program of the consumer prints them. */
function printed(folder: string, source: string): Record<string, string[]> {
  writeFileSync(join(folder, "main.js"), source);
  return JSON.parse(run(process.execPath, ["main.js"], folder));
}

/** A program of the consumer. */
const SERVICE = `
  import { createServer } from "node:http";
  import Koa from "koa";
  import { createSignInService } from "sign-in-service";
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const origin = "http://localhost:" + server.address().port;
  const service = await createSignInService({
    deployments: { oauth2: { url: origin } },
    storage: "sqlite::memory:",
  });
  await service.directory.services.put("1", { name: "News" });
  const redirect_uris = ["http://127.0.0.1:3001/callback"];
  const { client_id } = await service.clients.register({ name: "News", service: "1", redirect_uris });
  const { sub } = await service.accounts.create({ email: "ada@example.com", password: "lovelace-1843" });
  server.on("request", new Koa().use(service.routes()).callback());
  const start = origin + "/oauth2/authorize?response_type=code&client_id=" + client_id;
  const begun = await fetch(start, { redirect: "manual" });
  const cookie = begun.headers.getSetCookie().map((each) => each.split(";")[0]).join("; ");
  const { pathname } = new URL(begun.headers.get("location"));
  const page = await (await fetch(origin + pathname, { headers: { cookie } })).text();
  console.log(JSON.stringify({
    form: page.includes('name="password"'),
    right: await service.accounts.verifyPassword(sub, "lovelace-1843"),
    wrong: await service.accounts.verifyPassword(sub, "lovelace-1844"),
  }));
  server.closeAllConnections();
  server.close();
  await service.close();
`;

const tarball = join(work, `${manifest.name}-${manifest.version}.tgz`);

function install(): void {
  packInto(work);
  for (const [folder, type] of Object.entries({ [consumer]: "module", [commonjs]: "commonjs" })) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "consumer", private: true, type }));
  }
  installPacked(tarball, consumer);
  linkPackages(["koa", "jest", "@jest/globals", "vitest"], consumer);
}

/** The versions that a lock file installs in production, but for what other platforms need. */
function versionsIn(lockFile: string): Readonly<Record<string, string>> {
  const { packages } = JSON.parse(readFileSync(lockFile, "utf8")) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  const found = Object.entries(packages).filter(
    ([path, { dev = false, devOptional = false, optional = false }]) =>
      path !== "" && !dev && !devOptional && !optional,
  );
  return Object.fromEntries(found.map(([path, { version }]) => [path, version]));
}

interface LockedPackage {
  readonly version: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly optional?: boolean;
}

/** The packages that the compiled files name, those of their types included. */
function importedPackages(): readonly string[] {
  const names = readdirSync(join(installed, "dist"), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(?:js|d\.ts)$/.test(file))
    .flatMap((file) => {
      const code = readFileSync(join(installed, "dist", file), "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, "");
      const statements = /^(?:import|export)\s[\w*{},\s$]*?\sfrom "([^"]+)"|^import "([^"]+)"/gm;
      return [...code.matchAll(statements), ...code.matchAll(/\b(?:import|load)\("([^"]+)"\)/g)].map(
        ([, name = "", bare]) => bare ?? name,
      );
    })
    .filter((name) => !/^(?:\.|node:)/.test(name))
    .map((name) => name.split("/", name.startsWith("@") ? 2 : 1).join("/"));
  return [...new Set(names)].toSorted();
}

/** Runs a program of the consumer until its output matches, and stops it. */
async function runs(
  [command = "", ...args]: readonly string[],
  pattern: RegExp,
  visit: (found: RegExpExecArray) => Promise<void>,
): Promise<void> {
  const { PATH = "" } = process.env;
  const child = spawn(command, args, { cwd: consumer, env: { PATH }, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  try {
    let output = "";
    let found: RegExpExecArray | null = null;
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      output += String(chunk);
      found = pattern.exec(output);
      if (found !== null) break;
    }
    if (found === null) throw new Error(`ended after: ${output}`);
    await visit(found);
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
}

describe("the package for receivers", () => {
  it("is installed alone, and its README's program receives the notifications of this service", async () => {
    const folder = join(work, "receiver");
    const source = join(work, "receiver-source");
    buildReceiver(source);
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
    run("npm", ["pack", "--silent", "--offline", "--pack-destination", folder], source);
    const file = `./sign-in-service-receiver-${manifest.version}.tgz`;
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", file], folder);
    expect(readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
      "sign-in-service-receiver",
    ]);
    const readme = readFileSync(join(folder, "node_modules/sign-in-service-receiver/README.md"), "utf8");
    const port = await freePorts();
    const [, program = ""] = /^```ts\n([^`]*)^```$/mu.exec(readme) ?? [];
    writeFileSync(join(folder, "receiver.js"), program.replace("4000", String(port)));
    const [, client_secret = ""] = /client_secret: "([^"]*)"/u.exec(program) ?? [];
    const [, secret = ""] = /"(whsec_[^"]*)"/u.exec(program) ?? [];
    const running = startProgram(process.execPath, { args: ["receiver.js"], cwd: folder });
    try {
      await running.until(/ready/);
      const shop = { client_id: "shop", client_secret, signing_secrets: [secret] };
      const there = target(`http://127.0.0.1:${port}/notify`, shop);
      const { attempt } = deliverer();
      expect(await attempt(there, BODY, requestOptions("one"))).toMatchObject({ status: 200 });
      await running.until(/received PROFILE_CHANGED b5c6ab5e\S* one/);
    } finally {
      await running.stop();
    }
  }, 120_000);
});

describe("the packed package", () => {
  beforeAll(install, 120_000);

  it("contains every file of its exports, and no sources", () => {
    for (const [, { types, default: file }] of modules) {
      expect(existsSync(join(installed, types))).toBe(true);
      expect(existsSync(join(installed, file))).toBe(true);
    }
    const files = run("find", [".", "-type", "f"], installed).trim().split("\n");
    expect(files.filter((file) => file.endsWith(".ts") && !file.endsWith(".d.ts"))).toEqual([]);
    expect(files.filter((file) => !/^\.\/(?:deploy|dist|docs)\/|^\.\/[^/]+$/.test(file))).toEqual([]);
    expect(files).toContain("./dist/core/locales/en.json");
    expect(files).toContain("./dist/accounts/people/views/mail.ejs");
    // Without it, no page offers a passkey.
    expect(files).toContain("./dist/interactions/views/pages.js");
  });

  it("contains what its README links to, and its documents name the file that npm pack makes", () => {
    const readme = readFileSync(join(installed, "README.md"), "utf8");
    const links = [...readme.matchAll(/\]\(([^)#]+)[^)]*\)/gu)].map(([, link = ""]) => link);
    const own = links.filter((link) => !/^https?:/u.test(link));
    expect(own.length).toBeGreaterThan(5);
    expect(own.filter((link) => !existsSync(join(installed, link)))).toEqual([]);
    const [first] = readme.matchAll(/^```\w*\n([^`]*)^```$/gmu);
    expect(first?.[1]).toBe("npm start\n");
    const file = `${manifest.name}-${manifest.version}.tgz`;
    const firstHour = readFileSync(join(installed, "docs/start/run-the-server.md"), "utf8");
    expect(readme).toContain(`npm install node@24 ../${manifest.name}/${file}`);
    expect(firstHour).toContain(`npm install ../${manifest.name}/${file}`);
  });

  it("is nowhere installed by its name, which nobody owns yet: documents and deploy/ name the file", () => {
    const patterns = ["README.md", "docs/**/*.md", "deploy/**", "examples/**/*.{md,json,yaml}", "cli/demo/*"];
    const files = globSync(patterns, { cwd: root, exclude: ["**/node_modules/**"] }).filter((file) =>
      statSync(join(root, file)).isFile(),
    );
    expect(files.length).toBeGreaterThan(60);
    const byName =
      /\b(?:npm (?:[\w-]+ )*(?:install|i|ci|add|pack|exec|x|create)|pnpm (?:add|dlx)|yarn (?:add|dlx)|npx --yes)\b[^\n`|]*[ "']sign-in-service(?:@[^\s/]+)?(?=[\s"'`]|$)/u;
    for (const wrong of [
      "npm install sign-in-service",
      "npm pack sign-in-service@1",
      "npm i -D sign-in-service",
    ])
      expect(wrong).toMatch(byName);
    for (const right of ["npm install ../sign-in-service/sign-in-service-0.3.0.tgz", "npm pack"])
      expect(right).not.toMatch(byName);
    const found = files
      .flatMap((file) =>
        readFileSync(join(root, file), "utf8")
          .split("\n")
          .map((line) => `${file}: ${line}`),
      )
      .filter((line) => byName.test(line));
    expect(found).toEqual([]);
  });

  it("is installed for systemd by the command of docs/operate/set-up/deploying.md, beside its file", () => {
    const deploying = readFileSync(join(installed, "docs/operate/set-up/deploying.md"), "utf8");
    const [line = ""] = /^npm install --prefix .*$/mu.exec(deploying) ?? [];
    const prefix = join(work, "opt");
    mkdirSync(prefix);
    run("sh", ["-c", line.replace("/opt/sign-in-service", prefix)], work);
    const program = join(prefix, "node_modules/.bin/sign-in-service");
    expect(run(program, ["--version"], work)).toBe(`${manifest.version}\n`);
    for (const [, file = ""] of deploying.matchAll(/\/opt\/sign-in-service\/(node_modules\/[\w./-]+)/gu))
      expect([file, existsSync(join(prefix, file))]).toEqual([file, true]);
  }, 120_000);

  it("contains its license and changelog, its description and its Node version", () => {
    expect(manifest.license).toBe("MIT");
    expect(readFileSync(join(installed, "LICENSE"), "utf8")).toMatch(
      /^MIT License\n\nCopyright \(c\) \d{4} sign-in-service contributors\n/,
    );
    const changes = readFileSync(join(installed, "CHANGELOG.md"), "utf8");
    const versions = [...changes.matchAll(/^## \[(.+?)\]/gm)].map(([, version]) => version);
    // This version is not released yet.
    expect(versions[0]).toBe("Unreleased");
    expect(versions).not.toContain(manifest.version);
    expect(manifest.version).toBe("0.3.0");
    expect(manifest.keywords).toEqual(expect.arrayContaining(["oauth2", "openid-connect", "koa"]));
    const { version } = JSON.parse(readFileSync(join(root, "node_modules/node/package.json"), "utf8")) as {
      version: string;
    };
    expect(manifest.engines.node).toBe(`>=${version.split(".")[0]}`);
  });

  it("contains its program", () => {
    expect(Object.keys(manifest.bin)).toEqual([manifest.name]);
    const program = join(installed, manifest.bin[manifest.name] ?? "");
    expect(readFileSync(program, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
    expect(run(process.execPath, [program, "--help"], consumer)).toMatch(/^Usage: sign-in-service COMMAND/);
    const folder = join(consumer, "data");
    mkdirSync(folder);
    const { status, stderr } = spawnSync(
      process.execPath,
      [program, "storage", "copy", "sqlite:data/a.db", "sqlite:data/b.db"],
      { cwd: consumer, encoding: "utf8" },
    );
    expect([status, stderr]).toEqual([3, expect.stringContaining("data/a.db can't be opened: ENOENT")]);
  });

  it("tells what it needs on an older Node.js", () => {
    const program = join(installed, manifest.bin[manifest.name] ?? "");
    const older =
      "data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.11.0'}})";
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", older, program, "--help"], {
      encoding: "utf8",
    });
    expect([status, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^sign-in-service needs Node\.js 24 or newer, and this is 20\.11\.0\. .*\n$/);
    // Nothing that an older version may lack is imported before that.
    const imports = [...readFileSync(program, "utf8").matchAll(/^import (.*)/gm)].map(([, line]) => line);
    expect(imports).toEqual([
      'module from "node:module";',
      '{ setFlagsFromString } from "node:v8";',
      '{ olderNodeProblem } from "../core/node-version.js";',
    ]);
    const version = join(dirname(program), "../core/node-version.js");
    expect(readFileSync(version, "utf8")).not.toMatch(/^import /m);
  });

  it("the library says the same when it is started on an older Node.js", () => {
    const older =
      "data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.11.0'}})";
    for (const call of ["createSignInService", "createNotificationWorker"]) {
      const script = `import { ${call} } from "${manifest.name}"; await ${call}({}).catch(({ code, message }) => console.log(code, message));`;
      const output = run(
        process.execPath,
        ["--import", older, "--input-type=module", "--eval", script],
        consumer,
      );
      expect(output).toMatch(
        /^invalid_configuration sign-in-service needs Node\.js 24 or newer, and this is 20\.11\.0\. /,
      );
    }
  });

  it("has no problem that publint or arethetypeswrong finds, and depends on what it imports", () => {
    const tool = (...args: readonly string[]): readonly [number | null, string] => {
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
      return [status, stdout + stderr];
    };
    const tools = join(root, "node_modules");
    expect(tool(join(tools, "publint/src/cli.js"), "run", tarball, "--strict")).toEqual([
      0,
      expect.stringContaining("All good!"),
    ]);
    // The profile leaves out the resolution of Node 10, which does not know `exports`. The rule reports that require()
    // would need a dynamic import: not since Node 22.12, as the test of require() below shows.
    const ignored = ["--profile", "node16", "--ignore-rules", "cjs-resolves-to-esm", "--format", "ascii"];
    expect(tool(join(tools, "@arethetypeswrong/cli/dist/index.js"), tarball, ...ignored)).toEqual([
      0,
      expect.stringContaining("node16 (from CJS): 🟢 (ESM)"),
    ]);
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies };
    const code = Object.keys(declared).filter((name) => !name.startsWith("@types/"));
    expect(importedPackages()).toEqual(code.toSorted());
  });

  it("serves a configuration with npx, and the demo", async () => {
    const port = await freePorts();
    const url = `http://127.0.0.1:${port}`;
    const config = { port, deployments: { oauth2: { url } }, storage: "sqlite:./serve.db" };
    writeFileSync(join(consumer, "config.json"), JSON.stringify(config), { mode: 0o600 });
    const command = ["npx", "--offline", "--no", manifest.name, "serve", "--config", "config.json"];
    await runs(command, /listening on/, async () => {
      expect(await (await fetch(`${url}/health`)).json()).toEqual({ ok: true });
    });
    const demo = [join("node_modules", ".bin", manifest.name), "serve", "--demo", "--port", "0"];
    await runs(demo, /^ {2}Open +(\S+)\n[\s\S]*Ctrl\+C/m, async ([, client = ""]) => {
      expect(await (await fetch(client)).text()).toContain("News");
    });
  }, 30_000);

  it("runs: shows the login form, and hashes and compares passwords in threads", () => {
    writeFileSync(join(consumer, "service.mjs"), SERVICE);
    // The lines before it are the log, with one for each request.
    const printedLast = run(process.execPath, ["service.mjs"], consumer).trimEnd().split("\n").at(-1) ?? "";
    expect(JSON.parse(printedLast)).toEqual({
      form: true,
      right: true,
      wrong: false,
    });
  });

  it.each([
    ["node-test", ["--test", "session.test.js"]],
    ["jest", ["--experimental-vm-modules", "../node_modules/jest/bin/jest.js", "--rootDir=."]],
    ["vitest", ["../node_modules/vitest/vitest.mjs", "run"]],
  ])("tests what is built on it, in examples/testing/%s", (folder, args) => {
    const where = join(consumer, folder);
    cpSync(join(root, "examples", "testing", folder), where, { recursive: true });
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: where,
      encoding: "utf8",
      // Those of the runner around this test would confuse the runner of the example.
      env: { PATH: process.env["PATH"], CI: "true", NO_COLOR: "1" },
    });
    expect([status, stdout + stderr]).toEqual([
      0,
      expect.stringMatching(/(?:pass|passed) 3|(?:Tests:? +)[23] passed/),
    ]);
  });

  it("is made into an image by the steps of its Dockerfile, which serves and is well", async () => {
    const deploy = join(installed, "deploy");
    // Docker would send it, too, but for .dockerignore.
    writeFileSync(join(deploy, `${manifest.name}-2.tgz.secret`), "");
    cpSync(tarball, join(deploy, `${manifest.name}-1.tgz`));
    const folder = join(work, "image");
    mkdirSync(folder);
    const image = buildImage(join(deploy, "Dockerfile"), deploy, folder);
    expect(versionsIn(join(folder, "final/opt/sign-in-service/node_modules/.package-lock.json"))).toEqual(
      versionsIn(join(root, "package-lock.json")),
    );
    const port = String(await freePorts());
    const env = {
      PATH: process.env["PATH"] ?? "",
      ...image.env,
      HOST: "127.0.0.1",
      PORT: port,
      SIGN_IN_DEPLOYMENTS_OAUTH2_URL: "https://login.example",
      SIGN_IN_INTERACTIONS_THEME_NAME: "Example",
      SIGN_IN_PROXY: "1",
    };
    const start = ([program = "", ...args]: readonly string[]): ChildProcess =>
      spawn(program, args, { cwd: image.workdir, env, stdio: ["ignore", "pipe", "inherit"] });
    const server = start(image.command);
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("exit", (code) => reject(new Error(`ended with ${code}`)));
        server.stdout?.on("data", (text: Buffer) => void (text.includes("listening on") && resolve()));
      });
      expect(await once(start(image.healthcheck), "exit")).toEqual([0, null]);
      // What it wrote is in the folder for that, and nowhere else.
      expect(existsSync(join(image.workdir, "sign-in.db"))).toBe(true);
      expect(image.workdir).toMatch(/\/data$/);
    } finally {
      server.kill("SIGTERM");
      expect(await once(server, "exit")).toEqual([0, null]);
    }
    expect(await once(start(image.healthcheck), "exit")).toEqual([1, null]);
  }, 180_000);

  it("exports the description of the JSON interface [D-UI-3]", () => {
    const source = `
      import document from "sign-in-service/interactions.openapi.json" with { type: "json" };
      console.log(JSON.stringify([document.openapi, ...Object.keys(document.components.schemas)]));`;
    const [version, ...schemas] = printed(consumer, source) as unknown as string[];
    expect(version).toMatch(/^3\.1\./);
    expect(schemas).toEqual(expect.arrayContaining(["Step", "Done", "Error"]));
  });

  it("exports the same names to import and require()", () => {
    const list = JSON.stringify(entries);
    const esm = printed(
      consumer,
      `const found = {};
       for (const entry of ${list}) found[entry] = Object.keys(await import(entry));
       console.log(JSON.stringify(found));`,
    );
    const cjs = printed(
      commonjs,
      `const found = {};
       for (const entry of ${list}) found[entry] = Object.keys(require(entry));
       console.log(JSON.stringify(found));`,
    );
    expect(cjs).toEqual(esm);
    const names = Object.values(esm);
    expect(names).toHaveLength(entries.length);
    expect(names.filter((each) => each.length === 0)).toEqual([]);
  });

  it("has types for all of them, including those of other packages", () => {
    // Each of these lines must be an error. Without types, they would compile.
    const wrong = [
      ...entries.map((_entry, index) => `entry${index}.thereIsNoSuchName;`),
      "export const routes: number = service.routes();",
      "export const provider: number = service.provider;",
      "export const seed: Seed = { clients: 5 };",
      "export const client: NewClient = 5;",
    ];
    const right = [
      ...entries.map((entry, index) => `import * as entry${index} from "${entry}";`),
      `import type { NewClient, Seed } from "${manifest.name}";`,
      `declare const service: Awaited<ReturnType<typeof entry${entries.indexOf(manifest.name)}.createSignInService>>;`,
    ];
    const files = ["main.ts", join("commonjs", "main.ts")];
    for (const file of files) writeFileSync(join(consumer, file), [...right, ...wrong].join("\n"));
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2024"];
    const { stdout } = spawnSync(process.execPath, [tsc, ...options, ...files], {
      cwd: consumer,
      encoding: "utf8",
    });
    for (const file of files) {
      const lines = stdout.split("\n").filter((line) => line.startsWith(`${file}(`));
      expect(lines.map((line) => /\((\d+),.*error (TS\d+)/.exec(line)?.slice(1))).toEqual(
        wrong.map((text, index) => [
          String(right.length + index + 1),
          text.startsWith("export") ? "TS2322" : "TS2339",
        ]),
      );
    }
  });
});
