import type { Rule, Tree } from "./rule.ts";

/** Documents over 700 written words, with their count in full hundreds. The list only gets shorter, and each count smaller. */
const LONG: Readonly<Record<string, number>> = {
  "docs/customize/sign-in-methods.md": 800,
  "docs/notifications/events.md": 800,
  "docs/operate/administration/console.md": 1400,
  "docs/operate/day-to-day/backup.md": 1100,
  "docs/operate/day-to-day/keys.md": 1200,
  "docs/operate/runbooks/alerts.md": 2000,
  "docs/operate/set-up/deploying.md": 1000,
  "docs/operate/set-up/postgresql.md": 2000,
  "docs/operate/set-up/redis.md": 1400,
  "docs/security/how-accounts-are-protected.md": 800,
};

/** How many violations of each rule are left in all documents together, so that a page can move. A count only gets smaller. */
const LEFT: Readonly<Record<string, number>> = {
  "sentences have at most 25 words": 58,
  "cells have at most 120 characters": 78,
};

/** A rule for one page. */
interface Style {
  readonly says: string;
  /** The places of its violations. */
  readonly find: (text: string) => readonly number[];
  readonly planted: string;
  /** Lines of the planted text. */
  readonly finds: readonly number[];
}
const places = (text: string, wanted: RegExp): number[] =>
  [...text.matchAll(wanted)].map(({ index }) => index);
const spaces = (part: string): string => part.replaceAll(/[^\n]/g, " ");

/** What people wrote: no frontmatter, code, comments or generated parts. Lines stay where they are. */
function written(text: string): string {
  return text
    .replace(/^---\n[^]*?\n---\n/, spaces)
    .replaceAll(/<!-- (.+): written by npm run docs -->[^]*?<!-- end of \1 -->/g, spaces)
    .replaceAll(/^ *```[^]*?^ *```$/gm, spaces)
    .replaceAll(/<!--[^]*?-->/g, spaces);
}

