/** `--config FILE` of every example: starts each with its own file and signs a user in. */
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { namedBlock, ROOT } from "./documents.ts";
import { freePorts, newFolder, type Running, start } from "./processes.ts";
import { configuration } from "./servers.ts";

const folder = newFolder();
const running: Running[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop("SIGKILL")));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Written {
  readonly file: string;
  readonly port: number;
  readonly url: string;
  /** The port after it. */
  readonly next: string;
}

/** A configuration in memory, with one account, and one client on the next port. */
async function write(change: (config: Record<string, unknown>, written: Written) => void): Promise<Written> {
  const port = await freePorts(4);
  const url = `http://localhost:${port}`;
  const written = { file: join(folder, `${port}.json`), port, url, next: `http://localhost:${port + 1}` };
  const config = { ...configuration(url), storage: "sqlite::memory:", port };
  change(config, written);
  writeFileSync(written.file, JSON.stringify(config));
  return written;
}

function run(script: string, ...args: string[]): Running {
  const example = start(script, { args });
  running.push(example);
  return example;
}

/** Gives the client of the seed these redirect URIs. */
function redirect(config: Record<string, unknown>, ...redirect_uris: string[]): void {
  const { clients } = config["seed"] as { clients: object[] };
  Object.assign(clients[0]!, { redirect_uris });
}

function signIn(browser: Browser): Promise<Browser> {
  return browser.submit(browser.form("password"), { username: "ada", password: "analytical-engine" });
}

const credentials = (name: string) => ({ client_id: name, client_secret: `the secret of ${name}` });

describe("--config FILE", () => {
  it("of the minimal example", async () => {
    const { file, url } = await write(() => undefined);
    const example = run("examples/minimal.ts", "--config", file);
    const [, address = ""] = await example.until(/at (http:\S+)/);
    expect(address.startsWith(`${url}/oauth2/authorize?`)).toBe(true);
    const browser = new Browser({ stopAt: "http://127.0.0.1:3001/callback" });
    await browser.get(address);
    await signIn(browser);
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{20,}$/);
    await expect(example.stop()).resolves.toBe(0);
  });

  it("of the embedding example, with any prefix", async () => {
    const { file, url } = await write((config, written) => {
      config["deployments"] = { oauth2: { url: `${written.url}/members` } };
      redirect(config, `${written.url}/callback`);
    });
    const example = run("examples/embed.ts", "--config", file);
    await example.until(/at http:\S+/);
    const browser = await new Browser().get(url);
    await browser.click("Sign in");
    expect(browser.url.pathname).toMatch(/^\/members\/interaction\//);
    await signIn(browser);
    expect(JSON.parse(browser.html)).toMatchObject({ email: "ada@example.com", name: "Ada" });
    await expect(example.stop()).resolves.toBe(0);
  });

  it("of the client, with a service that uses the same file", async () => {
    const { file, next } = await write((config, written) => {
      redirect(config, `${written.next}/callback`, `${written.next}/callback/openid`);
    });
    const server = run("cli/main.ts", "serve", "--config", file);
    await server.until(/listening on/);
    const client = run("examples/client/main.ts", "--config", file);
    await client.until(/The client is at/);
    for (const way of ["OAuth 2.0", "OpenID Connect"]) {
      const browser = await new Browser().get(next);
      await browser.click(`Sign in with ${way}`);
      await signIn(browser);
      expect([browser.url.href, browser.title]).toEqual([`${next}/`, "Hello, Ada"]);
      // The additions of the demo are missing.
      expect(browser.html).not.toContain("/demo/");
    }
    await expect(client.stop("SIGINT")).resolves.toBe(0);
  });

  it("of the receiver, with the paths and credentials of the seed", async () => {
    const { file, port } = await write((config, written) => {
      const receiver = (path: string) => ({
        url: `http://127.0.0.1:${written.port + 2}/${path}`,
        ...credentials(path),
        types: ["PROFILE_CHANGED"],
      });
      config["seed"] = {
        groups: { media: { name: "Media", receiver: receiver("media") } },
        services: {
          "1": { name: "News", receiver: receiver("news") },
          // The same URL, with different credentials.
          "4": { name: "Shop", receiver: { ...receiver("news"), ...credentials("shop") } },
          "2": { name: "Far", receiver: { ...receiver("far"), url: "https://far.example/notify" } },
        },
      };
    });
    const receiver = run("examples/receiver/main.ts", "--config", file);
    const [, output = ""] = await receiver.until(/receiving notifications at (.*)\n/);
    const origin = `http://127.0.0.1:${port + 2}`;
    expect(output).toBe(`${origin}/media and ${origin}/news`);
    const post = async (path: string, client: string): Promise<number> => {
      const authorization = `Basic ${Buffer.from(`${client}:the secret of ${client}`).toString("base64")}`;
      const data = {
        user_id: 1,
        user_uuid: "b5c6ab5e-0e4c-4d7c-8f0a-4f3e8d9f2c11",
        user_email: "ada@example.com",
        timestamp: 1,
        services: {},
      };
      const { status } = await fetch(`${origin}/${path}`, {
        method: "POST",
        headers: { authorization, "webhook-id": `of-${client}`, "content-type": "application/json" },
        body: JSON.stringify({ notification_type: "PROFILE_CHANGED", data }),
      });
      return status;
    };
    expect([await post("media", "media"), await post("news", "news")]).toEqual([200, 200]);
    expect([await post("news", "shop"), await post("media", "shop")]).toEqual([200, 401]);
    expect([await post("media", "news"), await post("other", "news")]).toEqual([401, 404]);
    await receiver.until(/^group:media {2}PROFILE_CHANGED .* of-media$/m);
    await receiver.until(/^service:1 {2}PROFILE_CHANGED .* of-news$/m);
    await receiver.until(/^service:4 {2}PROFILE_CHANGED .* of-shop$/m);
  });
});

