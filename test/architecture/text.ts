import { isProduct } from "../../build/layers.ts";
import { type Branch, TREE, treeFaults } from "../../build/site/tree.ts";
import type { Rule, Tree } from "./rule.ts";

const SAYS_NOTHING = /^(?:utils?|helpers?|commons?|misc|shared|types?)$/i;

/** Written so that this file does not find itself. */
const EXCUSES =
  /(?:ox|es|ts|bio)lint[-]disable|@ts[-](?:ignore|nocheck|expect-error)|(?:biome|prettier|oxfmt)[-]ignore|(?:istanbul|c8|v8)[ ]ignore/;
/** Parts of planted lines, split for the same reason. */
const OFF = "-disable";
const TS = "@ts";
const REGISTRY = "registry";
const HOME = "/home";
const AI = "AI";

/** Text about a machine or the way of working, which does not belong in the project. */
const FOREIGN: Readonly<Record<string, RegExp>> = {
  "a path of one machine": /(?<![\w.~{}$)-])\/(?:home|Users|root|work|workspace)\/[\w.-]/,
  "a package registry": /\b(?:registry\.[\w-]+\.(?:org|com|io|net)|[\w-]+\.(?:jfrog|pkg)\.\w+)\b/i,
  "how the work is done":
    /\b(?:as[ ]an AI|AI[- ](?:assistant|generated|session)|language[ ]model|sub-?agents?|coding[ ]agent|brief[.]md)\b/i,
};

/** A path of ours in a document: `lib/a.ts`, or a folder with its slash. */
const NAMED_PATH =
  /`((?:accounts|adapters|administration|api|build|bench|cli|compat|config|core|examples|interactions|lib|notifier|provider|records|test|testing|upstream)\/(?:[\w.-]+\/)*(?:[\w-]+\.[\w.-]+)?)`/g;

/** The lock file names the public registry in every entry, as npm writes it. */
const LOCK = "package-lock.json";
const LOCKED = /"resolved": "https:\/\/registry\.npmjs\.org\//;

function lines(tree: Tree, test: (line: string, path: string) => string | undefined): string[] {
  return [...tree.files].flatMap(([path, text]) =>
    text.split("\n").flatMap((line, index) => {
      const what = test(line, path);
      return what === undefined ? [] : [`${path}:${index + 1} ${what}`];
    }),
  );
}

/** Meaningless names of folders and files, up to the first dot. */
function emptyName(path: string): string | undefined {
  return path.split("/").find((part) => SAYS_NOTHING.test(part.split(".")[0] ?? ""));
}

/** Replaces text by spaces, so that line numbers stay the same. */
function blank(text: string): string {
  return text.replaceAll(/[^\n]/g, " ");
}

