import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Paths of new database files in a folder that is removed at the end. */
export class DatabaseFiles {
  #folder = "";
  #count = 0;

  async create(): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), "sign-in-sqlite-"));
  }

  /** The path that `next` returned last. */
  get path(): string {
    return join(this.#folder, `${this.#count}.db`);
  }

  /** The path of a file that does not exist yet. */
  next(): string {
    this.#count += 1;
    return this.path;
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }
}
