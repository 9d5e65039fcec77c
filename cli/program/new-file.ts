/** Creates files that appear complete, or not at all. */
import { randomBytes } from "node:crypto";
import { type FileHandle, link, lstat, open, readdir, rename, unlink } from "node:fs/promises";
import { syncFolder } from "../../config/private-file.ts";
import { neededUser } from "../../core/errors.ts";
import { CommandFailure } from "./command-failure.ts";

const codeOf = (error: unknown): string => String(Reflect.get(Object(error), "code"));

function exists(path: string): CommandFailure {
  return new CommandFailure(`${path} exists already. Nothing was written.`);
}

/** @throws CommandFailure if there is something at this path, even a dangling link. */
export async function requireAbsent(path: string): Promise<void> {
  const found = await lstat(path).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return undefined;
    throw new CommandFailure(
      `${path} can't be written: ${codeOf(error)}${neededUser(codeOf(error), path)}.`,
      { cause: error },
    );
  });
  if (found !== undefined) throw exists(path);
}

const SUFFIX = ".partial";
const UNFINISHED = /\.[\da-f]{16}\.partial$/u;

/** The names of the files in a folder that are not complete: somebody writes them, or was killed before they were. */
export async function unfinishedFiles(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((): string[] => []);
  return names.filter((name) => UNFINISHED.test(name)).toSorted();
}

/** Gives the file its name. `link` never replaces another file, but not every file system has it. */
async function appear(partial: string, path: string): Promise<void> {
  try {
    await link(partial, path);
    await unlink(partial);
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw exists(path);
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"].includes(codeOf(error))) throw error;
    await requireAbsent(path);
    await rename(partial, path);
  }
}

/**
 * Creates a file that only its owner can read. It has a random name with the suffix `.partial` until it is complete and on disk.
 * What a killed process has left stays: only its operator can know that nobody writes it any more.
 * @param write writes the content; if it fails, nothing is left.
 * @throws CommandFailure if the file exists, also if it was created meanwhile, or can't be written.
 */
export async function createWhole(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  const partial = `${path}.${randomBytes(8).toString("hex")}${SUFFIX}`;
  try {
    const file = await open(partial, "wx", 0o600);
    try {
      await write(file);
      await file.sync();
    } finally {
      await file.close();
    }
    await appear(partial, path);
    await syncFolder(path);
  } catch (error) {
    await unlink(partial).catch(() => undefined);
    const { syscall } = Object(error) as { syscall?: unknown };
    if (typeof syscall !== "string") throw error;
    throw new CommandFailure(
      `${path} can't be written: ${codeOf(error)}${neededUser(codeOf(error), path)}.`,
      { cause: error },
    );
  }
}
