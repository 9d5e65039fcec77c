/** Each block of a document has a duty: its language says which. */
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { withFiles } from "../../build/page.ts";
import { readTree } from "../../build/tree.ts";
import { endpointPaths } from "../../config/deployments.ts";
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

/** Pages with a console block that no walk types yet. The list only gets shorter. */
const NOT_WALKED: ReadonlySet<string> = new Set([
  "attributes",
  "audit",
  "availability",
  "changing-the-format",
  "keys",
  "moving",
  "moving-from-csv",
  "subject-access",
]);

const read = (parts: readonly string[], parser: (text: string) => unknown): string | undefined => {
  try {
    for (const part of parts) parser(part);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

/** Those of the service, below its base URL, and those that the documents give to a receiver. */
const PATHS = new Set([
  ...[...endpointPaths.oauth2, ...endpointPaths.openid].map(({ path }) => path),
  "/notify",
  "/events",
]);

function unknownPath(address: string): string | undefined {
  const path = new URL(address, "http://localhost").pathname.replace(/^\/openid(?=\/)/, "");
  const known = [...PATHS].some((each) =>
    new RegExp(`^${each.replaceAll(/:\w+|\{[^}]*\}/g, "[^/]+")}$`).test(path),
  );
  return known ? undefined : `${path} is no path of the service`;
}

const program = (block: Block): string | undefined =>
  isTaken(block) ? undefined : `${block.name ?? "it"} is read by no test`;

function walked({ document }: Block): string | undefined {
  const page = basename(document, ".md");
  const isWalked = READERS.some(
    ([path, text]) => path.endsWith("documents.test.ts") && text.includes(`"${page}"`),
  );
  return isWalked === NOT_WALKED.has(page) ? `${page} is ${isWalked ? "" : "not "}walked` : undefined;
}

function http({ code }: Block): string | undefined {
  const [head = "", body = ""] = code.split("\n\n");
  const [, path] = /^[A-Z]+ (\/\S*)/.exec(head) ?? [];
  const json = body.startsWith("{") ? [body] : [];
  return read(json, JSON.parse) ?? (path === undefined ? undefined : unknownPath(path));
}

/** What is wrong with a block, by its language. docs.test.ts compiles, and looks at configurations and commands. */
const DUTIES: Readonly<Record<string, (block: Block) => string | undefined>> = {
  ...Object.fromEntries(
    "ejs go html js nginx promql py sql ts tsx".split(" ").map((each) => [each, program]),
  ),
  json: ({ code, file }) =>
    file === undefined || /^(?:sign-in|development|receiver)\.json$/.test(file)
      ? read([code], JSON.parse)
      : `nothing knows ${file}`,
  jsonl: ({ code }) => read(code.trimEnd().split("\n"), JSON.parse),
  yaml: ({ code }) => read([code], (text) => parse(text)),
  http,
  url: ({ code }) => unknownPath(code.trim()),
  console: walked,
  sh: () => undefined,
  // The tests of deploy/ type them.
  bash: () => undefined,
  ini: () => undefined,
  redis: () => undefined,
  csv: () => undefined,
  text: (block) => (block.words.includes("illustration") ? undefined : program(block)),
};

function faults(all: readonly Block[]): string[] {
  return all.flatMap((block) => {
    const duty = DUTIES[block.language];
    const fault = duty === undefined ? `"${block.language}" is no language with a duty` : duty(block);
    return fault === undefined ? [] : [`${block.at} ${fault}`];
  });
}

describe("a block", () => {
  const all = blocks();

  it("does the duty of its language", () => {
    expect(faults(all)).toEqual([]);
  });

  it.each([
    ["", "x", '"" is no language with a duty'],
    ["cobol", "x", '"cobol" is no language with a duty'],
    ["ts", "x", "it is read by no test"],
    ["js name=never-read", "x", "never-read is read by no test"],
    ["text", "x", "it is read by no test"],
    ["json", "{ a }", "Expected property name"],
    ["json receivers.json", "{}", "nothing knows receivers.json"],
    ["jsonl", "{}\n{", "Expected property name"],
    ["yaml", "a: [", "Flow sequence"],
    ["url", "http://localhost:3000/oauth2/autorize?x=1", "/oauth2/autorize is no path of the service"],
    ["http", "GET /openid/oauth2/jwks2 HTTP/1.1", "/oauth2/jwks2 is no path of the service"],
    ["http", "HTTP/1.1 200 OK\n\n{ a }", "Expected property name"],
    ["console", "$ ls", "a is not walked"],
  ])("of %s is refused with %j", (info, code, fault) => {
    expect(faults(blocksIn("a.md", `\`\`\`${info}\n${code}\n\`\`\`\n`))).toEqual([
      expect.stringMatching(new RegExp(`^a\\.md:1 .*${fault}`)),
    ]);
  });

  it("is seldom an illustration alone", () => {
    expect(all.filter(({ words }) => words.includes("illustration")).length).toBeLessThan(10);
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
