/** The pages of the site: `site/tree.json` orders them, and what they say of themselves is in `docs/`. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../..");
export const TREE = "site/tree.json";

/** For people who change the code: these are read in the repository. */
const NOT_ON_THE_SITE: ReadonlySet<string> = new Set(["internals", "decisions"]);

/** A section, as `site/tree.json` has it. */
export interface Branch {
  readonly title: string;
  /** Of `docs/`. */
  readonly folder: string;
  /** What its reader wants to do, in one sentence. */
  readonly about: string;
  readonly groups: readonly {
    readonly title?: string;
    /** Paths in the folder, without `.md`. `generated/*`: all pages of that folder, by name. */
    readonly pages: readonly string[];
  }[];
}

export interface SitePage {
  /** From `docs/`, such as `start/run-the-server.md`. */
  readonly path: string;
  /** Its heading of level 1. */
  readonly title: string;
  /** At most about 160 characters, for results of a search. */
  readonly description: string;
  /** Without frontmatter. */
  readonly text: string;
}

export interface Section extends Omit<Branch, "groups"> {
  readonly groups: readonly { readonly title: string | undefined; readonly pages: readonly SitePage[] }[];
}

/** Whether a file of `docs/` is a page of the site. */
function isOnTheSite(path: string): boolean {
  return path.endsWith(".md") && !NOT_ON_THE_SITE.has(path.split("/")[0] ?? "");
}

/** What is wrong with the tree: pages that nobody finds, that don't exist, or that stand in two places. */
export function treeFaults(branches: readonly Branch[], docs: readonly string[]): string[] {
  const files = docs.filter(isOnTheSite).toSorted();
  const listed = branches.flatMap((branch) =>
    branch.groups.flatMap(({ pages }) => pathsOf(branch.folder, pages, files)),
  );
  return [
    ...files.filter((path) => !listed.includes(path)).map((path) => `docs/${path} is missing from ${TREE}`),
    ...listed
      .filter((path) => !files.includes(path))
      .map((path) => `${TREE} has docs/${path}, which is no file`),
    ...listed
      .filter((path, index) => listed.indexOf(path) < index)
      .map((path) => `${TREE} has docs/${path} twice`),
  ];
}

function pathsOf(folder: string, pages: readonly string[], files: readonly string[]): readonly string[] {
  return pages.flatMap((page) => {
    const path = `${folder}/${page}.md`;
    if (!page.endsWith("/*")) return [path];
    const found = files.filter((file) => dirname(file) === dirname(path));
    return found.length === 0 ? [path] : found;
  });
}

/** @throws Error with all faults of the tree, or if a page has no heading. */
export function readSections(): readonly Section[] {
  const branches = JSON.parse(readFileSync(join(ROOT, TREE), "utf8")) as readonly Branch[];
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  const files = docs.filter(isOnTheSite).toSorted();
  const faults = treeFaults(branches, docs);
  if (faults.length > 0) throw new Error(faults.join("\n"));
  return branches.map(({ title: section, folder, about, groups }) => ({
    title: section,
    folder,
    about,
    groups: groups.map(({ title, pages }) => ({
      title,
      pages: pathsOf(folder, pages, files).map(readPage),
    })),
  }));
}

function readPage(path: string): SitePage {
  const all = readFileSync(join(ROOT, "docs", path), "utf8");
  const [whole = "", frontmatter = ""] = /^---\n([\s\S]*?\n)---\n+/.exec(all) ?? [];
  const text = all.slice(whole.length);
  const title = /^# (.+)$/m.exec(text)?.[1];
  if (title === undefined) throw new Error(`docs/${path} has no heading`);
  const written = (parse(frontmatter) as { description?: string } | null)?.description;
  return { path, title: plain(title), description: written ?? firstSentences(text), text };
}

const MAX_DESCRIPTION = 160;

/** The beginning of the first paragraph, in whole sentences if the first one is short enough. */
function firstSentences(text: string): string {
  const [, after = ""] = text.split(/^# .+\n/m);
  const paragraph = after.split(/\n{2,}/).find((each) => each.trim() !== "" && !/^\s*<!--/.test(each)) ?? "";
  const words = plain(paragraph);
  if (words.length <= MAX_DESCRIPTION) return words;
  const cut = words.slice(0, MAX_DESCRIPTION);
  const end = cut.lastIndexOf(". ");
  return end > 40 ? cut.slice(0, end + 1) : `${cut.slice(0, cut.lastIndexOf(" "))} …`;
}

/** Markdown without its marks. */
function plain(markdown: string): string {
  return markdown
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*]/g, "")
    .replaceAll(/\s+/g, " ")
    .trim();
}
