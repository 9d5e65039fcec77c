import { isProduct } from "../../build/layers.ts";
import {
  isArrayLiteralExpression,
  isBinaryExpression,
  isCallExpression,
  isDeleteExpression,
  isElementAccessExpression,
  isIdentifier,
  isNewExpression,
  isObjectLiteralExpression,
  isPropertyAccessExpression,
  isVariableDeclaration,
  isVariableStatement,
  SyntaxKind,
} from "typescript/unstable/ast";
import type { Expression, Node, SourceFile, Statement, VariableDeclaration } from "typescript/unstable/ast";
import { lineOf, walk } from "../../build/syntax.ts";
import type { Source } from "../../build/syntax.ts";
import { report, WRITES } from "./code.ts";
import type { Rule } from "./rule.ts";

/** Classes whose instances at module level are mutable state. */
const FILLED_LATER = new Set(["WeakMap", "WeakSet", "AsyncLocalStorage", "EventEmitter"]);
/** Classes that may hold a constant table if their type is readonly. */
const TABLES = new Set(["Map", "Set", "Array"]);
const CHANGES = new Set(
  "push pop shift unshift splice sort reverse fill copyWithin set add delete clear".split(" "),
);

/** Files that are started, never imported. */
const STARTED: ReadonlySet<string> = new Set([
  "cli/main.ts",
  "accounts/passwords/hash-thread.ts",
  "interactions/views/pages.js",
]);

/** Statements that run on import: neither declarations nor imports. */
const RUNS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.ExpressionStatement,
  SyntaxKind.IfStatement,
  SyntaxKind.ForStatement,
  SyntaxKind.ForOfStatement,
  SyntaxKind.ForInStatement,
  SyntaxKind.WhileStatement,
  SyntaxKind.DoStatement,
  SyntaxKind.TryStatement,
  SyntaxKind.SwitchStatement,
  SyntaxKind.Block,
]);

function declarations(statement: Statement): readonly VariableDeclaration[] {
  return isVariableStatement(statement) ? statement.declarationList.declarations : [];
}

/** `let` and `var`, found in the source text, because the syntax tree does not expose the flags. */
function isReassignable(statement: Statement): boolean {
  return isVariableStatement(statement) && /^(?:let|var)\b/.test(statement.declarationList.getText());
}

/** Mutable containers at module level without a readonly type. */
function isContainer({ type, initializer }: VariableDeclaration): boolean {
  if (initializer === undefined) return false;
  const readonly = type !== undefined && /^(?:readonly |Readonly)/.test(type.getText());
  if (isNewExpression(initializer)) {
    const name = initializer.expression.getText();
    return FILLED_LATER.has(name) || (TABLES.has(name) && !readonly);
  }
  const empty =
    (isArrayLiteralExpression(initializer) && initializer.elements.length === 0) ||
    (isObjectLiteralExpression(initializer) && initializer.properties.length === 0);
  return empty && !readonly;
}

/** The name at the root of `NAME.a.b[c]`. */
function rootOf(node: Expression | Node): string | undefined {
  if (isIdentifier(node)) return node.text;
  if (isPropertyAccessExpression(node) || isElementAccessExpression(node)) return rootOf(node.expression);
  return undefined;
}

