/** Each block of a document has a duty: its language says which. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { withFiles } from "../../build/page.ts";
import { readTree } from "../../build/tree.ts";
import { type Block, blocks, blocksIn, ROOT } from "./documents.ts";

/** Compiled by docs.test.ts. What they show runs elsewhere, with other values. */
const COMPILED: ReadonlySet<string> = new Set([
  "call-the-administration", // administration/client.test.ts makes the same calls.
  "deliver-to-a-receiver", // testing/test-sign-in.test.ts delivers to such a receiver.
  "passkeys-in-a-page", // One line.
  "what-a-backend-is", // Types alone.
  "what-a-step-says", // Types alone.
]);
/** Parts of a file, which can't run alone: the tests that hold the whole. */
const PARTS: Readonly<Record<string, string>> = {
  "list-of-kinds": "test/records/adding-a-kind.test.ts",
  "step-of-a-format": "test/records/formats/two-versions.test.ts",
  "wait-for-a-standby": "test/servers/postgresql-pair.ts",
};

const files = readTree();
/** The tests that read blocks. */
const READERS = [...files].filter(
  ([path, text]) =>
    path.startsWith("test/") &&
    /from "[./\w]*\/documents\.ts"/.test(text) &&
    !path.endsWith("blocks.test.ts"),
);

/** A program is read by a test, by its name. */
function isTaken({ name, file }: Block): boolean {
  if (name === undefined) return false;
  if (file !== undefined && existsSync(join(ROOT, file.replace(/#.*/, "")))) return true;
  if (COMPILED.has(name) || files.has(PARTS[name] ?? "")) return true;
  const quoted = new RegExp(`["\\s/]${name.replaceAll(/\W/g, String.raw`\$&`)}"| and ${name}\\b`);
  return READERS.some(([, text]) => quoted.test(text));
}

const PROGRAMS: ReadonlySet<string> = new Set("ejs go html js nginx promql py sql ts tsx".split(" "));

function untaken(all: readonly Block[]): string[] {
  return all
    .filter((block) => PROGRAMS.has(block.language) && !isTaken(block))
    .map(({ at, name = "has no name" }) => `${at} ${name}`);
}

describe("a block", () => {
  const all = blocks();

  it("has a language, and a program a name that a test reads", () => {
    expect(all.filter(({ language }) => language === "").map(({ at }) => at)).toEqual([]);
    expect(untaken(all)).toEqual([]);
    const planted = "```ts\n```\n\n```js name=never-read\n```\n\n```ts name=rotate-a-secret\n```\n";
    expect(untaken(blocksIn("a.md", planted))).toEqual(["a.md:1 has no name", "a.md:4 never-read"]);
  });

  it("has a name that no other has, unless both show the same", () => {
    const named = Map.groupBy(
      all.filter(({ name, file }) => name !== file),
      ({ name }) => name,
    );
    expect([...named].flatMap(([name, found]) => (found.length > 1 ? [name] : []))).toEqual([]);
  });
});

describe("a block that shows a file", () => {
  const source: Readonly<Record<string, string>> = {
    "examples/app.ts": [
      "import x;",
      "function run() {",
      "  // #region mount",
      "  app.use(x);",
      "",
      "  // #region inner",
      "  if (y) {",
      "    z();",
      "  }",
      "  // #endregion",
      "  // #endregion",
      "}",
      "// #region open",
    ].join("\n"),
    "examples/job.py": "# #region main\nrun()\n# #endregion\n",
    "deploy/page.html": "<!-- #region top -->\n<p>\n<!-- #endregion -->\n<hr>\n",
    "examples/fence.ts": "```\n",
  };
  const written = (info: string): string =>
    withFiles(`a\n\n\`\`\`${info}\nold\n\`\`\`\n\nb\n`, (file) => {
      const text = source[file];
      if (text === undefined) throw new Error(`no ${file}`);
      return text;
    });

  it.each([
    ["ts examples/app.ts#mount", "app.use(x);\n\nif (y) {\n  z();\n}"],
    ["ts examples/app.ts#inner name=inner", "if (y) {\n  z();\n}"],
    ["py examples/job.py#main", "run()"],
    ["py examples/job.py", "run()"],
    ["html deploy/page.html#top", "<p>"],
    ["html deploy/page.html", "<p>\n<hr>"],
    ["ts app.ts", "old"],
    ["ts records/app.ts", "old"],
  ])("as %s gets its lines", (info, code) => {
    expect(written(info)).toBe(`a\n\n\`\`\`${info}\n${code}\n\`\`\`\n\nb\n`);
  });

  it.each([
    ["ts examples/gone.ts", "no examples/gone.ts"],
    ["ts examples/app.ts#gone", "no region gone"],
    ["ts examples/app.ts#open", "no region open, or no end of it"],
    ["ts examples/fence.ts", "would end the block"],
  ])("as %s is refused", (info, message) => {
    expect(() => written(info)).toThrow(message);
  });
});
