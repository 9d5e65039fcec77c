/** Error messages of the bundled server about its arguments, its file and its environment. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { readConfigFile } from "../../../cli/server/config-file.ts";
import { ROOT } from "../../examples/documents.ts";
import { freePorts } from "../../examples/processes.ts";
import { configuration, Servers } from "../../examples/servers.ts";
import { here } from "../here.ts";

const servers = new Servers();

/** Runs a command in this process, which refuses it. */
async function refusedHere(...words: readonly string[]): Promise<readonly [number, string]> {
  const { code, out, err } = await here(words);
  return [code, out + err];
}

/** Whether something answers at this address of the machine. A listener on all addresses answers at each. */
async function answersAt(host: string, port: number): Promise<boolean> {
  try {
    await fetch(`http://${host}:${port}/health`);
    return true;
  } catch {
    return false;
  }
}

describe("the command line", () => {
  it.each([
    [["serve", "--confg", "x.json"], "Unknown option '--confg'; did you mean --config? See --help."],
    [["serve", "--config"], "--config needs a value. See --help."],
    [["serve", "--config="], "--config needs the name of a file. See --help."],
    [["serve", "--demo", "--port", "http"], "--port must be a whole number from 0 to 65535. See --help."],
    [["serve", "--demo", "--port", "65536"], "--port must be a whole number from 0 to 65535. See --help."],
    [["serve", "--demo", "--metrics-port", "1"], "--metrics-port requires a configuration. See --help."],
    [
      ["serve", "--demo", "--receiver-fail=-1"],
      "--receiver-fail must be a whole number from 0 to 1000000000. See --help.",
    ],
    [
      ["serve", "--demo", "--receiver-status", "99"],
      "--receiver-status must be a whole number from 200 to 599. See --help.",
    ],
    [
      ["serve", "--demo", "--receiver-slow", "1s"],
      "--receiver-slow must be a number from 0 to 3600. See --help.",
    ],
    [
      ["serve", "--demo", "--no-receiver", "--receiver-close"],
      "--receiver-close can't be used with --no-receiver. See --help.",
    ],
    [["serve", "--config", "x.json", "--no-client"], "--no-client can't be used with --config. See --help."],
    [["serve", "--no-client"], "--no-client requires --demo. See --help."],
    [
      ["serve", "config.json"],
      "Too many arguments: 'config.json'. serve takes none; put quotes around a value with spaces. See --help.",
    ],
    [
      ["serve"],
      "There is no configuration: make one with sign-in-service init and name it with --config FILE, or try the service with serve --demo.",
    ],
    [["worker", "--config", "none.json"], "none.json does not exist."],
    [
      ["worker", "--config", "none.json", "--metrics-port", "-1"],
      "--metrics-port must be a whole number from 0 to 65535. See --help.",
    ],
  ])("%j: one sentence", async (words, sentence) => {
    await expect(refusedHere(...words)).resolves.toEqual([2, `${sentence}\n`]);
  });

  it("npm start is the demo, takes a configuration, and has --help", async () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      readonly scripts: { readonly start: string };
    };
    const [node, program, ...words] = scripts.start.split(" ");
    expect([node, program]).toEqual(["node", "cli/main.ts"]);
    // What npm start -- --config FILE and --help add.
    await expect(refusedHere(...words, "--config", "none.json")).resolves.toEqual([
      2,
      "none.json does not exist.\n",
    ]);
    await expect(refusedHere(...words, "--help")).resolves.toEqual([
      0,
      expect.stringContaining("--receiver-close"),
    ]);
  });
});

