import { join } from "node:path";
import { newFolder } from "../../closing.ts";

/** Paths of new database files in a folder that is removed at the end. */
export class DatabaseFiles {
  readonly #folder: string = newFolder();
  #count = 0;

  /** The path that `next` returned last. */
  get path(): string {
    return join(this.#folder, `${this.#count}.db`);
  }

  /** The path of a file that does not exist yet. */
  next(): string {
    this.#count += 1;
    return this.path;
  }
}
