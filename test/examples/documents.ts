/** README and docs as data: their code blocks, tables and links. */
import { pathToFileURL } from "node:url";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The root of the repository. */
export const ROOT: string = join(import.meta.dirname, "../..");

/** A fenced code block. */
export interface Block {
  /** Path of the document and number of the block in it, from 1. */
  readonly name: string;
  /** The text after the fence, such as `ts runnable`. */
  readonly info: string;
  readonly code: string;
}

/** Paths of all documents from the root. */
export function documents(): string[] {
  const below = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  return ["README.md", ...below.filter((file) => file.endsWith(".md")).map((file) => `docs/${file}`)];
}

/** The text of a document. */
export function textOf(document: string): string {
  return readFileSync(join(ROOT, document), "utf8");
}

/** All fenced blocks of all documents. */
export function blocks(): Block[] {
  return documents().flatMap((document) =>
    [...textOf(document).matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)].map(([, info = "", code = ""], i) => ({
      name: `${document} ${i + 1}`,
      info: info.trim(),
      code,
    })),
  );
}

/** The cells of the table after a text, without the two header lines and without backticks. */
export function tableAfter(document: string, mark: string): string[][] {
  const [, after = ""] = textOf(document).split(mark);
  const lines = after.trimStart().split("\n");
  const end = lines.findIndex((line) => !line.startsWith("|"));
  return lines.slice(2, end).map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim().replaceAll("`", "")),
  );
}

/** Relative links of a document, without their fragments. */
export function links(document: string): string[] {
  return [...textOf(document).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = ""]) => target.split("#")[0] ?? "")
    .filter((target) => target !== "" && !/^[a-z]+:/.test(target));
}

/** Maps each published name to its source, as in `dist/lib/index.js` → `lib/index.ts`. What is not compiled is its own source. */
function sources(): Map<string, string> {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    exports: Record<string, { default: string }>;
  };
  return new Map(
    Object.entries(exports).flatMap(([name, { default: file }]) =>
      name.endsWith(".json")
        ? []
        : [[`sign-in-service${name.slice(1)}`, `../../${sourceOf(file.replace("./dist/", ""))}`]],
    ),
  );
}

function sourceOf(file: string): string {
  return existsSync(join(ROOT, file)) ? file : file.replace(/\.js$/, ".ts");
}

/** The file name after the language of a block, as in `ts lib/x.ts`. */
function namedFile({ info }: Block): string | undefined {
  return info.split(" ").find((word) => word.endsWith(".ts"));
}

/** A file without a folder belongs to the reader, and other blocks import it by its name. */
function fileOf(block: Block): string {
  const named = namedFile(block);
  if (named !== undefined && !named.includes("/")) return named;
  return `${block.name.replaceAll(/\W+/g, "-")}.ts`;
}

/**
 * Writes a block as a module of this repository.
 * @param folder two levels below its root, so that packages are found, and ignored by git.
 * @returns its path from the root.
 */
export function writeBlock(
  block: Block,
  folder: string,
  change: (code: string) => string = (code) => code,
): string {
  const own = sources();
  const code = block.code.replaceAll(/from "(sign-in-service[^"]*)"/g, (_all, name: string) => {
    const source = own.get(name);
    if (source === undefined) throw new Error(`${block.name}: ${name} is not published`);
    return `from "${source}"`;
  });
  // The imports of a block with a path are relative to that path.
  const path = namedFile(block) ?? "";
  const placed = path.includes("/")
    ? code.replaceAll(
        /from "(\.[^"]*)"/g,
        (_all, name: string) => `from "../../${join(dirname(path), name)}"`,
      )
    : code;
  // Without an import or export, the compiler would treat the block as a script.
  mkdirSync(join(ROOT, folder), { recursive: true });
  writeFileSync(join(ROOT, folder, fileOf(block)), `${change(placed)}\nexport {};\n`);
  return `${folder}/${fileOf(block)}`;
}

/** The block with this name. */
export function found(name: string): Block {
  const block = blocks().find((each) => each.name === name);
  if (block === undefined) throw new Error(`there is no ${name}`);
  return block;
}

/** The exports of a TypeScript block, which is written to this folder. */
export async function moduleIn<Module>(
  name: string,
  folder: string,
  change?: (code: string) => string,
): Promise<Module> {
  const path = writeBlock(found(name), folder, change);
  return (await import(pathToFileURL(join(ROOT, path)).href)) as Module;
}

/** The blocks that another test runs, and those that have nothing to run. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
  "README.md 4": "docs.test.ts and installed-documents.test.ts",
  "docs/internals/adding-a-kind.md 1": "records/adding-a-kind.test.ts",
  "docs/internals/adding-a-kind.md 2": "a line of a list: records/adding-a-kind.test.ts adds it",
  "docs/operate/administration/reference.md 1":
    "docs.test.ts compiles it; administration/client.test.ts makes the same calls",
  "docs/internals/changing-the-format.md 1":
    "records/formats/two-versions.test.ts has a row with all of its parts",
  "docs/customize/developing-a-ui.md 4": "developing.test.ts and installed-documents.test.ts",
  "docs/customize/developing-a-ui.md 6":
    "Next.js is not installed: developing.test.ts compares it with Vite's",
  "docs/embed/mount.md 1": "docs.test.ts and installed-documents.test.ts",
  "docs/embed/mount.md 7": "administration/middleware.test.ts",
  "docs/customize/pages.md 8": "installed-documents.test.ts",
  "docs/customize/pages.md 10": "one line: docs.test.ts compiles it",
  "docs/customize/pages.md 13": "types only: docs.test.ts compiles them",
  "docs/notifications/receiving.md 1": "docs.test.ts",
  "docs/embed/storage-backends.md 1": "own-store.test.ts",
  "docs/embed/storage-backends.md 2": "own-store.test.ts, with the runner of the tests",
  "docs/embed/storage-backends.md 3": "types only: docs.test.ts compiles them",
  "docs/embed/storage-backends.md 4": "own-store.test.ts",
  "docs/embed/testing.md 1": "docs.test.ts",
  "docs/embed/testing.md 2": "docs.test.ts",
  "docs/embed/testing.md 3": "docs.test.ts",
  "docs/embed/testing.md 4": "docs.test.ts",
  "docs/embed/testing.md 5": "docs.test.ts",
  "docs/connect/high-security.md 2": "flows/proving-clients.test.ts",
  "docs/operate/day-to-day/tracing.md 3": "cli/server/monitoring.test.ts",
  "docs/embed/testing.md 6":
    "docs.test.ts compiles it; testing/test-sign-in.test.ts delivers to such a receiver",
  "docs/connect/your-application.md 4": "your-application.test.ts and installed-documents.test.ts",
  "docs/connect/your-application.md 6": "your-application.test.ts and installed-documents.test.ts",
  "docs/connect/your-application.md 7": "your-application.test.ts",
};
