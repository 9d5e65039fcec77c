/** The views: found, read and compiled once, so that a broken one stops the start and not a sign-in. */
import ejs from "ejs";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The folder of the built-in views; `style.css` is among them. */
const BUILT_IN = join(import.meta.dirname, "views");
const STYLE_FILE = "style.css";
/** The partial that prints the style sheet; a view of this name would never be seen. */
const STYLE = "style";

/** What a view is given. */
export type Locals = Readonly<Record<string, unknown>>;

/** The compiled views of some folders. */
export interface Views {
  /** The HTML of the view of this name, without `.ejs`. @throws TypeError when there is no such view. */
  render(name: string, locals: Locals): string;
  /** What `include("style")` prints: exactly this text is between `<style>` and `</style>`. */
  readonly style: string;
  /** As `config.interactions.views: …`, empty when all is well. */
  readonly problems: readonly string[];
}

type View = (locals: Locals) => string;

/**
 * Reads `*.ejs` and `style.css`: of files with one name that of the first folder wins, the built-in one comes last.
 * A partial is a view too: a team's own `layout-head.ejs` is what the built-in `login.ejs` includes.
 *
 * @param variables CSS that comes before the style sheet.
 */
export function readViews(folders: readonly string[], variables: string): Views {
  const problems: string[] = [];
  const views = new Map<string, View>();
  let sheet: string | undefined;
  for (const folder of [...folders, BUILT_IN]) {
    if (!existsSync(folder)) {
      problems.push(`config.interactions.views: there is no folder ${folder}`);
      continue;
    }
    for (const file of readdirSync(folder)) {
      const name = file.replace(/\.ejs$/, "");
      if (name !== file && !views.has(name)) views.set(name, compiled(join(folder, file), problems));
      if (file === STYLE_FILE) sheet ??= readFileSync(join(folder, file), "utf8");
    }
  }
  // Browsers hash what is left after these are normalised.
  const style = `${variables}\n${sheet ?? ""}`.replaceAll(/\r\n?/g, "\n").replaceAll("\0", "");
  if (/<\/style/i.test(style)) problems.push("config.interactions.views: style.css must not hold </style");
  views.set(STYLE, () => style);
  const render = (name: string, locals: Locals): string => {
    const view = views.get(name);
    if (view === undefined) throw new TypeError(`there is no view ${name}.ejs`);
    // Locals win over EJS's own `include`, which looks beside the including file before it looks in the team's
    // folders, and keeps what it compiled for the whole process: two services would share their views.
    const include = (partial: string, more: Locals = {}): string => render(partial, { ...locals, ...more });
    return view({ ...locals, include });
  };
  return { render, style, problems };
}

function compiled(file: string, problems: string[]): View {
  try {
    return ejs.compile(readFileSync(file, "utf8"), { filename: file });
  } catch (error) {
    const [reason = ""] = String(error).split("\n");
    problems.push(`config.interactions.views: ${file} does not compile: ${reason}`);
    return () => "";
  }
}