describe("the address that a server listens on", () => {
  it("is the loopback while all URLs are on loopback, unless host, HOST or --host says otherwise", async () => {
    const port = await freePorts();
    const config = { ...configuration(`http://localhost:${port}`), port };
    const listening = async (
      file: object,
      { args = [], env = {} }: { readonly args?: string[]; readonly env?: Record<string, string> } = {},
    ): Promise<readonly boolean[]> => {
      const server = servers.run(["--config", servers.write({ ...config, ...file }), ...args], { env });
      await server.until(/listening on/);
      const answers = await Promise.all(
        ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map((host) => answersAt(host, port)),
      );
      await server.stop();
      return answers;
    };
    expect(await listening({})).toEqual([true, false, false]);
    expect(await listening({ host: "127.0.0.2" })).toEqual([false, true, false]);
    const env = { SIGN_IN_HOST: "127.0.0.3" };
    expect(await listening({ host: "127.0.0.2" }, { env })).toEqual([false, false, true]);
    expect(await listening({}, { env: { ...env, HOST: "127.0.0.2" } })).toEqual([false, true, false]);
    const args = ["--host", "0.0.0.0"];
    expect(await listening({}, { args, env: { HOST: "127.0.0.2" } })).toEqual([true, true, true]);
  }, 60_000);

  it("is every address if a URL is not on loopback, so that a proxy on another machine can reach it", async () => {
    const port = await freePorts();
    const file = servers.write({
      deployments: { oauth2: { url: "https://login.example" } },
      interactions: { theme: { name: "Example" } },
      proxy: 1,
      storage: "sqlite:./public.db",
      port,
    });
    const server = servers.run(["--config", file]);
    await server.until(/listening on/);
    expect(await answersAt("127.0.0.2", port)).toBe(true);
    await server.stop();
  });

  it("must be an address or a name", async () => {
    expect(await refusedHere("serve", "--demo", "--host", "http://x")).toEqual([
      2,
      expect.stringMatching(/^--host must be an IP address/u),
    ]);
    const file = servers.write({ ...configuration("http://127.0.0.1:3000"), host: "127.0.0.0/8" });
    expect(await servers.refused(["--config", file])).toEqual({
      code: 2,
      output: "config.host: must be an IP address or a host name in lower case\n",
    });
  });
});

