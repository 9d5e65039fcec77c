/** Follows documents in an empty folder, with the package as `npm pack` makes it, and with their files as they stand there. */
import { linkSync, mkdirSync, mkdtempSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { useBrowser } from "../browser/chromium.ts";
import { packInto } from "../installed.ts";
import { type Block, blocksOf, namedBlock, ROOT } from "./documents.ts";
import { Reader, stepsOf } from "./reader.ts";
import { newFolder } from "../closing.ts";

const { PATH = "" } = process.env;
const REPOSITORY = "sign-in-service";
/** Those of a terminal, but that nothing is fetched. */
const PROGRAMS = {
  npm: [
    // The file is there already.
    `if [ "$1" = pack ]; then exec ls sign-in-service-*.tgz; fi`,
    `if [ "$1" = install ]; then shift; exec "${process.execPath}" "${join(ROOT, "test/examples/npm-install.ts")}" "$@"; fi`,
    `PATH="${PATH}" exec npm "$@"`,
  ].join("\n"),
  npx: `program="$1"; shift; exec "./node_modules/.bin/$program" "$@"`,
};

let work: string;
/** The file that `npm pack` makes in the repository. */
let packed: string;
const browser = useBrowser();
let reader: Reader;

beforeAll(async () => {
  work = newFolder();
  packed = packInto(work);
}, 120_000);
beforeEach(async () => {
  reader = await newReader();
});
afterEach(async () => {
  await reader.end();
});

/** A person with the repository, whose terminal is open in this folder beside it. */
async function newReader(folder?: string): Promise<Reader> {
  const place = mkdtempSync(join(work, "reader-"));
  mkdirSync(join(place, REPOSITORY));
  linkSync(packed, join(place, REPOSITORY, basename(packed)));
  symlinkSync(join(ROOT, "examples"), join(place, REPOSITORY, "examples"));
  return Reader.at(place, PROGRAMS, folder);
}

/** Types all commands of a block, of which the last one goes on running. */
async function typeAndServe({ code }: Block, ready: RegExp): Promise<void> {
  const lines = code.trimEnd().split("\n");
  await reader.type(lines.slice(0, -1).join("\n"));
  await reader.serve(lines.at(-1) ?? "", ready);
}

/** Opens an address of a document. */
async function open(address: string): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(reader.filled(address));
  return page;
}