/** Why a template violates the rule: raw output, or text that is not in a locale file. */
function templateFaults(path: string, text: string): string[] {
  const at = (index: number): string => `${path}:${text.slice(0, index).split("\n").length}`;
  const raw = [...text.matchAll(/<%-(?!\s*include\(\s*(["'])[\w./-]+\1)/g)].map(
    ({ index }) => `${at(index)} <%-`,
  );
  const left = text
    .replaceAll(/<%[\s\S]*?%>/g, blank)
    .replaceAll(/<!--[\s\S]*?-->/g, blank)
    .replaceAll(/<style\b[\s\S]*?<\/style>/gi, blank);
  const attributes = [...left.matchAll(/\b(?:title|alt|placeholder|aria-label)="[^"]*\p{L}[^"]*"/gu)];
  const shown = left.replaceAll(/<[^>]*>/g, blank).replaceAll(/&[a-z]+;/g, blank);
  const words = [...shown.matchAll(/\p{L}.*?(?= {2}|$)/gmu)];
  const scripts = [...left.matchAll(/<script\b(?![^>]*\bsrc=)|\son\w+=/gi)].map(
    ({ index }) => `${at(index)} script`,
  );
  return [
    ...raw,
    ...[...attributes, ...words].map(({ index, 0: found }) => `${at(index)} text: ${found.trim()}`),
    ...scripts,
  ];
}

/** Missing files and folders that a document mentions, unless it shows how to write them. */
function gonePaths(tree: Tree): string[] {
  const paths = [...tree.files.keys()];
  const isThere = (path: string): boolean =>
    path.endsWith("/") ? paths.some((each) => each.startsWith(path)) : tree.files.has(path);
  return [...tree.files]
    .filter(([path]) => path === "README.md" || /^docs\/.*\.md$/.test(path))
    .flatMap(([document, text]) =>
      text.split("\n").flatMap((line, index) =>
        [...line.matchAll(NAMED_PATH)]
          .map(([, path = ""]) => path)
          .filter((path) => !isThere(path) && !text.includes(`\n\`\`\`ts ${path}\n`))
          .map((path) => `${document}:${index + 1} ${path}`),
      ),
    );
}

/** @param checkout the folder of the project. */
export function textRules(checkout: string): readonly Rule[] {
  return [
    {
      says: "no file or folder has a meaningless name",
      check: (tree) =>
        [...tree.files.keys()].filter((path) => emptyName(path) !== undefined).map((path) => `${path}:1`),
      planted: {
        "lib/utils.ts": "",
        "lib/helpers/a.ts": "",
        "lib/token-types.ts": "",
        "test/types.test.ts": "",
        "docs/shared.md": "",
        "lib/grant-types/b.ts": "",
      },
      finds: ["lib/utils.ts:1", "lib/helpers/a.ts:1", "test/types.test.ts:1", "docs/shared.md:1"],
    },
    {
      says: "no comment switches a check off",
      check: (tree) => lines(tree, (line) => EXCUSES.exec(line)?.[0]),
      planted: {
        "lib/a.ts": `// oxlint${OFF}-next-line x\nconst a = 1; // ${TS}-expect-error\n// disable oxlint`,
        "lib/b.mjs": `/* eslint${OFF} */`,
      },
      finds: [`lib/a.ts:1 oxlint${OFF}`, `lib/a.ts:2 ${TS}-expect-error`, `lib/b.mjs:1 eslint${OFF}`],
    },
    {
      says: "templates print with <%= only, and what people read is in the locale files",
      check: (tree) =>
        [...tree.files]
          .filter(([path]) => path.endsWith(".ejs") && isProduct(path))
          .flatMap(([path, text]) => templateFaults(path, text)),
      planted: {
        "interactions/views/a.ejs": [
          '<!doctype html><html lang="<%= locale %>"><style>p { color: red }</style>',
          "<p class=\"note\"><%= t('a > b') %>&nbsp;</p><%- body %>",
          "<p>Hello</p><% if (x) { %><b>·</b><% } %><%- include('part', { y }) %>",
          '<input placeholder="Name" name="username" title="<%= t("x") %>"><button onclick="go()"></button>',
        ].join("\n"),
      },
      finds: [
        "interactions/views/a.ejs:2 <%-",
        'interactions/views/a.ejs:4 text: placeholder="Name"',
        "interactions/views/a.ejs:3 text: Hello",
        "interactions/views/a.ejs:4 script",
      ],
    },
    {
      says: "nothing names a machine, a package registry or how the work is done",
      check: (tree) =>
        lines(tree, (line, path) => {
          if (path === LOCK && LOCKED.test(line)) return undefined;
          if (checkout.split("/").length > 2 && line.includes(`${checkout}/`))
            return "the folder of this checkout";
          return Object.keys(FOREIGN).find((what) => FOREIGN[what]?.test(line));
        }),
      planted: {
        "docs/a.md": `see ${HOME}/ada/x\nhttps://example.com/home/page\nnpm from ${REGISTRY}.example.org\n`,
        "docs/b.md": `an ${AI} assistant wrote this\nthe user agent and the session\n${checkout}/lib`,
        "package-lock.json": `"resolved": "https://${REGISTRY}.npmjs.org/x"\n"resolved": "http://${REGISTRY}.other.org/x"`,
      },
      finds: [
        "docs/a.md:1 a path of one machine",
        "docs/a.md:3 a package registry",
        "docs/b.md:1 how the work is done",
        "docs/b.md:3 the folder of this checkout",
        "package-lock.json:2 a package registry",
      ],
    },
    {
      says: "the files and folders that README and docs name are there",
      check: gonePaths,
      planted: {
        "docs/a.md":
          "`lib/a.ts`, `lib/`\nand `lib/b.ts`, `cli/x/`\n```ts lib/c.ts\n```\n`lib/c.ts`, `lib/*.ts`\n",
        "docs/decisions/d.md": "`https://lib/x.ts`, `notifier/e.test.ts`",
        "lib/a.ts": "// `lib/gone.ts`",
      },
      finds: ["docs/a.md:2 lib/b.ts", "docs/a.md:2 cli/x/", "docs/decisions/d.md:1 notifier/e.test.ts"],
    },
    {
      says: "every page has one place in the tree of the site",
      check: ({ files }) => {
        const branches = files.get(TREE);
        const docs = [...files.keys()].flatMap((path) => (path.startsWith("docs/") ? [path.slice(5)] : []));
        return branches === undefined ? [] : treeFaults(JSON.parse(branches) as Branch[], docs);
      },
      planted: {
        [TREE]: JSON.stringify([
          {
            folder: "start",
            groups: [{ pages: ["a", "gone"] }, { title: "More", pages: ["deep/*", "a", "none/*"] }],
          },
        ]),
        "docs/start/a.md": "",
        "docs/start/deep/b.md": "",
        "docs/start/lost.md": "",
        "docs/start/data.json": "",
        "docs/internals/c.md": "",
      },
      finds: [
        `docs/start/lost.md is missing from ${TREE}`,
        `${TREE} has docs/start/gone.md, which is no file`,
        `${TREE} has docs/start/none/*.md, which is no file`,
        `${TREE} has docs/start/a.md twice`,
      ],
    },
  ];
}
