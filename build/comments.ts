/** The comments of published types: the documentation of their keys, for the pages that are generated. */
import { join } from "node:path";
import { isInterfaceDeclaration, isVariableDeclaration } from "typescript/unstable/ast";
import { API, type Checker, type Type } from "typescript/unstable/sync";
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

/** Runs what reads the comments of a project. The compiler is started once for all of it. */
export function withComments<T>(folder: string, use: (commentsOf: Comments) => T): T {
  const api = new API();
  try {
    const [project] = api.updateSnapshot({ openProjects: [join(folder, "tsconfig.json")] }).getProjects();
    return use(({ file, name }, paths) => {
      const tree = project?.program.getSourceFile(join(folder, file));
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
    });
  } finally {
    api.close();
  }
}
