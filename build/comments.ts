/** The comments of published types: the documentation of their keys, for the pages that are generated. */
import { join } from "node:path";
import { isInterfaceDeclaration, isVariableDeclaration } from "typescript/unstable/ast";
import { API, type Checker, type Project, type Type } from "typescript/unstable/sync";
import { walk } from "./syntax.ts";

export const ROOT = join(import.meta.dirname, "..");

/** What the comment of a key says. */
export interface Comment {
  /** As it is written. */
  readonly source: string;
  /** All of it, on one line. */
  readonly text: string;
  readonly description: string;
  readonly byDefault: string | undefined;
}

export function readComment(text: string): Comment {
  const line = text.replaceAll(/\s+/gu, " ");
  const words = line.replace(/\.$/u, "");
  const [, description = words, byDefault] = /^(.*?)\. Default:? (.*)$/u.exec(words) ?? [];
  return { source: text, text: line, description, byDefault };
}

/** A published type, or a variable, of which the comments of the keys are the documentation. */
export interface Documented {
  readonly file: string;
  readonly name: string;
}

/** The comments of keys by their dotted path, as an editor shows them. A key without one has an empty comment. */
type Comments = (of: Documented, paths: readonly (readonly string[])[]) => ReadonlyMap<string, Comment>;

/** The types of a union, and those of the entries of lists. */
function partsOf(checker: Checker, type: Type): readonly Type[] {
  if (type.isUnionType()) return type.getTypes().flatMap((each) => partsOf(checker, each));
  return type.isTypeReference() && checker.isArrayLikeType(type)
    ? checker.getTypeArguments(type).flatMap((each) => partsOf(checker, each))
    : [type];
}

/** A compiler, and the project that it has read. */
class Reader {
  readonly #api = new API();
  readonly #folder: string;
  readonly #project: Project | undefined;

  constructor(folder: string) {
    this.#folder = folder;
    // Without the tests, which are as large again: no page shows their comments.
    const config = join(folder, folder === ROOT ? "tsconfig.build.json" : "tsconfig.json");
    [this.#project] = this.#api.updateSnapshot({ openProjects: [config] }).getProjects();
  }

  readonly commentsOf: Comments = ({ file, name }, paths) => {
    const project = this.#project;
    const tree = project?.program.getSourceFile(join(this.#folder, file));
    if (project === undefined || tree === undefined) throw new Error(`${file} was not parsed`);
    const { checker } = project;
    const roots: Type[] = [];
    walk(tree, (node) => {
      if ((isInterfaceDeclaration(node) || isVariableDeclaration(node)) && node.name.getText() === name)
        roots.push(...[checker.getTypeAtLocation(node.name)].filter((type) => type !== undefined));
    });
    const comments = new Map<string, Comment>();
    for (const path of paths) {
      let types: readonly Type[] = roots;
      for (const [depth, key] of path.entries()) {
        const symbol = types
          .flatMap((type) => partsOf(checker, type))
          .map((type) => checker.getPropertyOfType(type, key))
          .find((found) => found !== undefined);
        const text = symbol === undefined ? "" : checker.getDocumentationCommentOfSymbol(symbol);
        comments.set(path.slice(0, depth + 1).join("."), readComment(text));
        const type = symbol && checker.getTypeOfSymbol(symbol);
        types = type === undefined ? [] : [type];
      }
    }
    return comments;
  };

  close(): void {
    this.#api.close();
  }
}

/** What {@link withOneCompiler} keeps open: the reader of this project, once something has been read. */
let shared: { reader?: Reader } | undefined;

/** Runs what reads the comments of a project. The compiler is started once for all of it. */
export function withComments<T>(folder: string, use: (commentsOf: Comments) => T): T {
  if (folder === ROOT && shared !== undefined) return use((shared.reader ??= new Reader(ROOT)).commentsOf);
  const reader = new Reader(folder);
  try {
    return use(reader.commentsOf);
  } finally {
    reader.close();
  }
}

/** Within `work`, this project is read once, when its comments are first asked for. */
export async function withOneCompiler<T>(work: () => Promise<T>): Promise<T> {
  const own: { reader?: Reader } = (shared = {});
  try {
    return await work();
  } finally {
    shared = undefined;
    own.reader?.close();
  }
}
