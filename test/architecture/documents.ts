import type { Rule, Tree } from "./rule.ts";

/** Code of a document, as spaces, so that line numbers stay the same. */
function withoutCode(text: string): string {
  return text.replaceAll(/^```[^]*?^```$/gm, (code) => code.replaceAll(/[^\n]/g, " "));
}

/** The anchors of a document, as GitHub makes them from its headings. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutCode(text).matchAll(/^#{1,6} +(.+)$/gm)) {
    const anchor = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
      .replaceAll(" ", "-");
    const repeated = [...Array(anchors.size + 1).keys()].map((n) => (n === 0 ? anchor : `${anchor}-${n}`));
    anchors.add(repeated.find((each) => !anchors.has(each)) ?? anchor);
  }
  return anchors;
}

/** The documents that a line names, each with its fragment. A source names them from the root, a document links from its folder. */
function targetsIn(path: string, line: string): readonly (readonly [file: string, fragment: string])[] {
  if (!path.endsWith(".md"))
    return [...line.matchAll(/\bdocs\/[\w/-]+\.md(?:#([\w-]+))?/g)].map(([all, fragment = ""]) => [
      all.replace(/#.*/, ""),
      fragment,
    ]);
  return [...line.matchAll(/\]\(([^)\s#:]*)(?:#([^)\s]+))?\)/g)]
    .filter(([, target = ""]) => target === "" || target.endsWith(".md"))
    .map(([, target = "", fragment = ""]) => [
      target === "" ? path : new URL(target, `file:///${path}`).pathname.slice(1),
      fragment,
    ]);
}

/** Links to documents and headings that are not there. */
function deadLinks(tree: Tree): string[] {
  const anchors = new Map(
    [...tree.files].filter(([path]) => path.endsWith(".md")).map(([path, text]) => [path, anchorsOf(text)]),
  );
  return [...tree.files]
    .filter(([path]) => !path.startsWith("test/") && path !== "CHANGELOG.md")
    .flatMap(([path, text]) =>
      (path.endsWith(".md") ? withoutCode(text) : text).split("\n").flatMap((line, index) =>
        targetsIn(path, line)
          .filter(([file, fragment]) => {
            const known = anchors.get(file);
            return known === undefined || (fragment !== "" && !known.has(fragment));
          })
          .map(([file, fragment]) => `${path}:${index + 1} ${file}${fragment === "" ? "" : `#${fragment}`}`),
      ),
    );
}

export const documentRules: readonly Rule[] = [
  {
    says: "links to documents and their headings, in documents, messages and alerts, lead somewhere",
    check: deadLinks,
    planted: {
      "docs/a.md":
        "# One `code`, [two](b.md)\n\n## Twice\n\n## Twice\n\n```md\n[x](gone.md)\n# Shown\n```\n[a](#twice-1) [b](b/c.md#here) [c](#shown)\n",
      "docs/b/c.md": "# Here\n[a](../a.md#one-code-two) [b](../a.md#gone) [c](gone.md) [d](https://x.md#y)\n",
      "cli/a.ts": 'const at = "see docs/a.md#twice";\nconst gone = "see docs/gone.md";\n',
      "deploy/alerts.yml": "docs: docs/b/c.md#here\nmore: docs/b/c.md#away\n",
      "docs/b.md": "",
    },
    finds: [
      "docs/a.md:11 docs/a.md#shown",
      "docs/b/c.md:2 docs/a.md#gone",
      "docs/b/c.md:2 docs/b/gone.md",
      "cli/a.ts:2 docs/gone.md",
      "deploy/alerts.yml:2 docs/b/c.md#away",
    ],
  },
];
