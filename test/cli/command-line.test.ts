import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "@jest/globals";
import { exitCodeOf } from "../../cli/program/command-failure.ts";
import { InvalidArgument, SignInError } from "../../core/errors.ts";
import { ROOT } from "../examples/documents.ts";
import { fillWith } from "./samples.ts";
import { copiedFrom, runHere, withStores, Workshop } from "./stage.ts";

const workshop = new Workshop();

describe("the command line", () => {
  it("reads addresses from configuration files, and prints nothing of their content", async () => {
    const [from, path] = [workshop.sqlite(), workshop.path()];
    await withStores(from, (stores) => fillWith(stores, 10, Date.now()));
    const file = join(workshop.folder, "from.json");
    const secrets = [Buffer.alloc(32, 9).toString("base64")];
    writeFileSync(
      file,
      JSON.stringify({ port: 1, storage: from.storage, artifacts: from.storage, keys: { secrets } }),
    );
    const { code, said } = await workshop.run(["storage", "copy", "--config-from", file, `sqlite:${path}`]);
    expect([code, said]).toEqual([0, expect.stringContaining(`copy those in ${file} to`)]);
    expect(said).not.toContain(secrets[0]);
    await expect(copiedFrom({ storage: `sqlite:${path}` })).resolves.toEqual(await copiedFrom(from));
    writeFileSync(join(workshop.folder, "broken.json"), '{ "storage": "secret-of-mine", }');
    const broken = await workshop.run(["storage", "copy", "--config-from", "broken.json", `sqlite:${path}`]);
    expect(broken).toEqual({
      code: 2,
      said: "broken.json is not valid JSON: line 1, column 32: expected a key in double quotes.\n",
    });
  }, 60_000);

  const wrong: readonly (readonly [says: RegExp, ...words: string[]])[] = [
    [/^storage needs one of restored, promoted, migrate, copy, reindex, check/, "storage"],
    [/^Unknown command/, "storage", "remove", "sqlite:a"],
    [/^FROM is missing/, "storage", "copy"],
    [/^TO is missing/, "storage", "copy", "sqlite:a"],
    [
      /^Too many arguments: 'sqlite:c', 'redis:\/\/…'\. storage copy takes \[FROM\] \[TO\];/,
      ..."storage copy sqlite:a sqlite:b sqlite:c redis://:password@h".split(" "),
    ],
    [
      /^Too many arguments: accounts set-password takes SUB, and asks for a secret or/,
      ..."accounts set-password ada a-secret".split(" "),
    ],
    [/^Unknown command/, "help", "frobnicate"],
    [/^Unknown command; did you mean find\?/, "help", "accounts", "fnd"],
    [
      /^Unknown option '-G6HCcSE'\. If it is a value, put -- before it\. See --help\.$/,
      ..."keys retire -G6HCcSE".split(" "),
    ],
    [/^a\.json does not exist/, "keys", "retire", "--config", "a.json", "--", "-G6HCcSE"],
    [/^Unknown option '--force'/, "storage", "copy", "sqlite:a", "sqlite:b", "--force"],
    [/^FROM must be sqlite:PATH/, "storage", "copy", "mysql://user:password@host/db", "sqlite:b"],
    [/^TO has no path after sqlite:/, "storage", "copy", "sqlite:a", "sqlite:"],
    [/^FROM is in memory/, "storage", "copy", "sqlite::memory:", "sqlite:b"],
    [/^FROM and TO must be different/, "storage", "copy", "sqlite:a", "sqlite:x/../a"],
    [
      /^FROM and TO must be different/,
      ..."storage copy sqlite:a sqlite:b --from-artifacts redis://h --to-artifacts redis://h:6379/0".split(
        " ",
      ),
    ],
    [
      /^The address of FROM's artifacts must be redis:\/\/…, rediss:\/\/…, redis\+sentinel:\/\/… or redis\+cluster:\/\/…/,
      ..."storage copy sqlite:a sqlite:b --from-artifacts http://password@h".split(" "),
    ],
    [
      /^The address of ADDRESS's artifacts is not a redis:\/\/ or rediss:\/\/ URL with a host/,
      ..."storage check sqlite:a --artifacts redis:".split(" "),
    ],
    [/^The environment variable NOWHERE is not set/, "storage", "copy", "env:NOWHERE", "sqlite:b"],
    [
      /^FROM is given twice/,
      ..."storage copy --config-from a.json --from-artifacts redis://h sqlite:b".split(" "),
    ],
  ];

  it.each(wrong)("reports a wrong call: %s", async (says, ...words) => {
    const { code, said } = await runHere(words);
    expect([code, said.trim()]).toEqual([2, expect.stringMatching(says)]);
    expect(said).not.toMatch(/(?<!set-)password|a-secret/u);
  });

  it("continues silently to its end when its output is closed", async () => {
    const place = workshop.sqlite();
    await withStores(place, (stores) => fillWith(stores, 10, Date.now()));
    const words = ["storage", "check", place.storage];
    const read = await workshop.run(words);
    const child = spawn(process.execPath, [join(ROOT, "cli/main.ts"), ...words], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.destroy();
    const said = await text(child.stderr);
    expect(said).toBe(
      `${place.storage}\nSealed values are not opened, because keys.secrets is not known: see --config.\nAttributes of accounts are not compared with accounts.attributes: see --config.\n`,
    );
    expect(child.exitCode ?? (await once(child, "exit"))[0]).toBe(read.code);
  }, 60_000);

  it.each([
    [1, ["not_found", "name_taken", "still_referenced", "not_applicable", "address_refused"]],
    [2, ["invalid_argument", "invalid_password", "unknown_reference", "invalid_configuration"]],
    [3, ["storage_unavailable", "server_unreachable"]],
  ] as const)("exits with %i as the code of an error says [D-CLI-4]", (exitCode, codes) => {
    for (const code of codes)
      expect([code, exitCodeOf(new SignInError(code, "no"))]).toEqual([code, exitCode]);
    // A defect is no wrong argument, whatever its message looks like.
    expect(exitCodeOf(new TypeError("sub: must be a string"))).toBe(1);
    expect(exitCodeOf(new InvalidArgument({ path: "sub", message: "must be a string" }))).toBe(2);
  });

  it("prints its version", async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(await runHere(["--version"])).toEqual({ code: 0, said: `${version}\n` });
  });

  it("prints its usage", async () => {
    const all = await runHere(["--help"]);
    expect(all).toMatchObject({
      code: 0,
      said: expect.stringMatching(/^ {2}storage +copies, checks, renews and indexes/m),
    });
    for (const words of [[], ["help"]]) expect([words, await runHere(words)]).toEqual([words, all]);
    const nouns = await runHere(["storage", "--help"]);
    for (const words of [
      ["help", "storage"],
      ["storage", "help"],
    ])
      expect([words, await runHere(words)]).toEqual([words, nouns]);
    const copying = await runHere(["storage", "copy", "--help"]);
    for (const words of [
      ["help", "storage", "copy"],
      ["storage", "help", "copy"],
    ])
      expect([words, await runHere(words)]).toEqual([words, copying]);
    expect(copying).toMatchObject({
      code: 0,
      said: expect.stringMatching(/^Usage: sign-in-service storage copy \[FROM\] \[TO\]/),
    });
  });
});