async function enter(page: Page, password: string): Promise<void> {
  await page.getByLabel("Username or email address").fill("ada");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

/** Signs in, after a wrong password. The client does not exist. */
async function signsIn(page: Page, password: string): Promise<void> {
  await enter(page, "not this password");
  await page.getByText("Wrong username or password.").first().waitFor();
  const back = page.waitForRequest((request) => request.url().startsWith(reader.filled(`${CALLBACK}?code=`)));
  await enter(page, password);
  await back;
}

const CALLBACK = "http://localhost:3001/callback";
const AUTHORIZE = "http://localhost:3000/oauth2/authorize?client_id=news&response_type=code&state=abc";
/** The same request to the two deployments. */
const BOTH = [
  AUTHORIZE,
  `${AUTHORIZE.replace("/oauth2", "/openid/oauth2")}&scope=openid&redirect_uri=${CALLBACK}`,
];

/** A service in the folder of the first hour, with Ada. @param more for its configuration. */
async function firstHour(more: (config: Json) => Json): Promise<void> {
  await reader.type(
    "npm init --yes\nnpm install node@24 ../sign-in-service/*.tgz\nnpx sign-in-service init --yes --url http://localhost:3000",
  );
  const config = more(JSON.parse(reader.read("sign-in.json")) as Json);
  reader.save({ file: undefined, code: JSON.stringify(config) }, "sign-in.json");
  await reader.serve("npx sign-in-service serve", /listening on/);
  const created = await reader.type(
    "npx sign-in-service accounts create --email ada@example.com --username ada --json",
  );
  const { sub } = JSON.parse(created) as { readonly sub: string };
  reader.save({ file: undefined, code: "lovelace-1843" }, "password.txt");
  await reader.type(`npx sign-in-service accounts set-password ${sub} < password.txt`);
}

type Json = Readonly<Record<string, unknown>>;

const REGISTER = `npx sign-in-service services put 1 --name News
  npx sign-in-service clients register --client-id news --name News --service 1 --redirect-uri ${CALLBACK}`;

describe("README.md", () => {
  it("installs the package, shows the demo, and runs its program beside it", async () => {
    reader = await newReader(REPOSITORY);
    const { code } = namedBlock("install-and-try");
    const lines = code.trimEnd().split("\n");
    await reader.type(lines.slice(0, -1).join("\n"));
    await reader.serve(`env PORT=3000 ${lines.at(-1) ?? ""}`, /Ctrl\+C stops it/);
    const demo = await open("http://localhost:3001");
    await demo.getByText("You are not signed in.").waitFor();
    await reader.end();

    expect(reader.read("package.json")).toContain('"type": "commonjs"');
    reader.save(namedBlock("first-program"));
    await typeAndServe(namedBlock("start-the-first-program"), /set this in your client/);
    const request = `client_id=news-web&response_type=code&scope=openid&redirect_uri=${CALLBACK}`;
    await signsIn(await open(`http://localhost:3000/oauth2/authorize?${request}`), "lovelace-1843");
  });
});

describe("docs/start/embed-in-koa.md", () => {
  it("has a program that runs in an empty folder, beside a page of its own, and signs in", async () => {
    reader.save(namedBlock("embed-in-koa"));
    await typeAndServe(namedBlock("start-the-embedded-service"), /ready/);
    const page = await open("http://localhost:3000/");
    await page.getByText("my own page").waitFor();
    const account = await open("http://localhost:3000/auth/account");
    await enter(account, "lovelace-1843");
    await account.getByText("ada@example.com").first().waitFor();
  });

  it.each([
    ["without koa-mount", "main.mts", / koa-mount/, /Cannot find package 'koa-mount'/],
    ["in a file that is no module", "main.ts", /^$/, /outside a module|ERR_/],
  ])("would not run %s, which this test sees", async (_how, file, removed, message) => {
    reader.save(namedBlock("embed-in-koa"), file);
    const { code } = namedBlock("start-the-embedded-service");
    const typed = code.replace(removed, "").replace("main.mts", file);
    await expect(reader.type(typed)).rejects.toThrow(message);
  });
});

describe("docs/notifications/receive.md", () => {
  it("has a receiver that starts in an empty folder, and refuses what is not signed", async () => {
    reader.save(namedBlock("receive-with-koa"));
    await typeAndServe(namedBlock("start-the-receiver"), /ready/);
    const unsigned = await fetch(reader.filled("http://localhost:3000/notify"), {
      method: "POST",
      body: "{}",
    });
    expect(unsigned.status).toBe(401);
  });
});

describe("docs/customize/own-sign-in-page.md", () => {
  it("has a complete page, which signs in at both deployments, and a program that serves it", async () => {
    reader.save(namedBlock("login.html"));
    reader.save(namedBlock("server.mjs"));
    await typeAndServe(namedBlock("start-your-page"), /listening/);
    for (const address of BOTH) {
      const page = await open(address);
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      expect(new URL(page.url()).pathname).toBe("/login");
      await signsIn(page, "lovelace-1843");
    }
    const lost = await open("http://localhost:3000/login?interaction=/elsewhere/interaction/1");
    await lost.getByText("sign in from there").waitFor();
  });
});

describe("docs/customize/replace-views.md", () => {
  it("has views that sign in in the folder of the first hour", async () => {
    for (const name of ["views/brand.ejs", "views/login.ejs"]) reader.save(namedBlock(name));
    const { interactions } = JSON.parse(namedBlock("use-own-views").code) as {
      readonly interactions: object;
    };
    await firstHour((config) => ({
      ...config,
      interactions: { ...(config["interactions"] as object), ...interactions },
    }));
    await reader.type(REGISTER);
    for (const address of BOTH) {
      const page = await open(address);
      await page.locator('img[src="/static/logo.svg"]').waitFor({ state: "attached" });
      await signsIn(page, "lovelace-1843");
    }
  });
});

describe("docs/customize/developing-a-ui.md", () => {
  it("has a development server in front, with the complete page", async () => {
    reader.save(namedBlock("development.json"), "development.json");
    reader.save(namedBlock("vite.config.js"));
    const page = namedBlock("login.html");
    const adapted = page.code
      .replace('"/passkeys.js"', '"sign-in-service/browser"')
      .replace(String.raw`(\/openid)?`, String.raw`(\/auth(\/openid)?)`);
    reader.save({ ...page, code: adapted });
    await reader.type("npm init --yes\nnpm install node@24 ../sign-in-service/*.tgz");
    await reader.serve(namedBlock("serve-for-development").code.trim(), /listening on/);
    const config = "--config development.json";
    await reader.type(REGISTER.replaceAll(/$/gm, ` ${config}`));
    const created = await reader.type(
      `npx sign-in-service accounts create --email ada@example.com --username ada --json ${config}`,
    );
    reader.save({ file: undefined, code: "lovelace-1843" }, "password.txt");
    const { sub } = JSON.parse(created) as { readonly sub: string };
    await reader.type(`npx sign-in-service accounts set-password ${sub} ${config} < password.txt`);
    await typeAndServe(namedBlock("start-vite"), /Local:/);
    const opened = await open(AUTHORIZE.replace("3000", "5173/auth"));
    expect(new URL(opened.url()).pathname).toBe("/login");
    await signsIn(opened, "lovelace-1843");
  });
});

describe("docs/connect/sign-in/your-server.md", () => {
  it.each(["express", "koa"])("has a program with %s that signs people in", async (framework) => {
    const { seed } = JSON.parse(namedBlock("seed-with-an-application").code) as Json;
    await firstHour((config) => ({ ...config, seed }));
    await reader.type("mkdir ../application && cd ../application");
    await reader.type(namedBlock("install-for-an-application").code);
    reader.save(namedBlock(`examples/your-application/${framework}.ts`), "app.mts");
    const { code } = namedBlock(`start-${framework}`);
    const [install = "", ...run] = code.trimEnd().split("\n");
    await reader.type(install);
    await reader.serve(`env ${run.join("\n")}`, /listening on/);
    const page = await open("http://localhost:3001/account");
    await enter(page, "lovelace-1843");
    await page.getByText("ada@example.com").waitFor();
    expect(page.url()).toBe(reader.filled("http://localhost:3001/account"));
  });
});

/** Follows the console blocks of a page, and makes its folder. @returns the last line of that block. */
async function inItsOwnFolder(document: string): Promise<string> {
  for (const step of stepsOf(document)) await reader.follow(step);
  const found = blocksOf(document).find(({ code }) => code.startsWith("mkdir "));
  const lines = found?.code.trimEnd().split("\n") ?? ["false"];
  await reader.type(lines.slice(0, -1).join("\n"));
  return lines.at(-1) ?? "";
}

describe("what can be built on the first hour", () => {
  beforeEach(async () => {
    await firstHour((config) => config);
    await reader.type(
      "npx sign-in-service services put news --name News && npx sign-in-service accounts assign ada news",
    );
  });

  it("runs in folders of its own: an API and its job, a program, and a page", async () => {
    const api = await inItsOwnFolder("protect-an-api");
    await reader.serve(`env PORT=3001 ${api}`, /Listening/);
    expect(await reader.type(namedBlock("run-the-job").code)).toMatch(/^200 .*First article/);

    await reader.type("cd ../sign-in");
    const program = await reader.serve(await inItsOwnFolder("native-applications"), /http:\S+/);
    const [address = ""] = await program.until(/http:\S+/);
    const first = await browser.newPage();
    await first.goto(address);
    await enter(first, "lovelace-1843");
    await first.getByText("Done.").waitFor();
    expect(await program.ended).toBe(0);
    expect(program.output()).toContain("Signed in as ada@example.com");

    await reader.type("cd ../sign-in");
    await reader.type(await inItsOwnFolder("browser-applications"));
    const html = reader.read("index.html");
    const filled = html.replace("{issuer}", "http://localhost:3000/openid").replace("{client_id}", "spa");
    reader.save({ file: undefined, code: filled }, "index.html");
    await reader.serve("npx vite --port 5173", /Local:/);
    const page = await open("http://localhost:5173");
    await page.getByRole("button", { name: "Sign in" }).click();
    await enter(page, "lovelace-1843");
    await page.getByText("ada@example.com").waitFor();
  });
});
