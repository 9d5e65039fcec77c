/** README and docs as data: their code blocks, tables and links. */
import { pathToFileURL } from "node:url";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The root of the repository. */
export const ROOT: string = join(import.meta.dirname, "../..");

/** A fenced code block. */
export interface Block {
  readonly document: string;
  /** The document and the line, as in `docs/embed/mount.md:12`. */
  readonly at: string;
  readonly language: string;
  /** What the block is, as in `ts main.mts`: a file of the reader, or one of this repository. */
  readonly file: string | undefined;
  /** What tests call it, as in `ts name=rotate-a-secret`. The default is the file. */
  readonly name: string | undefined;
  /** The other words after the language. */
  readonly words: readonly string[];
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
  return documents().flatMap((document) => blocksIn(document, textOf(document)));
}

/** The fenced blocks of a text. */
export function blocksIn(document: string, text: string): Block[] {
  return [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)].map(({ 1: info = "", 2: code = "", index }) => {
    const [language = "", ...rest] = info.trim().split(/ +/);
    const file = rest.find((word) => /^[^=]*\.\w+(?:#|$)/.test(word));
    const named = rest.find((word) => word.startsWith("name="));
    return {
      document,
      at: `${document}:${text.slice(0, index).split("\n").length}`,
      language,
      file,
      name: named?.slice("name=".length) ?? file,
      words: rest.filter((word) => word !== file && word !== named),
      code,
    };
  });
}

/** The blocks of the only document whose path ends so, wherever its folder is. */
export function blocksOf(ending: string): Block[] {
  const [document, ...others] = documents().filter((path) => `/${path}`.endsWith(`/${ending}.md`));
  if (document === undefined || others.length > 0) throw new Error(`not one document is ${ending}.md`);
  return blocksIn(document, textOf(document));
}

/** The block with this name, in whichever document it stands. */
export function namedBlock(name: string): Block {
  const [block, ...others] = blocks().filter((each) => each.name === name);
  if (block === undefined) throw new Error(`no document has a block with the name ${name}`);
  if (others.some(({ code }) => code !== block.code))
    throw new Error(
      `several blocks have the name ${name}: ${[block, ...others].map(({ at }) => at).join(", ")}`,
    );
  return block;
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

/** Other blocks import a file of the reader by its name. */
export function moduleName({ at, name = at, file }: Block): string {
  return file === name && /^[\w-]+\.ts$/.test(file) ? file : `${name.replaceAll(/\W+/g, "-")}.ts`;
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
    if (source === undefined) throw new Error(`${block.at}: ${name} is not published`);
    return `from "${source}"`;
  });
  // The imports of a block with a path are relative to that path.
  const path = block.file ?? "";
  const placed = path.includes("/")
    ? code.replaceAll(
        /from "(\.[^"]*)"/g,
        (_all, name: string) => `from "../../${join(dirname(path), name)}"`,
      )
    : code;
  // Without an import or export, the compiler would treat the block as a script.
  mkdirSync(join(ROOT, folder), { recursive: true });
  writeFileSync(join(ROOT, folder, moduleName(block)), `${change(placed)}\nexport {};\n`);
  return `${folder}/${moduleName(block)}`;
}

/** The exports of a TypeScript block, which is written to this folder. */
export async function moduleIn<Module>(
  name: string,
  folder: string,
  change?: (code: string) => string,
): Promise<Module> {
  const path = writeBlock(namedBlock(name), folder, change);
  return (await import(pathToFileURL(join(ROOT, path)).href)) as Module;
}
