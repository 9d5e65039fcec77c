import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "@jest/globals";
import { freePorts, newFolder, type Running, start } from "../examples/processes.ts";
import { rounds } from "../rounds.ts";
import { type Book, brokenPromises, configuration, load } from "./load.ts";

/** How often the process is killed. */
const ROUNDS = rounds(2, 4);

it("a process that is killed under load loses nothing that it acknowledged [D-TOKEN-5]", async () => {
  const folder = newFolder();
  const port = await freePorts();
  const base = `http://127.0.0.1:${port}`;
  await writeFile(join(folder, "config.json"), JSON.stringify(configuration(base, port)));
  const begin = async (): Promise<Running> => {
    const running = start("cli/main.ts", { args: ["serve", "--config", "config.json"], cwd: folder });
    await running.until(/listening on/);
    return running;
  };
  let server = await begin();
  try {
    const uses = new Set<string>();
    for (let round = 1; round <= ROUNDS; round += 1) {
      const book: Book = { codes: [], families: [] };
      const enough = new AbortController();
      const loading = load(base, book, enough.signal);
      while (book.families.length < 10) await pause(5);
      await pause(Math.random() * 150);
      await expect(server.stop("SIGKILL")).resolves.toBe("SIGKILL");
      enough.abort();
      await loading;
      for (const { use } of book.codes) uses.add(use);
      server = await begin();
      await expect(brokenPromises(base, book)).resolves.toEqual([]);
    }
    expect([...uses]).toEqual(expect.arrayContaining(["exchanged", "unused"]));

    const book: Book = { codes: [], families: [] };
    const enough = new AbortController();
    const loading = load(base, book, enough.signal);
    while (book.families.length < 10) await pause(5);
    const ended = server.stop("SIGTERM");
    enough.abort();
    await expect(ended).resolves.toBe(0);
    await loading;
    server = await begin();
    await expect(brokenPromises(base, book)).resolves.toEqual([]);
  } finally {
    await server.stop("SIGKILL");
    await rm(folder, { recursive: true });
  }
});
