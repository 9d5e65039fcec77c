/** Reads the text files of this project, without installed, built or stored files. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Files } from "./syntax.ts";

const ROOT = join(import.meta.dirname, "..");
/** The entries of `.gitignore`, and `.git`, which is a file in a linked worktree. */
const LEFT_OUT: ReadonlySet<string> = new Set([".git", "node_modules", "dist", "data", "coverage", ".cache"]);
const NOT_TEXT = /\.(?:png|ico|woff2?|gz|tgz|keys|db(?:-wal|-shm)?)$/;

/** @returns Path from the root → text, sorted by path. */
export function readTree(root: string = ROOT): Files {
  const found: [string, string][] = [];
  const read = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      if (LEFT_OUT.has(entry.name)) continue;
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) read(path);
      if (entry.isFile() && !NOT_TEXT.test(path)) found.push([path, readFileSync(join(root, path), "utf8")]);
    }
  };
  read("");
  return new Map(found.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