describe("the file of docs/start/try-the-demo.md", () => {
  it("starts the server, the client and the receiver of its seed, and a service of another example", async () => {
    const port = await freePorts(4);
    const block = namedBlock("a-file-for-the-demo");
    const moved = [0, 1, 2].reduce(
      (text, step) => text.replaceAll(String(3000 + step), String(port + step)),
      block.code,
    );
    const file = join(folder, "getting-started.json");
    writeFileSync(file, moved.replace("sqlite:./data/sign-in.db", "sqlite::memory:"));
    const server = run("cli/main.ts", "serve", "--config", file);
    await server.until(/listening on/);
    const client = run("examples/client/main.ts", "--config", file);
    const receiver = run("examples/receiver/main.ts", "--config", file);
    await Promise.all([client.until(/The client is at/), receiver.until(/receiving notifications at/)]);
    for (const way of ["OAuth 2.0", "OpenID Connect"]) {
      const browser = await new Browser().get(`http://localhost:${port + 1}`);
      await browser.click(`Sign in with ${way}`);
      const [{ username, password }] = JSON.parse(moved).seed.accounts;
      await browser.submit(browser.form("password"), { username, password });
      expect(browser.url.href).toBe(`http://localhost:${port + 1}/`);
    }
    await Promise.all([client.stop(), receiver.stop(), server.stop()]);
    const minimal = run("examples/minimal.ts", "--config", file);
    await minimal.until(/Sign in at/);
    await expect(minimal.stop()).resolves.toBe(0);
  });
});

const EXAMPLES = [
  "examples/minimal.ts",
  "examples/embed.ts",
  "examples/client/main.ts",
  "examples/receiver/main.ts",
];

describe.each(EXAMPLES)("%s", (script) => {
  it("has --help, and reports invalid arguments and files", async () => {
    const help = run(script, "--help");
    expect([await help.ended, help.output()]).toEqual([0, expect.stringContaining("--config FILE")]);
    const ends = async (code: number, sentence: RegExp, ...args: string[]): Promise<void> => {
      const wrong = run(script, ...args);
      expect([args, await wrong.ended]).toEqual([args, code]);
      expect(wrong.output()).toMatch(sentence);
      expect(wrong.output()).not.toMatch(/\n {4}at |hunter2/);
    };
    const { file } = await write((config) => Object.assign(config, { storrage: "hunter2" }));
    await ends(2, /^Unknown option '--confg'; did you mean --config\? See --help\.\n$/, "--confg", file);
    await ends(2, /^config\.storrage: unknown key.*storage.*\n$/, "--config", file);
  });
});

describe("an example with an incomplete configuration", () => {
  it.each([
    ["examples/embed.ts", "The configuration must have an oauth2 deployment, and a client in its seed."],
    ["examples/client/main.ts", "FILE must have both deployments, and a client in its seed."],
    ["examples/receiver/main.ts", "FILE has no receiver in its seed with an http URL on this machine."],
  ])("%s", async (script, sentence) => {
    const { file } = await write((config) => Object.assign(config, { seed: {} }));
    const wrong = run(script, "--config", file);
    expect([await wrong.ended, wrong.output()]).toEqual([1, `${sentence.replace("FILE", file)}\n`]);
  });

  it("examples/client/main.ts names the missing redirect URI", async () => {
    const { file, next } = await write((config, written) => redirect(config, `${written.next}/callback`));
    const wrong = run("examples/client/main.ts", "--config", file);
    expect([await wrong.ended, wrong.output()]).toEqual([
      1,
      `${file} must register the redirect URI ${next}/callback/openid for news.\n`,
    ]);
  });

  it("refuses the secrets of the examples in production", async () => {
    const text = readFileSync(join(ROOT, "examples/minimal.json"), "utf8");
    const file = join(folder, "production.json");
    const deployments = { oauth2: { url: "https://login.example" } };
    const interactions = { theme: { name: "Example" } };
    const config = { ...JSON.parse(text), deployments, interactions, proxy: false };
    writeFileSync(file, JSON.stringify({ ...config, storage: "sqlite:./sign-in.db" }));
    for (const script of ["examples/minimal.ts", "examples/embed.ts"]) {
      const wrong = run(script, "--config", file);
      expect(await wrong.ended).toBe(2);
      expect(wrong.output()).toContain("config.seed.accounts[0].password: is public in the examples");
    }
  });
});

describe("a port in use", () => {
  it.each([
    ["examples/minimal.ts", undefined],
    ["examples/embed.ts", undefined],
    ["examples/own-login/main.ts", undefined],
    ["examples/own-views/main.ts", undefined],
    ["examples/theme/main.ts", undefined],
    ["examples/client/main.ts", undefined],
    ["examples/receiver/main.ts", "--port"],
  ])("is one sentence of %s", async (script, option) => {
    const taken = createServer().listen(0, "127.0.0.1");
    try {
      await once(taken, "listening");
      const { port } = taken.address() as AddressInfo;
      const args = option === undefined ? [] : [option, String(port)];
      const example = start(script, { args, env: { PORT: String(port) } });
      running.push(example);
      const way = option === undefined ? "the environment variable PORT" : `${option} N`;
      const sentence = `Port ${port} is in use: choose another one with ${way}.\n`;
      expect([await example.ended, example.output()]).toEqual([1, sentence]);
    } finally {
      taken.close();
    }
  });
});
