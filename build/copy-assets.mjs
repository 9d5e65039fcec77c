// Part of `npm run build`: copies templates, texts, styles and what runs in browsers, which are not compiled, to the compiled files.
// Usage: node build/copy-assets.mjs [OUT_DIR], by default `dist`.
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { smaller } from "./smaller.ts";

const root = join(import.meta.dirname, "..");
const out = process.argv[2] ?? join(root, "dist");
/** The folders that are compiled. */
const { include: folders } = JSON.parse(readFileSync(join(root, "tsconfig.build.json"), "utf8"));
/**
 * An example whose secrets the server refuses; and, for the image, the lock file, which npm packs only inside a folder.
 */
const FILES = ["examples/conformance/server.json", "package-lock.json"];
/** A page prints these, or loads them. */
const OF_PAGES = /^\/(?:administration|interactions)\/.*\.(?:css|js)$/;
const ASSETS = /\.(?:ejs|json|css|js|svg|d\.ts)$/;

for (const folder of folders) {
  for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !ASSETS.test(entry.name)) continue;
    const from = join(entry.parentPath, entry.name);
    const path = from.slice(root.length);
    cpSync(from, join(out, path));
    if (OF_PAGES.test(path)) writeFileSync(join(out, path), smaller(path, readFileSync(from, "utf8")));
  }
}
for (const file of FILES) cpSync(join(root, file), join(out, file));
