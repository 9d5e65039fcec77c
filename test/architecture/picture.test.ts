import { describe, expect, it } from "@jest/globals";
import { drawArchitecture, importsBetween, reduced } from "../../build/picture.ts";

const TREE = new Map([
  ["compat/a.ts", 'import "../accounts/b.ts";\nimport type { C } from "../config/c.ts";'],
  ["accounts/b.ts", 'import "../config/c.ts";\nimport "./d.ts";'],
  ["accounts/d.ts", ""],
  ["config/c.ts", ""],
  ["test/e.test.ts", 'import "../compat/a.ts";'],
]);

function arrows(imports: ReturnType<typeof importsBetween>): string[] {
  return [...imports].flatMap(([from, targets]) => [...targets].map((to) => `${from.name} → ${to.name}`));
}

describe("the picture of the architecture", () => {
  it("has an arrow for each import between layers, except transitive ones", () => {
    const imports = importsBetween(TREE);
    expect(arrows(imports).toSorted()).toEqual(["accounts → config", "compat → accounts", "compat → config"]);
    expect(arrows(reduced(imports)).toSorted()).toEqual(["accounts → config", "compat → accounts"]);
  });

  it("changes with the imports, and describes the arrows in text", () => {
    const picture = drawArchitecture(TREE);
    expect(picture).toMatch(/<title id="title">.+<\/title>/);
    expect(picture).toMatch(
      /<desc id="desc">compat\/ imports from accounts\/.+ imports from config\/\.<\/desc>/,
    );
    expect(drawArchitecture(TREE)).toBe(picture);
    expect(drawArchitecture(new Map([...TREE, ["accounts/b.ts", ""]]))).not.toBe(picture);
  });
});
