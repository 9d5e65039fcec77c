/** Follows documents in an empty folder, with the package as `npm pack` makes it, and with their files as they stand there. */
import { linkSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { TestBrowser } from "../browser/chromium.ts";
import { packInto } from "../installed.ts";
import { type Block, blocks, ROOT } from "./documents.ts";
import { Reader } from "./reader.ts";

const { PATH = "" } = process.env;
/** Those of a terminal, but that nothing is fetched. */
const PROGRAMS = {
  npm: [
    `if [ "$1" = install ]; then shift; exec "${process.execPath}" "${join(ROOT, "test/examples/npm-install.ts")}" "$@"; fi`,
    `PATH="${PATH}" exec npm "$@"`,
  ].join("\n"),
  npx: `program="$1"; shift; exec "./node_modules/.bin/$program" "$@"`,
};

let work: string;
/** The file that `npm pack` makes in the repository. */
let packed: string;
let browser: TestBrowser;
let reader: Reader;

beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), "sign-in-installed-"));
  packed = packInto(work);
  browser = await TestBrowser.launch();
}, 120_000);
beforeEach(async () => {
  const place = mkdtempSync(join(work, "reader-"));
  mkdirSync(join(place, "sign-in-service"));
  linkSync(packed, join(place, "sign-in-service", basename(packed)));
  reader = await Reader.at(place, PROGRAMS);
});
afterEach(async () => {
  await reader.end();
  expect(await browser.settle()).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  rmSync(work, { recursive: true, force: true });
});

/** A block of a document. @param mark a line of it, or the text after its fence. */
function block(document: string, mark: string): Block {
  const found = blocks().filter(
    ({ name, info, code }) =>
      name.startsWith(`${document} `) && (info === mark || code.split("\n").includes(mark)),
  );
  if (found.length !== 1) throw new Error(`${document} has ${found.length} blocks with ${mark}`);
  return found[0]!;
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

describe("docs/pages.md", () => {
  it("has a complete page, which signs in at both deployments, and a program that serves it", async () => {
    reader.save(block("docs/pages.md", "html login.html"));
    reader.save(block("docs/pages.md", "js server.mjs"));
    await typeAndServe(block("docs/pages.md", "npx node server.mjs"), /listening/);
    const openid = `${AUTHORIZE.replace("/oauth2", "/openid/oauth2")}&scope=openid&redirect_uri=${CALLBACK}`;
    for (const address of [AUTHORIZE, openid]) {
      const page = await open(address);
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      expect(new URL(page.url()).pathname).toBe("/login");
      await signsIn(page, "lovelace-1843");
    }
    const lost = await open("http://localhost:3000/login?interaction=/elsewhere/interaction/1");
    await lost.getByText("sign in from there").waitFor();
  });
});