/** The sentences of paragraphs and lists, each with its place. */
function longSentences(text: string, most: number): number[] {
  const paragraphs = text.replaceAll(/^(?:\||#|>).*$/gm, spaces);
  return [...paragraphs.matchAll(/(?:[^\n]|\n(?!\s*\n|\s*[-*] |\s*\d+\. ))+/g)].flatMap(
    ({ 0: paragraph, index }) =>
      [...paragraph.matchAll(/[^]+?(?:[.?!:](?=\s|$)|$)/g)]
        .filter(([sentence]) => (sentence.match(/[\p{L}\p{N}][^\s]*/gu) ?? []).length > most)
        .map((sentence) => index + sentence.index + sentence[0].search(/\S/)),
  );
}

const rows = (text: string): RegExpExecArray[] => [...text.matchAll(/^\|(.*)\|$/gm)];

const STYLES: readonly Style[] = [
  {
    says: "headings say what is done or described",
    find: (text) =>
      places(text, /^#+ (?:What to know|Notes?|More|Miscellaneous|Other|Overview|Introduction)$/gm),
    planted: "# What to know\n## More receivers\n## Notes\n",
    finds: [1, 3],
  },
  {
    says: "sentences have at most 25 words",
    find: (text) => longSentences(text, 25),
    planted: `Short one. ${"word ".repeat(25)}word.\n\n- ${"word ".repeat(24)}word.\n- ${"word ".repeat(26)}\n\n| ${"word ".repeat(30)} |\n`,
    finds: [1, 4],
  },
  {
    says: "an address is one of something: an email address, an IP address",
    find: (text) => places(text, /\b(?:one|each|another) address(?:es)?\b(?! of)/g),
    planted: "from one address\none email address\neach address of a page\nanother address\n",
    finds: [1, 4],
  },
  {
    says: "spelling is American",
    find: (text) =>
      places(
        text,
        /\b(?:e-mails?|colours?|behaviours?|recognis\w+|organis\w+|authoris\w+|licence|cancelled)\b/gi,
      ),
    planted: "E-mail\nemail\nauthorised colours\n",
    finds: [1, 3, 3],
  },
  {
    says: "placeholders are CAPITALS in commands and {base} in paths",
    find: (text) => places(text, /\{(?:base_url|openid_url|oauth2_url|baseUrl)\}/g),
    planted: "{base}/x\n{base_url}/x {openid_url}\n",
    finds: [2, 2],
  },
  {
    says: "columns of tables have names, and there are at most four",
    find: (text) =>
      [...text.matchAll(/^\|(.*)\|\n\|[-|: ]+\|$/gm)]
        .filter(([, head = ""]) => {
          const cells = head.split("|");
          return cells.length > 4 || cells.every((cell) => cell.trim() === "");
        })
        .map(({ index }) => index),
    planted:
      "| a | b |\n| --- | --- |\n\n| | |\n| --- | --- |\n\n| a | b | c | d | e |\n| --- | --- | --- | --- | --- |\n",
    finds: [4, 7],
  },
  {
    says: "cells have at most 120 characters",
    find: (text) =>
      rows(text)
        .filter(([, row = ""]) => row.split("|").some((cell) => cell.trim().length > 120))
        .map(({ index }) => index),
    planted: `| ${"x".repeat(120)} |\n| a | ${"x".repeat(121)} |\n`,
    finds: [2],
  },
  {
    says: "each row stands alone",
    find: (text) => places(text, /^\|(?=.*\| ?(?:The same|Same|As above|Ditto)(?: \||,| in\b| as for\b))/gm),
    planted: "| a | The same |\n| a | b the same |\n| a | The same answer |\n",
    finds: [1],
  },
  {
    says: "one warning a page, which is a CAUTION or a NOTE",
    find: (text) => {
      const all = places(text, /^> \[!\w+\]/gm);
      return all.filter((at, index) => index > 0 || !/^> \[!(?:CAUTION|NOTE)\]/.test(text.slice(at)));
    },
    planted: "> [!NOTE]\n> a\n\n> [!CAUTION]\n> b\n",
    finds: [4],
  },
  {
    says: "links say where they lead",
    find: (text) => places(text, /\[(?:here|below|above|this page|this|link)\]\(/gi),
    planted: "see [below](#a)\nsee [below the tables](#a)\n[Here](b.md)\n",
    finds: [1, 3],
  },
];

/** The pages for users. Those of `docs/reference` are mostly generated, and the rest is for who works on the code. */
function pagesOf(tree: Tree): readonly (readonly [path: string, text: string])[] {
  return [...tree.files].filter(
    ([path]) =>
      path === "README.md" ||
      (/^docs\/.*\.md$/.test(path) && !/^docs\/(?:internals|decisions|reference)\//.test(path)),
  );
}

const lineOf = (text: string, index: number): number => text.slice(0, index).split("\n").length;

function styleRule({ says, find, planted, finds }: Style): Rule {
  return {
    says: `documents: ${says}`,
    check: (tree) => {
      const found = pagesOf(tree).flatMap(([path, text]) =>
        find(written(text)).map((index) => `${path}:${lineOf(text, index)}`),
      );
      // Those of the rule's own example all count.
      const left = tree.files.has("package.json") ? (LEFT[says] ?? 0) : 0;
      return found.length <= left ? [] : found;
    },
    planted: { "docs/a.md": planted, "docs/internals/b.md": planted },
    finds: finds.map((line) => `docs/a.md:${line}`),
  };
}

const words = (text: string): number =>
  written(text)
    .replaceAll(/^\|.*$/gm, "")
    .split(/\s+/)
    .filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

export const styleRules: readonly Rule[] = [
  ...STYLES.map((style) => styleRule(style)),
  {
    says: "documents: a page has at most 700 words",
    check: (tree) =>
      pagesOf(tree)
        .filter(([path, text]) => words(text) > Math.max(700, LONG[path] ?? 0))
        .map(([path, text]) => `${path}:1 ${words(text)} words`),
    planted: {
      "docs/a.md": "word ".repeat(701),
      "docs/b.md": `---\nreader: C\n---\n${"word ".repeat(700)}\n\n\`\`\`sh\nmore words\n\`\`\`\n`,
    },
    finds: ["docs/a.md:1 701 words"],
  },
  {
    says: "documents: frontmatter names one reader",
    check: (tree) =>
      pagesOf(tree)
        .filter(([, text]) => {
          const [head = ""] = /^---\n[^]*?\n---\n/.exec(text) ?? [];
          return head !== "" && (head.match(/^reader: [A-Z]$/gm) ?? []).length !== 1;
        })
        .map(([path]) => `${path}:1`),
    planted: {
      "docs/a.md": "---\nreader: C\n---\n",
      "docs/b.md": "---\ntitle: B\n---\n",
      "docs/c.md": "---\nreader: C, S\n---\n",
    },
    finds: ["docs/b.md:1", "docs/c.md:1"],
  },
];
