/** Parses sources with TypeScript's parser, for the architecture test and the generated files. */
import { dirname } from "node:path/posix";
import {
  isCallExpression,
  isExportDeclaration,
  isImportDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isNoSubstitutionTemplateLiteral,
  isStringLiteral,
  SyntaxKind,
} from "typescript/unstable/ast";
import type { Node, SourceFile } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";

/** Path, relative to the root of the tree → text. */
export type Files = ReadonlyMap<string, string>;

/** A reference from a source to another module. */
export interface Import {
  readonly specifier: string;
  /** `type` exists only for the compiler, `dynamic` is loaded when the line runs, `value` is loaded immediately. */
  readonly kind: "value" | "type" | "dynamic";
  /** Counted from 1. */
  readonly line: number;
}

/** A source with its syntax tree. */
export interface Source {
  readonly path: string;
  readonly text: string;
  readonly tree: SourceFile;
  readonly imports: readonly Import[];
}

/** A virtual folder: the parser gets the sources from memory. */
const ROOT = "/tree";
const CONFIG = `${ROOT}/tsconfig.json`;

/** Whether {@link parse} accepts a file of this name. */
export function isSource(path: string): boolean {
  return /\.(?:ts|mts|cts|js|mjs|cjs)$/.test(path);
}

/** Parses all sources among the files, in their order. Ignores other files. */
export function parse(files: Files): Source[] {
  const paths = [...files.keys()].filter(isSource);
  const config = {
    compilerOptions: {
      noResolve: true,
      noLib: true,
      types: [],
      allowJs: true,
      noEmit: true,
      module: "esnext",
    },
    files: paths,
  };
  const all = new Map([...files].map(([path, text]) => [`${ROOT}/${path}`, text]));
  all.set(CONFIG, JSON.stringify(config));
  const folders = new Set<string>();
  for (const path of all.keys())
    for (let at = dirname(path); !folders.has(at); at = dirname(at)) folders.add(at);

  const api = new API({
    fs: {
      readFile: (path) => all.get(path) ?? null,
      fileExists: (path) => all.has(path),
      directoryExists: (path) => folders.has(path),
      getAccessibleEntries: () => ({ files: [], directories: [] }),
      realpath: (path) => path,
    },
  });
  try {
    const [project] = api.updateSnapshot({ openProjects: [CONFIG] }).getProjects();
    return paths.map((path) => {
      const tree = project?.program.getSourceFile(`${ROOT}/${path}`);
      if (tree === undefined) throw new Error(`${path} was not parsed`);
      return { path, text: files.get(path) ?? "", tree, imports: importsOf(tree) };
    });
  } finally {
    api.close();
  }
}

/** The line of a node, counted from 1. */
export function lineOf(tree: SourceFile, node: Node): number {
  return tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1;
}

/** Calls `visit` for every node of the tree, parents first. */
export function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

function importsOf(tree: SourceFile): Import[] {
  const found: Import[] = [];
  walk(tree, (node) => {
    const named = specifierOf(node);
    if (named === undefined) return;
    const [specifier, kind] = named;
    if (isStringLiteral(specifier) || isNoSubstitutionTemplateLiteral(specifier))
      found.push({ specifier: specifier.text, kind, line: lineOf(tree, specifier) });
  });
  return found;
}

function specifierOf(node: Node): readonly [Node, Import["kind"]] | undefined {
  if (isImportDeclaration(node)) {
    // `import { type A }` is a value import, because it still loads the module after the types are stripped.
    const onlyTypes = node.importClause?.phaseModifier === SyntaxKind.TypeKeyword;
    return [node.moduleSpecifier, onlyTypes ? "type" : "value"];
  }
  if (isExportDeclaration(node) && node.moduleSpecifier !== undefined)
    return [node.moduleSpecifier, node.isTypeOnly ? "type" : "value"];
  if (isImportTypeNode(node) && isLiteralTypeNode(node.argument)) return [node.argument.literal, "type"];
  const [first] = isCallExpression(node) ? node.arguments : [];
  if (first === undefined || !isCallExpression(node)) return undefined;
  if (node.expression.kind === SyntaxKind.ImportKeyword) return [first, "dynamic"];
  return undefined;
}