describe("a server that can't start", () => {
  it("lists every problem of the file, without values", async () => {
    const config = configuration("http://127.0.0.1:3000");
    const file = servers.write({
      ...config,
      port: 70_000,
      stroage: "sqlite:x",
      lifetimes: { accessToken: "hunter2" },
      seed: { services: { "1": { name: "News", grup: "media" } }, accounts: [{ email: "ada" }] },
    });
    const { code, output } = await servers.refused(["--config", file]);
    expect(code).toBe(2);
    expect(output.trimEnd().split("\n")).toEqual([
      "config.port: must be a whole number from 0 to 65535",
      expect.stringMatching(/^config\.lifetimes\.accessToken: must be a whole number/),
      expect.stringMatching(/^config\.stroage: unknown key.*storage/),
      expect.stringMatching(/^config\.seed\.services\.1.*grup/),
      expect.stringMatching(/^config\.seed\.accounts\[0\]\.email/),
    ]);
    expect(output).not.toContain("hunter2");
  });

  it.each([
    ["missing.json", undefined, "FILE does not exist."],
    [".", undefined, "FILE is a folder."],
    [
      "broken.json",
      '{\n  "port": 3000\n  "seed": {}\n}',
      "FILE is not valid JSON: line 3, column 3: expected a comma or }.",
    ],
    ["twice.json", '{ "port": 1, "port": 2 }', "FILE is not valid JSON: line 1, column 14: duplicate key."],
    ["list.json", "[]", "FILE must contain a JSON object."],
  ])("%s: one sentence", async (name, text, sentence) => {
    if (text !== undefined) servers.write(text, name);
    const path = join(servers.folder, name);
    await expect(readConfigFile(path)).rejects.toThrow(sentence.replace("FILE", path));
  });

  it("exits with 2 after one sentence", async () => {
    const output = "missing.json does not exist.\n";
    const server = servers.run(["--config", "missing.json"]);
    expect({ code: await server.ended, output: server.output() }).toEqual({ code: 2, output });
  });

  it("says which port is in use and how to choose another, without opening the storage", async () => {
    const taken = createServer();
    const port = await freePorts();
    await new Promise<void>((resolve) => void taken.listen(port, "127.0.0.1", resolve));
    const file = servers.write({
      ...configuration(`http://127.0.0.1:${port}`),
      storage: "sqlite:./untouched.db",
    });
    const sentence = `Port ${port} is in use: choose another one with --port N or the environment variable PORT.\n`;
    const env = { HOST: "127.0.0.1" };
    try {
      await expect(servers.refused(["--config", file, "--port", `${port}`], { env })).resolves.toEqual({
        code: 1,
        output: sentence,
      });
      await expect(servers.refused(["--demo", "--port", `${port}`])).resolves.toEqual({
        code: 1,
        output: sentence,
      });
    } finally {
      await new Promise((resolve) => void taken.close(resolve));
    }
    expect(() => readFileSync(join(servers.folder, "untouched.db"))).toThrow("ENOENT");
  });

  it("accepts no connections while it waits for its databases, so that a proxy uses another process", async () => {
    const silent = createServer();
    const [port, redisPort] = [await freePorts(), await freePorts()];
    await new Promise<void>((resolve) => void silent.listen(redisPort, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${port}`;
    const file = servers.write({
      ...configuration(url),
      port,
      artifacts: `redis://127.0.0.1:${redisPort}`,
    });
    const isAsked = new Promise<Socket>((resolve) => void silent.once("connection", resolve));
    const server = servers.run(["--config", file], { env: { HOST: "127.0.0.1" } });
    const connection = await isAsked;
    await expect(fetch(url)).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    await expect(server.stop()).resolves.toBe(0);
    connection.destroy();
    await new Promise((resolve) => void silent.close(resolve));
  });

  it("reports invalid environment variables", async () => {
    await expect(servers.refused(["--demo"], { env: { PORT: "http", LOG_LEVEL: "loud" } })).resolves.toEqual({
      code: 2,
      output: expect.stringMatching(/^environment\.PORT: .*\nenvironment\.LOG_LEVEL: .*\n$/),
    });
  });

  it("asks for `proxy` with an https deployment [D-CALLER-1]", async () => {
    const interactions = { theme: { name: "Example" } };
    const file = servers.write({ deployments: { oauth2: { url: "https://login.example" } }, interactions });
    await expect(servers.refused(["--config", file])).resolves.toEqual({
      code: 2,
      output: expect.stringMatching(/^config\.proxy: is required with an https deployment: [^\n]+\n$/),
    });
  });

  it("refuses the password and the secret of the examples in production [D-RUN-1]", async () => {
    const demo = JSON.parse(readFileSync(join(import.meta.dirname, "../../../cli/demo/demo.json"), "utf8"));
    const deployments = { oauth2: { url: "https://login.example" } };
    const file = servers.write({
      ...demo,
      deployments,
      interactions: { ...demo.interactions, theme: { name: "Example" } },
      proxy: false,
      mail: "smtp://mail.example",
    });
    await expect(servers.refused(["--config", file])).resolves.toEqual({
      code: 2,
      output: [
        "portals.main.receiver.client_secret",
        "groups.media.receiver.client_secret",
        "groups.media.receiver.signing_secret",
        "services.3.receiver.client_secret",
        "accounts[0].password",
        "clients[0].client_secret",
      ]
        .map((path) => `config.seed.${path}: is public in the examples; choose another one\n`)
        .join(""),
    });
  });

  it("refuses the signing secret of the documentation in production, also beside another [D-EVENT-8]", async () => {
    const example = "whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlciBvZiB0aGUgY3Jt";
    const secret = `whsec_${"A".repeat(32)} ${example}`;
    const file = servers.write({
      deployments: { oauth2: { url: "https://login.example" } },
      interactions: { theme: { name: "Example" } },
      proxy: false,
      events: {
        receivers: {
          crm: { url: "https://crm.example", signing_secret: secret, types: ["account.deleted"] },
        },
      },
    });
    await expect(servers.refused(["--config", file])).resolves.toEqual({
      code: 2,
      output: "config.events.receivers.crm.signing_secret: is public in the examples; choose another one\n",
    });
  });

  it("refuses a file with keys.secrets that other users can read, like a key file", async () => {
    const keys = { secrets: [Buffer.alloc(32, 9).toString("base64")] };
    const file = servers.write({ ...configuration("http://127.0.0.1:3000"), keys });
    const path = join(servers.folder, file);
    for (const mode of [0o604, 0o644, 0o666]) {
      chmodSync(path, mode);
      expect(await servers.refused(["--config", file])).toEqual({
        code: 2,
        output:
          "config.json contains keys.secrets and can be used by other users of this machine: chmod 600 it.\n",
      });
      for (const command of ["accounts list", "keys list", "config check", "worker"])
        expect(await refusedHere(...command.split(" "), "--config", path)).toEqual([
          2,
          expect.stringMatching(/contains keys\.secrets and can be used/u),
        ]);
    }
    // A group is chosen; all others are not.
    chmodSync(path, 0o640);
    expect(await refusedHere("config", "check", "--config", path)).toMatchObject([
      0,
      "The configuration is valid.\n",
    ]);
    writeFileSync(path, JSON.stringify(configuration("http://127.0.0.1:3000")));
    chmodSync(path, 0o644);
    expect(await refusedHere("config", "check", "--config", path)).toMatchObject([
      0,
      "The configuration is valid.\n",
    ]);
  });

  it("refuses them in the storage too, if a demo database is used in production [D-RUN-1]", async () => {
    const port = await freePorts(4);
    const demo = servers.run(["--demo", "--port", `${port}`]);
    await demo.until(/Ctrl\+C/);
    await demo.stop();
    const file = servers.write({
      deployments: { oauth2: { url: "https://login.example" } },
      interactions: { theme: { name: "Example" } },
      proxy: false,
      storage: "sqlite:./data/demo.db",
    });
    const { code, output } = await servers.refused(["--config", file, "--port", `${port}`]);
    expect(code).toBe(2);
    expect(output.split("\n").filter((line) => !line.startsWith("{"))).toEqual([
      "storage: the account ada@example.com has the password of the examples; change or delete it",
      "storage: the client news has a secret of the examples; rotate it or remove the client",
      "storage: the receiver of the portal main has a secret of the examples; put another one",
      "storage: the receiver of the group media has a secret of the examples; put another one",
      "storage: the receiver of the service 3 has a secret of the examples; put another one",
      "",
    ]);
    // What is changed is no longer refused.
    const command = (...words: readonly string[]): Promise<readonly [number, string]> =>
      refusedHere(...words, "--yes", "--config", join(servers.folder, "config.json"));
    const { storage } = { storage: `sqlite:${join(servers.folder, "data/demo.db")}` };
    servers.write({
      deployments: { oauth2: { url: "https://login.example" } },
      interactions: { theme: { name: "Example" } },
      proxy: false,
      storage,
    });
    expect(await command("clients", "rotate-secret", "news")).toMatchObject([0, expect.anything()]);
    expect(await command("services", "put", "3", "--name", "Radio")).toMatchObject([0, expect.anything()]);
    const again = await servers.refused(["--config", file, "--port", `${port}`]);
    expect(again.output).not.toMatch(/client news|service 3/u);
    expect(again.output).toMatch(/group media/u);
  });

  it("reports broken or misnamed views", async () => {
    const port = await freePorts();
    const start = async (interactions: object): Promise<unknown> => {
      const config = { ...configuration(`http://127.0.0.1:${port}`), port, interactions };
      return servers.refused(["--config", servers.write({ ...config, storage: "sqlite::memory:" })]);
    };
    mkdirSync(join(servers.folder, "views"));
    servers.write("<% if (problems.length > 0) shout(problems) %>", "views/login.ejs");
    expect(await start({ views: ["./views"] })).toEqual({
      code: 2,
      output: `config.interactions.views: ${join("views", "login.ejs")}:1: shout is not defined\n`,
    });
    servers.write("", "views/login.ejs");
    servers.write("", "views/logni.ejs");
    expect(await start({ views: ["./views"] })).toEqual({
      code: 2,
      output: expect.stringMatching(/^config\.interactions\.views: \S+ is not named like .*login\.ejs\?\n$/),
    });
  });

  it("says everything that is wrong in a file with a seed, and where a misplaced key belongs", async () => {
    const { deployments } = configuration("http://127.0.0.1:3000");
    const client = {
      client_id: "a",
      client_secret: "s".repeat(32),
      service: "a",
      redirectUris: [],
      redirect_uris: ["http://a.example/"],
      logo: "none.png",
    };
    const account = { email: "x", password: "analytical-engine", password_hash: "$2b$10$" };
    const api = { name: "A", service: "a", scopes: {}, tokens: "jwt", lifetime: 9_000 };
    const seed = {
      clients: [client],
      accounts: [account, { ...account, password_hash: undefined, roles: { a: ["b"] } }],
      apis: { "https://a.example/": api },
    };
    const file = servers.write({
      deployments,
      prot: 80,
      redirectUris: [],
      storage: "mysql:a",
      port: "x",
      seed,
    });
    const { code, output } = await servers.refused(["--config", file]);
    expect(code).toBe(2);
    for (const part of [
      'config.prot: unknown key; did you mean "config.port"?',
      'config.redirectUris: unknown key; did you mean "config.seed.clients[0].redirect_uris"?',
      "config.storage: must be `sqlite:PATH`",
      "config.port: must be",
      "unknown key redirectUris; did you mean redirect_uris?",
      "config.seed.accounts[0].email: must have one @",
      "config.seed.clients[0].logo: the file does not exist",
      "config.seed.clients[0].redirect_uris[0]: must be https",
      "config.seed.accounts[0].password_hash: must be an Argon2",
      "config.seed.accounts[1].roles.a: must be a service in services",
      "config.seed.apis[a name of 18 characters].lifetime: must be at most",
      "config.seed.apis[a name of 18 characters].scopes: must have 1 to",
    ])
      expect(output).toContain(part);
  });

  it("says in one sentence that the storage can't be opened", async () => {
    const port = await freePorts();
    const file = servers.write({
      ...configuration(`http://127.0.0.1:${port}`),
      port,
      storage: "sqlite:./config.json/x.db",
    });
    const { code, output } = await servers.refused(["--config", file]);
    expect(code).toBe(3);
    expect(output).toMatch(/^The database file \S+ can't be opened: \w+\.\n$/);
  });
});
