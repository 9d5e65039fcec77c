/** README and docs as data: their code blocks, tables and links. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

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
