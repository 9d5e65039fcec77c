/** What each view reads: the names in its code that it does not declare itself. `docs/reference/views.md` shows them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ejs from "ejs";
import {
  isBindingElement,
  isIdentifier,
  isParameterDeclaration,
  isPropertyAccessExpression,
  isPropertyAssignment,
  isVariableDeclaration,
  type Node,
} from "typescript/unstable/ast";
import { readTexts } from "../core/texts.ts";
import { sampleStep } from "../interactions/samples/steps.ts";
import { STEP_NAMES } from "../interactions/steps/running-sign-in.ts";
import { stepPage } from "../interactions/steps/views.ts";
import type { Page } from "./page.ts";
import { parse, walk } from "./syntax.ts";

const FILE = "docs/reference/views.md";
const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(ROOT, "interactions/views");

/** What EJS and JavaScript have. */
const BUILT_IN: ReadonlySet<string> = new Set(
  "locals escapeFn include rethrow __output __append __line __lines __filename undefined Object Array JSON String Number Boolean Math encodeURIComponent e toString escapeXML anonymous".split(
    " ",
  ),
);

const isName = (node: Node): boolean => {
  const { parent } = node;
  const isMember = isPropertyAccessExpression(parent) && parent.name === node;
  const isKey =
    (isPropertyAssignment(parent) && parent.name === node) ||
    (isBindingElement(parent) && parent.propertyName === node);
  return !isMember && !isKey;
};

const declares = (node: Node): boolean => {
  const { parent } = node;
  return (
    (isVariableDeclaration(parent) || isParameterDeclaration(parent) || isBindingElement(parent)) &&
    parent.name === node
  );
};

/** The names that each view reads, without those of the views that it includes. */
export function namesRead(): ReadonlyMap<string, ReadonlySet<string>> {
  const views = readdirSync(FOLDER).filter((file) => file.endsWith(".ejs"));
  const compiled = new Map(
    views.map((file) => {
      const text = readFileSync(join(FOLDER, file), "utf8");
      const template = new ejs.Template(text, { compileDebug: false });
      template.compile();
      return [`${file}.js`, `void function () {${template.source}}`] as const;
    }),
  );
  return new Map(
    parse(compiled).map(({ path, tree }) => {
      const [used, own] = [new Set<string>(), new Set<string>()];
      walk(tree, (node) => {
        if (!isIdentifier(node)) return;
        const { parent } = node;
        const ofLocals = isPropertyAccessExpression(parent) && parent.name === node;
        if (ofLocals && parent.expression.getText() === "locals") used.add(node.text);
        if (declares(node)) own.add(node.text);
        else if (isName(node)) used.add(node.text);
      });
      const names = [...used].filter((name) => !own.has(name) && !BUILT_IN.has(name));
      return [path.replace(/\.js$/u, ""), new Set(names)] as const;
    }),
  );
}

/** What a section of the page says that its view gets. */
function documented(section: string): string[] {
  const [, variables = ""] = /^Variables:(.*?)(?=^(?!- )\S|\s*$(?![\s\S]))/msu.exec(section) ?? [];
  const items = variables.trim().startsWith("- ") ? variables.trim().split(/^- /mu) : [variables];
  return items.flatMap((item) => {
    const names = item.replaceAll(/\([^)]*\)/gu, "").split(/:| as in |\. /u)[0] ?? "";
    return [...names.matchAll(/`([a-zA-Z]\w*)(?![\w-]*\.ejs|\w)[^`]*`/gu)].map(([, name = ""]) => name);
  });
}

/** The names that a view reads, with those of the views that it includes. */
function allRead(
  view: string,
  read: ReadonlyMap<string, ReadonlySet<string>>,
  seen = new Set<string>(),
): Set<string> {
  seen.add(view);
  const text = readFileSync(join(FOLDER, view), "utf8");
  const included = [...text.matchAll(/\binclude\("([^"]+)"/gu)].map(([, name]) => `${name}.ejs`);
  const all = new Set(read.get(view));
  for (const other of included)
    if (!seen.has(other) && read.has(other)) for (const name of allRead(other, read, seen)) all.add(name);
  return all;
}

const STEPS: ReadonlySet<string> = new Set(STEP_NAMES.map((name) => `${name}.ejs`));

/** What the views of steps get, whether the built-in ones read it or not. */
function passedToSteps(): readonly string[] {
  const t = readTexts(["en"], {}).translators.get("en");
  if (t === undefined) throw new Error("there is no English");
  return STEP_NAMES.flatMap((name) => {
    const step = sampleStep(name);
    return Object.keys(stepPage(step).locals(t, step));
  });
}

/**
 * The line below the heading of each view: what its code reads.
 * @throws Error if the page says that a view gets something that neither it nor a view that it includes reads.
 */
export function viewsWritten(page: string): string {
  const read = namesRead();
  const passed = passedToSteps();
  const wrong: string[] = [];
  const [before = "", ...sections] = page.split(/^(?=### [\w-]+\.ejs)/mu);
  // The tables of what all views get, and of what those of steps get.
  const everywhere = new Set(
    [...before.matchAll(/^\| (`.*?) \|/gmu)].flatMap(([, names = ""]) =>
      [...names.matchAll(/`(\w+)/gu)].map(([, name = ""]) => name),
    ),
  );
  const unknown: string[] = [];
  const written = sections.map((section) => {
    const [, view = ""] = /^### ([\w-]+\.ejs)/u.exec(section) ?? [];
    const names = read.get(view);
    if (names === undefined) throw new Error(`${FILE}: there is no view ${view}`);
    const all = allRead(view, read);
    if (STEPS.has(view)) for (const name of passed) all.add(name);
    wrong.push(
      ...documented(section)
        .filter((name) => !all.has(name))
        .map((name) => `${view}: ${name}`),
    );
    const [, intro = ""] = section.split("\n\n");
    const told = new Set([...everywhere, ...documented(section)]);
    unknown.push(
      ...[...names]
        .filter((name) => !told.has(name) && !intro.includes(`\`${name}\``))
        .map((name) => `${view}: ${name}`),
    );
    const own = [...names].filter((name) => !everywhere.has(name));
    const line = own.length === 0 ? "" : `*Reads*: ${own.map((name) => `\`${name}\``).join(", ")}\n\n`;
    return section.replace(/^(### .*\n\n)(?:\*Reads\*: .*\n\n)?/u, (_all, heading: string) => heading + line);
  });
  if (wrong.length > 0) throw new Error(`${FILE} says that these are read:\n${wrong.join("\n")}`);
  if (unknown.length > 0) throw new Error(`${FILE} does not say what these are:\n${unknown.join("\n")}`);
  return [before, ...written].join("");
}

export const viewsPage: Page = {
  file: FILE,
  generate: () => viewsWritten(readFileSync(join(ROOT, FILE), "utf8")),
};
