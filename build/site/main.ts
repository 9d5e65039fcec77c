/** `npm run docs:site` builds the site of the documents. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  allPages,
  homePage,
  pageIndex,
  pagesOf,
  publishedText,
  type SiteFacts,
  withFrontmatter,
} from "./publish.ts";
import { readSections, type SitePage } from "./tree.ts";

const ROOT = join(import.meta.dirname, "../..");
const SITE = join(ROOT, "site");
/** What the generator reads: the pages as they are published. */
const SOURCE = join(SITE, ".cache/pages");

const { values: options } = parseArgs({
  options: {
    /** The path at which the site is served, such as `/docs/`. */
    base: { type: "string", default: "/" },
    /** The folder to write. */
    out: { type: "string", default: join(SITE, "dist") },
    /** The address of the files of the repository, such as `https://git.example.com/sign-in-service/blob/main`. */
    repository: { type: "string" },
  },
});
const out = resolve(options.out);

const { name, version, description } = JSON.parse(
  readFileSync(join(ROOT, "package.json"), "utf8"),
) as SiteFacts;
const facts = { name, version, description };
const sections = readSections();
const pages = pagesOf(sections);
/** Documents of the API and schemas, which pages link to. */
const data = readdirSync(join(ROOT, "docs")).filter((file) => file.endsWith(".json"));
const files: ReadonlySet<string> = new Set([...pages.map(({ path }) => path), ...data]);
const isPublished = (file: string): boolean => files.has(file) || file.startsWith("images/");
const published: readonly SitePage[] = pages.map((page) => ({
  ...page,
  text: publishedText(page, isPublished, options.repository),
}));

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

rmSync(SOURCE, { recursive: true, force: true });
for (const { path, title, description: about, text } of published)
  write(join(SOURCE, path), withFrontmatter({ title, description: about }, text));
write(join(SOURCE, "index.md"), homePage(facts, sections));
// The generator makes small pictures part of its pages. The Markdown beside the pages needs all of them.
for (const folder of [SOURCE, join(SOURCE, "public")])
  cpSync(join(ROOT, "docs/images"), join(folder, "images"), { recursive: true });
cpSync(join(SITE, "favicon.svg"), join(SOURCE, "public/favicon.svg"));
for (const file of data) cpSync(join(ROOT, "docs", file), join(SOURCE, "public", file));
// The texts of the pages have files of their own.
const withoutTexts = (key: string, value: unknown): unknown => (key === "text" ? undefined : value);
write(join(SITE, ".cache/site.json"), JSON.stringify({ ...facts, sections }, withoutTexts));

const generator = join(SITE, "node_modules/vitepress/bin/vitepress.js");
const { status } = spawnSync(
  process.execPath,
  [generator, "build", SITE, "--base", options.base, "--outDir", out],
  { stdio: "inherit" },
);
if (status !== 0) process.exit(status ?? 1);

for (const { path, text } of published) write(join(out, path), text);
const index = pageIndex(facts, sections);
write(join(out, "llms.txt"), index);
// What a program gets that asks for the Markdown of the first page.
write(join(out, "index.md"), index);
write(join(out, "llms-full.txt"), allPages(facts, published));
console.log(`${pages.length} pages are in ${out}.`);
