/** What the example server says about its arguments, its file and its surroundings when it can't start. */
import { mkdirSync, readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "@jest/globals";
import { readCommandLine } from "../../examples/server/command-line.ts";
import { readConfigFile } from "../../examples/server/config-file.ts";
import { MISUSED } from "../../examples/server/start-failure.ts";
import { freePorts } from "./processes.ts";
import { configuration, Room } from "./room.ts";

const room = new Room();
afterEach(() => room.stop());
afterAll(() => room.leave());

describe("the command line", () => {
  it("prints every option with --help and does nothing else", async () => {
    const { code, said } = await room.refused(["--help"]);
    expect(code).toBe(0);
    const source = readFileSync(join(import.meta.dirname, "../../examples/server/command-line.ts"), "utf8");
    const options = [...source.matchAll(/^ {4}"?([a-z-]+)"?: \{ type: /gm)].map(([, name]) => name);
    expect(options).toEqual(expect.arrayContaining(["config", "no-client", "receiver-close", "help"]));
    for (const option of options) expect(said).toMatch(new RegExp(`^  --${option}\\b`, "m"));
    expect(said).not.toContain("running");
  });

  it.each([
    [["--confg", "x.json"], "Unknown option '--confg'. See --help."],
    [["--config"], "Option '--config <value>' argument missing. See --help."],
    [["--config="], "--config needs the name of a file. See --help."],
    [["--port", "http"], "--port must be a whole number from 0 to 65535. See --help."],
    [["--port", "65536"], "--port must be a whole number from 0 to 65535. See --help."],
    [["--receiver-fail", "-1"], "Option '--receiver-fail' argument is ambiguous. See --help."],
    [["--receiver-fail=x"], "--receiver-fail must be a whole number from 0 to 1000000000. See --help."],
    [["--receiver-status", "99"], "--receiver-status must be a whole number from 200 to 599. See --help."],
    [["--receiver-slow", "1s"], "--receiver-slow must be a number from 0 to 3600. See --help."],
    [["--no-receiver", "--receiver-close"], "--receiver-close needs the receiver. See --help."],
    [
      ["--config", "x.json", "--no-client"],
      "--no-client is for the demo, which --config replaces. See --help.",
    ],
  ])("%j: one sentence", (args, sentence) => {
    expect(() => readCommandLine(args)).toThrow(
      expect.objectContaining({ message: sentence, exitCode: MISUSED }),
    );
  });

  it("ends with exit code 2 and nothing but the sentence", async () => {
    const said = "Unexpected argument 'config.json'. See --help.\n";
    await expect(room.refused(["config.json"])).resolves.toEqual({ code: 2, said });
  });
});

describe("what it says when it can't start", () => {
  it("names every problem of the file at once, and no value", async () => {
    const config = configuration("http://127.0.0.1:3000");
    const file = room.write({
      ...config,
      port: 70_000,
      stroage: "sqlite:x",
      lifetimes: { accessToken: "hunter2" },
      seed: { services: { "1": { name: "News", grup: "media" } }, accounts: [{ email: "ada" }] },
    });
    const { code, said } = await room.refused(["--config", file]);
    expect(code).toBe(1);
    expect(said.trimEnd().split("\n")).toEqual([
      "config.port: must be a whole number from 0 to 65535",
      expect.stringMatching(/^config\.lifetimes\.accessToken: must be a whole number/),
      expect.stringMatching(/^config\.stroage: unknown key.*storage/),
      expect.stringMatching(/^config\.seed\.services\.1.*grup/),
      expect.stringMatching(/^config\.seed\.accounts\[0\]\.email/),
    ]);
    expect(said).not.toContain("hunter2");
  });

  it.each([
    ["missing.json", undefined, "FILE does not exist."],
    [".", undefined, "FILE is a folder."],
    [
      "broken.json",
      '{\n  "port": 3000\n  "seed": {}\n}',
      "FILE is no JSON: line 3, column 3: a comma or } must stand here.",
    ],
    [
      "twice.json",
      '{ "port": 1, "port": 2 }',
      "FILE is no JSON: line 1, column 14: this key is there twice.",
    ],
    ["list.json", "[]", "config: must be an object"],
  ])("%s: one sentence", async (name, text, sentence) => {
    if (text !== undefined) room.write(text, name);
    const path = join(room.folder, name);
    await expect(readConfigFile(path)).rejects.toThrow(sentence.replace("FILE", path));
  });

  it("ends with exit code 1 and nothing but the sentence", async () => {
    const said = "missing.json does not exist.\n";
    await expect(room.refused(["--config", "missing.json"])).resolves.toEqual({ code: 1, said });
  });

  it("says which port is in use and how to choose another, and leaves the storage alone", async () => {
    const taken = createServer();
    const port = await freePorts();
    await new Promise<void>((resolve) => void taken.listen(port, "127.0.0.1", resolve));
    const file = room.write({
      ...configuration(`http://127.0.0.1:${port}`),
      storage: "sqlite:./untouched.db",
    });
    const sentence = `Port ${port} is in use: choose another one with --port N or the environment variable PORT.\n`;
    const env = { HOST: "127.0.0.1" };
    try {
      await expect(room.refused(["--config", file, "--port", `${port}`], { env })).resolves.toEqual({
        code: 1,
        said: sentence,
      });
      await expect(room.refused(["--port", `${port}`])).resolves.toEqual({ code: 1, said: sentence });
    } finally {
      await new Promise((resolve) => void taken.close(resolve));
    }
    expect(() => readFileSync(join(room.folder, "untouched.db"))).toThrow("ENOENT");
  });

  it("takes no connection while it waits for its servers: a proxy goes on to another process", async () => {
    const silent = createServer();
    const [port, redisPort] = [await freePorts(), await freePorts()];
    await new Promise<void>((resolve) => void silent.listen(redisPort, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${port}`;
    const file = room.write({
      ...configuration(url),
      port,
      artifacts: `redis://127.0.0.1:${redisPort}`,
    });
    const isAsked = new Promise<Socket>((resolve) => void silent.once("connection", resolve));
    const server = room.run(["--config", file], { env: { HOST: "127.0.0.1" } });
    const connection = await isAsked;
    await expect(fetch(url)).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    await expect(server.stop()).resolves.toBe(0);
    connection.destroy();
    await new Promise((resolve) => void silent.close(resolve));
  });

  it("names what is wrong in the environment", async () => {
    await expect(room.refused([], { env: { PORT: "http", LOG_LEVEL: "loud" } })).resolves.toEqual({
      code: 1,
      said: expect.stringMatching(/^environment\.PORT: .*\nenvironment\.LOG_LEVEL: .*\n$/),
    });
  });

  it("asks what stands in front of an https deployment [D-CALLER-1]", async () => {
    const file = room.write({ deployments: { oauth2: { url: "https://login.example" } } });
    await expect(room.refused(["--config", file])).resolves.toEqual({
      code: 1,
      said: expect.stringMatching(/^config\.proxy: is required with an https deployment: [^\n]+\n$/),
    });
  });

  it("refuses the password and the secret of the examples where others can reach the service [D-RUN-1]", async () => {
    const demo = JSON.parse(
      readFileSync(join(import.meta.dirname, "../../examples/server/demo.json"), "utf8"),
    );
    const deployments = { oauth2: { url: "https://login.example" } };
    const file = room.write({ ...demo, deployments, proxy: false });
    await expect(room.refused(["--config", file])).resolves.toEqual({
      code: 1,
      said: [
        "portals.main.receiver.client_secret",
        "groups.media.receiver.client_secret",
        "groups.media.receiver.signing_secret",
        "services.3.receiver.client_secret",
        "accounts[0].password",
        "clients[0].client_secret",
      ]
        .map((place) => `config.seed.${place}: is printed in the examples; choose another one\n`)
        .join(""),
    });
  });

  it("refuses them in the storage too: a demo does not become a real service by a change of address [D-RUN-1]", async () => {
    const port = await freePorts(3);
    const demo = room.run(["--port", `${port}`]);
    await demo.until(/Ctrl\+C/);
    await demo.stop();
    const file = room.write({
      deployments: { oauth2: { url: "https://login.example" } },
      proxy: false,
      storage: "sqlite:./data/demo.db",
    });
    const { code, said } = await room.refused(["--config", file, "--port", `${port}`]);
    expect(code).toBe(1);
    expect(said).toBe(
      "storage: the account ada@example.com has the password of the examples; change or delete it\n",
    );
  });

  it("says which view is broken or misnamed, and that there is no registration, instead of starting", async () => {
    const port = await freePorts();
    const start = async (interactions: object): Promise<unknown> => {
      const config = { ...configuration(`http://127.0.0.1:${port}`), port, interactions };
      return room.refused(["--config", room.write({ ...config, storage: "sqlite::memory:" })]);
    };
    mkdirSync(join(room.folder, "views"));
    room.write("<% if (problems.length > 0) shout(problems) %>", "views/login.ejs");
    expect(await start({ views: ["./views"] })).toEqual({
      code: 1,
      said: `config.interactions.views: ${join("views", "login.ejs")}:1: shout is not defined\n`,
    });
    room.write("", "views/login.ejs");
    room.write("", "views/logni.ejs");
    expect(await start({ views: ["./views"] })).toEqual({
      code: 1,
      said: expect.stringMatching(/^config\.interactions\.views: \S+ is not named like .*login\.ejs\?\n$/),
    });
    expect(await start({ registration: true })).toEqual({
      code: 1,
      said: "config.interactions.registration: must be `false`: this version has no registration by the user\n",
    });
  });

  it("says in one sentence that the storage can't be opened", async () => {
    const port = await freePorts();
    const file = room.write({
      ...configuration(`http://127.0.0.1:${port}`),
      port,
      storage: "sqlite:./config.json/x.db",
    });
    const { code, said } = await room.refused(["--config", file]);
    expect(code).toBe(1);
    expect(said).toMatch(/^the database file \S+ can't be opened: \w+\n$/);
  });
});
