import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { parse } from "../build/syntax.ts";
import { readTree } from "../build/tree.ts";
import { codeRules } from "./architecture/code.ts";
import { styleRules } from "./architecture/document-style.ts";
import { documentRules } from "./architecture/documents.ts";
import { layerRules } from "./architecture/layers.ts";
import { exportedNames, MAX_PUBLIC_NAMES, PUBLIC_NAMES } from "./architecture/public-names.ts";
import { stateRules } from "./architecture/state.ts";
import { textRules } from "./architecture/text.ts";
import type { Rule, Tree } from "./architecture/rule.ts";
import type { Files } from "../build/syntax.ts";

const rules: readonly Rule[] = [
  ...layerRules,
  ...codeRules,
  ...stateRules,
  ...documentRules,
  ...styleRules,
  ...textRules(join(import.meta.dirname, "..")),
];

function treeOf(files: Files): Tree {
  return { files, sources: parse(files) };
}

describe("the architecture", () => {
  const tree = treeOf(readTree());

  it("is checked on the real sources", () => {
    expect(tree.sources.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["adapters/record-store.ts", "config/configuration.ts", "core/errors.ts"]),
    );
    expect(tree.sources.flatMap(({ imports }) => imports).length).toBeGreaterThan(100);
  });

  it.each(rules.map((rule) => [rule.says, rule] as const))("%s", (_says, rule) => {
    expect(rule.check(tree)).toEqual([]);
  });
});

describe("the public names", () => {
  const files = readTree();
  const manifest = JSON.parse(files.get("package.json") ?? "{}") as {
    readonly exports: Readonly<Record<string, { readonly types: string }>>;
  };
  const modules = Object.entries(manifest.exports).filter(([path]) => !path.endsWith(".json"));
  const entries = modules.map(([, { types }]) => {
    const declared = types.replace("./dist/", "");
    return files.has(declared) ? declared : declared.replace(/\.d\.ts$/, ".ts");
  });
  const tree = treeOf(new Map(entries.map((entry) => [entry, files.get(entry) ?? ""])));

  it("are those of the table", () => {
    expect(entries.toSorted()).toEqual(Object.keys(PUBLIC_NAMES).toSorted());
    const exported = Object.fromEntries(entries.map((entry) => [entry, exportedNames(tree, entry)]));
    const listed = Object.entries(PUBLIC_NAMES).map(([entry, names]) => [
      entry,
      Object.keys(names).toSorted(),
    ]);
    expect(exported).toEqual(Object.fromEntries(listed));
  });

  it(`are at most ${MAX_PUBLIC_NAMES}`, () => {
    const count = Object.values(PUBLIC_NAMES).flatMap((names) => Object.keys(names)).length;
    expect(count).toBeLessThanOrEqual(MAX_PUBLIC_NAMES);
  });
});

describe("each rule finds exactly the planted violations", () => {
  it.each(rules.map((rule) => [rule.says, rule] as const))("%s", (_says, rule) => {
    expect(rule.finds.length).toBeGreaterThan(0);
    expect(rule.check(treeOf(new Map(Object.entries(rule.planted))))).toEqual(rule.finds);
  });
});