/** What a node writes to: `X` of `X.a = 1`, `delete X.a`, `X.push(1)`, `X.n++`. */
function changed(node: Node): string | undefined {
  if (
    isBinaryExpression(node) &&
    /^(?:[^=!<>]|\*\*|<<|>>>?|&&|\|\||\?\?)?=$/.test(node.operatorToken.getText())
  )
    return isIdentifier(node.left) ? undefined : rootOf(node.left);
  if (isDeleteExpression(node)) return rootOf(node.expression);
  if (node.kind === SyntaxKind.PostfixUnaryExpression || node.kind === SyntaxKind.PrefixUnaryExpression) {
    const text = /^(?:\+\+|--)?([\w$]+)[.[].*?(?:\+\+|--)?$/s.exec(node.getText());
    return /^(?:\+\+|--)|(?:\+\+|--)$/.test(node.getText()) ? text?.[1] : undefined;
  }
  if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return undefined;
  if (
    /^(?:Object|Reflect)$/.test(node.expression.expression.getText()) &&
    WRITES.has(node.expression.name.text)
  )
    return node.arguments[0] === undefined ? undefined : rootOf(node.arguments[0]);
  return CHANGES.has(node.expression.name.text) ? rootOf(node.expression.expression) : undefined;
}

/** Names of literals and containers at module level that are not shadowed in the file. */
function tables(tree: SourceFile): Set<string> {
  const names = tree.statements
    .flatMap(declarations)
    .filter(({ initializer }) => initializer !== undefined && isLiteral(initializer))
    .map(({ name }) => name.getText());
  const declared: string[] = [];
  walk(tree, (node) => {
    const declares = isVariableDeclaration(node) || node.kind === SyntaxKind.Parameter;
    const name = declares && "name" in node ? (node.name as Node) : undefined;
    if (name !== undefined) walk(name, (part) => void (isIdentifier(part) && declared.push(part.text)));
  });
  return new Set(names.filter((name) => declared.filter((each) => each === name).length === 1));
}

function isLiteral(node: Expression): boolean {
  return isNewExpression(node) || isArrayLiteralExpression(node) || isObjectLiteralExpression(node);
}

function stateOf(source: Source): string[] {
  const { tree, path } = source;
  const line = (node: Node): string => `${path}:${lineOf(tree, node)}`;
  const own = tree.statements.flatMap((statement) => [
    ...(isReassignable(statement) ? [`${line(statement)} can be assigned again`] : []),
    ...declarations(statement)
      .filter(isContainer)
      .map((each) => `${line(each)} ${each.name.getText()} is there to be filled`),
  ]);
  const names = tables(tree);
  const written = report(source, (node) => {
    const name = changed(node);
    return name !== undefined && names.has(name) ? `${name} is changed` : undefined;
  });
  return [...own, ...written];
}

export const stateRules: readonly Rule[] = [
  {
    says: "no mutable state at module level",
    check: (tree) => tree.sources.filter(({ path }) => isProduct(path)).flatMap(stateOf),
    planted: {
      "lib/a.ts": [
        "let count = 0;",
        "const cache = new Map<string, string>();",
        "const known: ReadonlyMap<string, string> = new Map([['a', 'b']]);",
        "const seen = new WeakMap();",
        "const list: string[] = [];",
        "const none: readonly string[] = [];",
        "const table = { a: 1 };",
        "const rows = ['a', 'b'];",
        "export function f(): void {",
        "  let inner = new Map(); const open = []; open.push(1); inner.set(1, 2);",
        "  table.a = 2;",
        "  rows.sort();",
        "  table['a']++;",
        "  if (table.a === 1 || table.a <= 2) return;",
        "}",
        "export function g(rows2: string[], known2 = known.get('a')): void { rows2.push('c'); }",
        "export const h = () => { const local = { a: 1 }; local.a = 2; return rows.toSorted(); };",
      ].join("\n"),
      "lib/b.ts": "export const shape = { a: [] };\nexport function f(shape: { a: number }) { shape.a = 1; }",
      "test/a.test.ts": "let count = 0;",
    },
    finds: [
      "lib/a.ts:1 can be assigned again",
      "lib/a.ts:2 cache is there to be filled",
      "lib/a.ts:4 seen is there to be filled",
      "lib/a.ts:5 list is there to be filled",
      "lib/a.ts:11 table is changed",
      "lib/a.ts:12 rows is changed",
      "lib/a.ts:13 table is changed",
    ],
  },
  {
    says: "the product changes nothing on globalThis",
    check: (tree) =>
      tree.sources
        .filter(({ path }) => isProduct(path))
        .flatMap((source) =>
          report(source, (node) => {
            const name = changed(node);
            return name === "globalThis" || name === "global" ? name : undefined;
          }),
        ),
    planted: {
      "lib/a.ts":
        "globalThis.x = 1;\nconst f: typeof globalThis.fetch = globalThis.fetch;\nglobal.y.push(2);\nObject.assign(globalThis, f);",
      "test/a.test.ts": "globalThis.x = 1;",
    },
    finds: ["lib/a.ts:1 globalThis", "lib/a.ts:3 global", "lib/a.ts:4 globalThis"],
  },
  {
    says: "nothing happens when a module is imported",
    check: (tree) =>
      tree.sources
        .filter(({ path }) => isProduct(path) && !STARTED.has(path))
        .flatMap((source) =>
          source.tree.statements
            .filter(({ kind }) => RUNS.has(kind))
            .map((each) => `${source.path}:${lineOf(source.tree, each)}`),
        ),
    planted: {
      "lib/a.ts":
        "export const a = 1;\nstart();\nif (a) stop();\nfor (const b of []) go(b);\nexport function f() { start(); }",
      "cli/main.ts": "await start();",
      "examples/a.ts": "start();",
    },
    finds: ["lib/a.ts:2", "lib/a.ts:3", "lib/a.ts:4"],
  },
];
