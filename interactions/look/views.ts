/** The views, read at start-up. A team's own are compiled, too, so that a broken one stops the start instead of a sign-in. */
import { hash } from "node:crypto";
import ejs from "ejs";
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";
import { nearestKey } from "../../config/nearest-key.ts";

/** The folder of the built-in views and of `style.css`. */
const BUILT_IN = join(import.meta.dirname, "..", "views");
const STYLE_FILE = "style.css";
/** The sheets that some pages add to it, by the first word of their layout. */
const LAYOUT_SHEETS: ReadonlyMap<string, readonly string[]> = new Map([
  ["", ["style-sign-in.css"]],
  ["account", ["style-signed-in.css", "style-account.css"]],
  ["wide", ["style-signed-in.css", "style-wide.css"]],
  ["console", ["style-signed-in.css", "style-wide.css", "style-console.css"]],
]);
const SCRIPT_FILE = "pages.js";
/** What `sign-in-service/browser` exports. The script begins with it, also a team's own. */
const BROWSER_FILE = join(import.meta.dirname, "..", "browser.js");
/** The partial that prints the style sheet. A view of this name would never be used. */
const STYLE = "style";

/** Finds the partials that a view includes by name. */
const INCLUDE = /\binclude\(\s*["'`]([^"'`]+)["'`]/g;

/** The variables of a view. */
export type Locals = Readonly<Record<string, unknown>>;

/** The compiled views. */
export interface Views {
  /** Renders a view. @param name without `.ejs`. @throws TypeError if there is no such view. */
  render(name: string, locals: Locals): string;
  /** For the CSP: the hash of the `<style>` element that `include("style")` prints on a page with this layout. */
  styleHash(layout: string): string;
  /** The script that every page loads. */
  readonly script: string;
  /** In the form `config.interactions.views: …`; empty if nothing is wrong. */
  readonly problems: readonly string[];
}

type View = (locals: Locals) => string;

/** The file of a view. */
interface Source {
  readonly file: string;
  readonly text: string;
}

/**
 * Reads `*.ejs`, `style.css` and `pages.js`. The first folder that has a file wins; the built-in folder comes last. Partials are views
 * too: the built-in `login.ejs` includes a team's own `layout-head.ejs`.
 *
 * @param variables CSS to put before the style sheet.
 */
export function readViews(folders: readonly string[], variables: string): Views {
  const problems: string[] = [];
  const sources = new Map<string, Source>();
  const files: string[] = [];
  const sheets = new Map<string, string>();
  let script: string | undefined;
  for (const folder of [...folders, BUILT_IN]) {
    try {
      // Editors and systems create hidden files.
      for (const name of readdirSync(folder).filter((each) => !each.startsWith("."))) {
        const file = join(folder, name);
        const stem = name.replace(/\.ejs$/, "");
        if (folder !== BUILT_IN) files.push(file);
        if (name === SCRIPT_FILE) script ??= readFileSync(file, "utf8");
        if (name.endsWith(".css") && !sheets.has(name)) sheets.set(name, readFileSync(file, "utf8"));
        if (stem !== name && !sources.has(stem))
          sources.set(stem, { file, text: readFileSync(file, "utf8") });
      }
    } catch (error) {
      problems.push(unreadable(folder, error as NodeJS.ErrnoException));
    }
  }
  problems.push(...misnamed(files, sources));
  const views = new Map([...sources].map(([name, source]) => [name, compiled(source, problems)]));
  const styleWith = (names: readonly string[]): { readonly text: string; readonly hash: string } => {
    const text = [variables, ...[STYLE_FILE, ...names].map((name) => sheets.get(name))]
      .join("\n")
      // Browsers normalize these characters before they compute the hash for the CSP.
      .replaceAll(/\r\n?/g, "\n")
      .replaceAll("\0", "");
    return { text, hash: `sha256-${hash("sha256", text, "base64")}` };
  };
  const plain = styleWith([]);
  const styles = new Map([...LAYOUT_SHEETS].map(([layout, names]) => [layout, styleWith(names)]));
  const style = (layout: string): typeof plain => styles.get(layout.split(" ")[0] ?? "") ?? plain;
  for (const [name, sheet] of sheets)
    if (/<\/style/i.test(sheet)) problems.push(`config.interactions.views: ${name} must not hold </style`);
  views.set(STYLE, ({ layout }) => style(String(layout)).text);
  const render = (name: string, locals: Locals): string => {
    const view = views.get(name);
    if (view === undefined) throw new TypeError(`there is no view ${name}.ejs`);
    // Replaces EJS's own `include`, which prefers files next to the including file to the team's folders, and has one
    // cache for the process: two services would share their views.
    const include = (partial: string, more: Locals = {}): string => render(partial, { ...locals, ...more });
    return view({ ...locals, include });
  };
  script = readFileSync(BROWSER_FILE, "utf8").replaceAll(/\bexport (?=async function)/g, "") + (script ?? "");
  problems.push(...scriptProblems(script));
  return { render, styleHash: (layout) => style(layout).hash, script, problems };
}

function scriptProblems(script: string): readonly string[] {
  try {
    void new Script(script);
    return [];
  } catch (error) {
    return [`config.interactions.views: ${SCRIPT_FILE} does not compile: ${String(error)}`];
  }
}

function unreadable(folder: string, { code, path = folder }: NodeJS.ErrnoException): string {
  const reason =
    path === folder && (code === "ENOENT" || code === "ENOTDIR")
      ? `there is no folder ${folder}`
      : `${path} can't be read: ${code}`;
  return `config.interactions.views: ${reason}`;
}

/** Files that no page uses: neither named like a built-in view nor included by one that is. */
function misnamed(files: readonly string[], sources: ReadonlyMap<string, Source>): readonly string[] {
  const builtIn = new Map(readdirSync(BUILT_IN).map((name) => [stemOf(name), name]));
  const shown = new Set<string>();
  const show = (stem: string): void => {
    if (shown.has(stem)) return;
    shown.add(stem);
    for (const [, included = ""] of sources.get(stem)?.text.matchAll(INCLUDE) ?? []) show(included);
  };
  for (const stem of builtIn.keys()) show(stem);
  return files.flatMap((file) => {
    const name = basename(file);
    const stem = stemOf(name);
    const isShown =
      builtIn.get(stem) === name || (name === `${stem}.ejs` && stem !== STYLE && shown.has(stem));
    if (isShown) return [];
    const nearest = nearestKey(stem, [...builtIn.keys()], []);
    const known = builtIn.get(nearest?.path ?? "") ?? "";
    const hint = nearest?.close === true ? `did you mean ${known}?` : `the nearest known name is ${known}`;
    return [
      `config.interactions.views: ${file} is not named like a built-in view, and none includes it; ${hint}`,
    ];
  });
}

function stemOf(name: string): string {
  return name.replace(/\.[^.]*$/, "");
}

function compiled({ file, text }: Source, problems: string[]): View {
  // The built-in views compile. The start does not wait for those that nobody asks for.
  if (dirname(file) === BUILT_IN) {
    let view: View | undefined;
    return (locals) => (view ??= ejs.compile(text, { filename: file }))(locals);
  }
  try {
    return ejs.compile(text, { filename: file });
  } catch (error) {
    const [reason = ""] = String(error).split("\n");
    problems.push(`config.interactions.views: ${file} does not compile: ${reason}`);
    return () => "";
  }
}

/** Describes an error of a view with its place. EJS puts `FILE:LINE` and an excerpt in front of the message. */
export function renderProblem(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // Each view that includes the broken one adds its own place in front.
  const [place] = [...message.matchAll(/^(.+\.ejs:\d+)$/gm)].slice(-1);
  if (place?.[1] === undefined) return message;
  const [, ...reason] = message.slice(place.index).split("\n\n");
  return `${place[1]}: ${reason.join(" ").replaceAll(/\s+/g, " ")}`;
}
