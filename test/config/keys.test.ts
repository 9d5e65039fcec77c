import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { keyFileOf, readOrMakeKeyFile } from "../../config/keys.ts";
import { readConfiguration } from "../../config/read.ts";
import { SMALLEST } from "./refusals.ts";
import { newFolder } from "../closing.ts";

const PROCESSES = 8;
const module = join(import.meta.dirname, "..", "..", "config", "keys.ts");

let folder: string;
let path: string;

beforeEach(() => {
  folder = newFolder();
  path = join(folder, "sign-in.db.keys");
});

const secret = (): string => randomBytes(32).toString("base64");

function write(text: string, mode = 0o600): void {
  writeFileSync(path, text);
  chmodSync(path, mode);
}

/** The message of the error, which is one sentence and has the code `keys`. */
async function refusal(mayCreate = true): Promise<string> {
  const error: unknown = await readOrMakeKeyFile(path, { mayCreate }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ name: "SignInError", code: "unusable_secrets" });
  return error instanceof Error ? error.message : "";
}

/** One process that waits for a line on its input and then asks for the keys. */
function startRacer(): {
  readonly ready: Promise<void>;
  readonly go: () => void;
  readonly keys: Promise<string>;
} {
  const code = `
    const { readOrMakeKeyFile } = await import(${JSON.stringify(module)});
    console.log("ready");
    process.stdin.once("data", async () => {
      console.log(JSON.stringify(await readOrMakeKeyFile(${JSON.stringify(path)}, { mayCreate: true })));
      process.exit(0);
    });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  const ready = new Promise<void>((resolve) => {
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("ready\n")) resolve();
    });
    child.once("close", () => resolve());
  });
  const keys = new Promise<string>((resolve) =>
    child.once("close", () => resolve(output.replace("ready\n", ""))),
  );
  return { ready, go: () => void child.stdin.write("go\n"), keys };
}

describe("the key file", () => {
  it("is created with one key of 32 bytes and mode 0600, with any umask, and kept", async () => {
    const before = process.umask(0o000);
    const keys = await readOrMakeKeyFile(path, { mayCreate: true }).finally(() => process.umask(before));
    expect(keys).toHaveLength(1);
    expect(Buffer.from(keys[0] ?? "", "base64")).toHaveLength(32);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["sign-in.db.keys"]);
    expect(await readOrMakeKeyFile(path, { mayCreate: true })).toEqual(keys);
    expect(await readOrMakeKeyFile(path, { mayCreate: false })).toEqual(keys);
    expect(readConfiguration({ ...SMALLEST, keys: { secrets: keys } }).keys.secrets).toEqual(keys);
  });

  it("is created in a new folder", async () => {
    path = join(folder, "data", "new", "sign-in.db.keys");
    expect(await readOrMakeKeyFile(path, { mayCreate: true })).toHaveLength(1);
  });

  it(`is created once by ${PROCESSES} concurrent processes`, async () => {
    const racers = Array.from({ length: PROCESSES }, startRacer);
    await Promise.all(racers.map(({ ready }) => ready));
    for (const { go } of racers) go();
    const keys = await Promise.all(racers.map((racer) => racer.keys));
    expect(keys).toEqual(Array(PROCESSES).fill(`${JSON.stringify([readFileSync(path, "utf8").trim()])}\n`));
    expect(readdirSync(folder)).toEqual(["sign-in.db.keys"]);
  });

  it("is created once by concurrent calls in one process", async () => {
    const calls = Array.from({ length: 30 }, () => readOrMakeKeyFile(path, { mayCreate: true }));
    expect(new Set((await Promise.all(calls)).map(String)).size).toBe(1);
  });

  it("may contain several keys, one per line or as JSON; the first encrypts", async () => {
    const keys = [secret(), secret()];
    write(`${keys.join("\r\n")}\n\n`);
    expect(await readOrMakeKeyFile(path, { mayCreate: false })).toEqual(keys);
    write(JSON.stringify(keys, null, 2));
    expect(await readOrMakeKeyFile(path, { mayCreate: false })).toEqual(keys);
    chmodSync(path, 0o400);
    expect(await readOrMakeKeyFile(path, { mayCreate: false })).toEqual(keys);
  });

  it("is not created if that is not allowed, and the error says what to do", async () => {
    expect(await refusal(false)).toBe(
      `the key file ${path} is missing: what the database keeps encrypted opens only with its keys, restore it from a backup`,
    );
    expect(readdirSync(folder)).toEqual([]);
  });

  it.each(["640", "604", "660", "644", "610", "602"])(
    "is refused if other users have access (mode %s)",
    async (octal) => {
      const mode = Number.parseInt(octal, 8);
      write(`${secret()}\n`, mode);
      expect(await refusal()).toContain("can be used by other users of this machine: chmod 600 it");
      expect(statSync(path).mode & 0o777).toBe(mode);
    },
  );

  it.each([
    ["nothing", () => ""],
    ["an empty list", () => "[]"],
    ["something else", () => "hunter2-hunter2"],
    ["a short key", () => randomBytes(31).toString("base64")],
    ["a long key", () => randomBytes(33).toString("base64")],
    ["one right and one wrong key", () => `${secret()}\nhunter2\n`],
    ["the same key twice", () => "A".repeat(43).concat("=\n").repeat(2)],
    ["broken JSON", () => `["${secret()}"`],
    ["JSON of something else", () => `[{"key":"${secret()}"}]`],
    ["bytes", () => "\0\u0001\u0002"],
    ["very much", () => `${secret()}\n`.repeat(5000)],
  ])("is refused, unchanged and not shown if it contains %s", async (_what, make) => {
    const text = make();
    write(text);
    const message = await refusal();
    expect(message).toBe(
      `the key file ${path} does not hold different keys of 32 bytes in Base64, one a line`,
    );
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("is refused if it is a folder or a pipe, without blocking", async () => {
    mkdirSync(path, { mode: 0o700 });
    expect(await refusal()).toContain("is not a regular file");
    rmSync(path, { recursive: true });
    execFileSync("mkfifo", ["-m", "600", path]);
    expect(await refusal()).toContain("is not a regular file");
  });

  it("reports why it can't be created, and leaves no files", async () => {
    writeFileSync(join(folder, "file"), "");
    path = join(folder, "file", "sign-in.db.keys");
    expect(await refusal()).toBe(`the key file ${path} can't be read (ENOTDIR)`);
    path = join(folder, "x".repeat(240));
    expect(await refusal()).toBe(`the key file ${path} can't be made (ENAMETOOLONG)`);
    expect(readdirSync(folder)).toEqual(["file"]);
  });

  it("exists only for an SQLite database with a path", () => {
    expect(keyFileOf("sqlite:./data/sign-in.db")).toBe("./data/sign-in.db.keys");
    expect(keyFileOf("sqlite::memory:")).toBeUndefined();
    expect(keyFileOf("mongodb://db.example")).toBeUndefined();
  });
});
