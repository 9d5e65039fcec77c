/** docs/customize/developing-a-ui.md: its Vite and its service, with the browser at Vite's address. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { namedBlock, ROOT } from "./documents.ts";
import { freePorts, type Running, start } from "./processes.ts";

const FOLDER = join(ROOT, ".cache/developing");
const CALLBACK = "http://127.0.0.1:4000/callback";
const SEED = {
  services: { 1: { name: "News" } },
  clients: [
    {
      client_id: "news",
      client_secret: "the secret of the news, of 32 and more",
      name: "News",
      service: "1",
      redirect_uris: [CALLBACK],
    },
  ],
  accounts: [{ email: "ada@example.com", username: "ada", password: "lovelace-1843" }],
};

let origin: string;
const running: Running[] = [];

/** A block of the document, with these ports. */
function block(name: string, ui: number, service: number): string {
  return namedBlock(name).code.replaceAll("5173", `${ui}`).replaceAll("3000", `${service}`);
}

beforeAll(async () => {
  const [ui, service] = [await freePorts(), await freePorts()];
  origin = `http://localhost:${ui}`;
  mkdirSync(FOLDER, { recursive: true });
  const config = JSON.parse(block("development.json", ui, service)) as object;
  writeFileSync(join(FOLDER, "vite.config.js"), block("vite.config.js", ui, service));
  writeFileSync(
    join(FOLDER, "development.json"),
    JSON.stringify({ ...config, storage: "sqlite::memory:", seed: SEED }),
  );
  const server = start("cli/main.ts", {
    args: ["serve", "--config", join(FOLDER, "development.json")],
  });
  const vite = start("node_modules/vite/bin/vite.js", {
    args: [join(ROOT, "examples/own-login/ui"), "--config", join(FOLDER, "vite.config.js")],
  });
  running.push(server, vite);
  await Promise.all([server.until(/listening on/), vite.until(/Local:/)]);
});
afterAll(async () => {
  await Promise.all(running.map((each) => each.stop()));
  rmSync(FOLDER, { recursive: true, force: true });
});

describe("a development server in front", () => {
  it("shows the page, and passes the sign-in on, with its cookies and its origin", async () => {
    const parameters = new URLSearchParams({
      response_type: "code",
      client_id: "news",
      redirect_uri: CALLBACK,
    });
    const browser = new Browser({ stopAt: CALLBACK, headers: { accept: "text/html" } });
    await browser.get(`${origin}/auth/oauth2/authorize?${parameters}`);
    expect([browser.status, browser.url.origin, browser.url.pathname]).toEqual([200, origin, "/login"]);
    expect(browser.html).toContain("@vite/client");
    const address = new URL(browser.url.searchParams.get("interaction") ?? "", origin).href;
    const visitor = new JsonVisitor(browser);
    const login = await visitor.get(address);
    expect(login.body.title).toBe("Sign in");
    const submit = login.body.actions.find(({ name }) => name === "submit");
    const href = new URL(submit?.href ?? "", origin).href;
    const entered = { csrf: login.body.csrf, username: "ada", password: "lovelace-1843" };
    const elsewhere = { headers: { origin: origin.replace("localhost", "127.0.0.1") } };
    const refused = await visitor.post(href, entered, elsewhere);
    expect([refused.status, refused.body.error_description]).toEqual([403, `Origin must be ${origin}`]);
    const done = await visitor.post(href, entered);
    expect([done.status, done.body.done]).toEqual([200, true]);
    await browser.get(done.body.location ?? "");
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("is set up for Next.js with the same paths", async () => {
    const file = join(FOLDER, "next.config.mjs");
    writeFileSync(file, block("next.config.mjs", 5173, 3000));
    const { default: config } = (await import(file)) as {
      default: { rewrites(): Promise<readonly object[]> };
    };
    expect(await config.rewrites()).toEqual([
      { source: "/auth/:path*", destination: "http://127.0.0.1:3000/auth/:path*" },
    ]);
  });
});
