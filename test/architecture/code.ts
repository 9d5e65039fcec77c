import { isProduct } from "../../build/layers.ts";
import {
  isBinaryExpression,
  isCallExpression,
  isElementAccessExpression,
  isExportDeclaration,
  isIdentifier,
  isPropertyAccessExpression,
  SyntaxKind,
} from "typescript/unstable/ast";
import type { Node } from "typescript/unstable/ast";
import { lineOf, walk } from "../../build/syntax.ts";
import type { Source } from "../../build/syntax.ts";
import type { Rule } from "./rule.ts";

/** The lines of a source with nodes for which `test` returns a problem. */
export function report(source: Source, test: (node: Node) => string | undefined): string[] {
  const found: string[] = [];
  walk(source.tree, (node) => {
    const what = test(node);
    if (what !== undefined) found.push(`${source.path}:${lineOf(source.tree, node)} ${what}`);
  });
  return found;
}

/** `Thing.prototype`, however it is spelled. */
function isPrototype(node: Node): boolean {
  if (isPropertyAccessExpression(node)) return node.name.text === "prototype";
  if (isElementAccessExpression(node)) return /^(["'`])prototype\1$/.test(node.argumentExpression.getText());
  return isCallExpression(node) && node.expression.getText() === "Object.getPrototypeOf";
}

/** Functions of `Object` and `Reflect` that write to their first argument. */
export const WRITES: ReadonlySet<string> = new Set([
  "assign",
  "defineProperty",
  "defineProperties",
  "setPrototypeOf",
  "set",
  "deleteProperty",
]);

/** Whether a node changes a prototype: by assignment, or through `Object` or `Reflect`. */
function patches(node: Node): boolean {
  if (isBinaryExpression(node) && node.operatorToken.kind === SyntaxKind.EqualsToken) {
    const { left } = node;
    const target =
      isPropertyAccessExpression(left) || isElementAccessExpression(left) ? left.expression : left;
    return isPrototype(target) || isPrototype(left);
  }
  if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return false;
  const [target] = node.arguments;
  const { expression, name } = node.expression;
  const writes =
    isIdentifier(expression) && ["Object", "Reflect"].includes(expression.text) && WRITES.has(name.text);
  return writes && target !== undefined && isPrototype(target);
}

/** Files that reach into oidc-provider: by a deep import, or by changing a prototype. */
function inside(source: Source): string[] {
  const deep = source.imports
    .filter(({ specifier }) => /^oidc-provider\/(?!package\.json$)/.test(specifier))
    .map(({ specifier, line }) => `${source.path}:${line} ${specifier}`);
  return [...deep, ...report(source, (node) => (patches(node) ? "changes a prototype" : undefined))];
}

export const codeRules: readonly Rule[] = [
  {
    says: "an index.ts only re-exports",
    check: (tree) =>
      tree.sources
        .filter(({ path }) => /(?:^|\/)index\.ts$/.test(path) && isProduct(path))
        .flatMap((source) =>
          source.tree.statements
            .filter((each) => !(isExportDeclaration(each) && each.moduleSpecifier !== undefined))
            .map((each) => `${source.path}:${lineOf(source.tree, each)}`),
        ),
    planted: {
      "lib/index.ts":
        '/** Doc. */\nexport { a } from "./a.ts";\nexport type * from "./b.ts";\nexport const c = 1;\nimport "./d.ts";',
      "adapters/index.ts": 'import { a } from "./a.ts";\nexport { a };',
      "lib/a.ts": "export const a = 1;",
    },
    finds: ["lib/index.ts:4", "lib/index.ts:5", "adapters/index.ts:1", "adapters/index.ts:2"],
  },
  {
    says: "one file at most reaches into oidc-provider and changes prototypes, and one more for test services",
    check: (tree) => {
      const found = tree.sources.filter(({ path }) => isProduct(path)).map(inside);
      const files = found.filter((lines) => lines.length > 0);
      const [testing, product] = [true, false].map((isTesting) =>
        files.filter(([line]) => line?.startsWith("testing/") === isTesting),
      );
      return [testing, product].flatMap((each = []) => (each.length > 1 ? each.flat() : []));
    },
    planted: {
      "compat/a.ts": 'import("oidc-provider/lib/helpers/x.js");\nProvider.prototype.callback = f;',
      "compat/b.ts":
        'Object.defineProperty(Provider.prototype, "x", {});\nObject.assign(Object.getPrototypeOf(p), q);\nP["prototype"].x = 1;',
      "compat/c.ts":
        'import { Provider } from "oidc-provider";\nconst p = Provider.prototype.callback;\nObject.assign({}, Provider.prototype);',
      "test/a.test.ts": 'import "oidc-provider/lib/x.js";',
      "testing/a.ts": "Provider.prototype.callback = f;",
    },
    finds: [
      "compat/a.ts:1 oidc-provider/lib/helpers/x.js",
      "compat/a.ts:2 changes a prototype",
      "compat/b.ts:1 changes a prototype",
      "compat/b.ts:2 changes a prototype",
      "compat/b.ts:3 changes a prototype",
    ],
  },
];
