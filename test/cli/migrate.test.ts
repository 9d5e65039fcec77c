import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { readFixture } from "../migration/fixtures.ts";
import { FixtureClock, restoreSqlite } from "../migration/stage.ts";
import { here, type Outcome } from "./here.ts";

const fixture = readFixture("sqlite-closed");

/** @param answer what a person says to a question; left out: there is nobody. */
async function migrate(words: readonly string[], answer?: boolean): Promise<Outcome> {
  return here(["migrate", ...words], {
    clock: new FixtureClock(fixture.manifest),
    readVariable: (name) => (name === "STORAGE" ? "mongodb://user:hidden@127.0.0.1:1/x" : undefined),
    ...(answer !== undefined && { confirm: () => Promise.resolve(answer) }),
  });
}

describe("migrate", () => {
  it("migrates a storage, reports when there is nothing to do, and removes the old data after a confirmation", async () => {
    const storage = ["--storage", `sqlite:${restoreSqlite(fixture)}`];
    expect(await migrate([...storage, "--remove-old", "--yes"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("run sign-in-service migrate."),
    });
    expect(await migrate(storage)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^The migration is complete/),
    });
    expect(await migrate(storage)).toMatchObject({ code: 0, out: "There is nothing to migrate.\n" });
    expect(await migrate([...storage, "--remove-old"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("confirm it with --yes"),
    });
    expect(await migrate([...storage, "--remove-old"], false)).toMatchObject({
      code: 1,
      err: expect.stringContaining("Nothing was deleted."),
    });
    expect(await migrate([...storage, "--remove-old"], true)).toMatchObject({
      code: 0,
      out: "The old data is deleted.\n",
    });
    expect(await migrate([...storage, "--remove-old", "--yes"])).toMatchObject({
      code: 0,
      out: "There is nothing to delete.\n",
    });
  });

  it("refuses a missing file, and creates none", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "sign-in-migrate-")), "typo.db");
    expect(await migrate(["--storage", `sqlite:${path}`])).toMatchObject({
      code: 3,
      err: expect.stringContaining("There is no database file"),
    });
    expect(existsSync(path)).toBe(false);
  });

  it.each([
    [[], "--storage is missing"],
    [["sqlite:x.db"], "Too many arguments"],
    [["--storage", "postgresql://u:hidden@h/x"], "which version 0.1 did not support"],
    [["--storage", "hidden"], "must be sqlite:PATH"],
    [["--storage", "sqlite::memory:"], "in memory"],
    [["--storage", "env:NOTHING"], "NOTHING is not set"],
    [["--storage", "sqlite:x.db", "--artifacts", "hidden"], "artifacts"],
    [["--storage", "sqlite:x.db", "--unknown"], "--unknown"],
  ])("%j is a wrong call, and the error prints no address", async (words, sentence) => {
    const { code, err } = await migrate(words);
    expect(err).toContain(sentence);
    expect(err).not.toContain("hidden");
    expect(code).toBe(2);
  });

  it("reports which server does not respond, without the password, and how to continue", async () => {
    const { code, err } = await migrate(["--storage", "env:STORAGE"]);
    expect(code).toBe(3);
    expect(err).toContain("Run the same command again");
    expect(err).not.toContain("hidden");
  }, 60_000);
});
