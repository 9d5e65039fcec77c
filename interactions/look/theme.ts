/** The theme of the pages, as CSS. */
import { isColor, isFontList, isPrintable } from "../../config/value-forms.ts";
import { bestOf, LIGHT, type Palette, palettes, TEXT_CONTRAST } from "../../core/palette.ts";
import { MAX_BYTES, readPicture } from "../../core/pictures.ts";
import type { InteractionSettings } from "../../config/pages.ts";

/** The checked theme, or its problems. */
export interface Theme {
  /** CSS: rules on `:root` with every variable that `views/style.css` uses. */
  readonly css: string;
  /** The name of the service; `undefined` means the text `service.name`. */
  readonly name: string | undefined;
  /** `data:` URLs of the configured pictures. */
  readonly logo: string | undefined;
  readonly logoDark: string | undefined;
  readonly favicon: string | undefined;
  /** For `theme-color`: what browsers on phones paint around the page. */
  readonly colors: readonly { readonly color: string; readonly media?: string }[];
  /** Colors of the built-in favicon. */
  readonly icon: { readonly accent: string; readonly ink: string };
  /** In the form `config.interactions.theme.…: …`; empty if nothing is wrong. */
  readonly problems: readonly string[];
}

/** Pixels. */
const MAX_RADIUS_PX = 24;
const DEFAULT_RADIUS = 10;
const DEFAULT_FONTS = "system-ui, sans-serif";
/** Names that CSS knows. Others are names of fonts on the person's device. */
const GENERIC_FONTS: ReadonlySet<string> = new Set([
  "system-ui",
  "sans-serif",
  "serif",
  "monospace",
  "ui-sans-serif",
  "ui-serif",
  "ui-rounded",
]);

/** The forms are narrow: values of a theme become CSS. */
const CHECKS: Readonly<Record<string, { accepts(value: unknown): boolean; readonly problem: string }>> = {
  name: {
    accepts: (value) => isText(value, 80) && isPrintable(value),
    problem: "must be 1 to 80 characters without control characters",
  },
  accent: { accepts: isThemeColor, problem: "must be a color such as #1d4ed8" },
  background: { accepts: isThemeColor, problem: "must be a color such as #ffffff" },
  text: { accepts: isThemeColor, problem: "must be a color such as #1a1d23" },
  radius: {
    accepts: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_RADIUS_PX,
    problem: `must be a whole number of pixels from 0 to ${MAX_RADIUS_PX}`,
  },
  density: {
    accepts: (value) => value === "comfortable" || value === "compact",
    problem: "must be comfortable or compact",
  },
  fonts: {
    accepts: (value) => isText(value, 200) && isFontList(value),
    problem: "must be names of fonts, such as Inter, system-ui, sans-serif",
  },
  logo: { accepts: (value) => isText(value, 4096), problem: "must be the path of an image" },
  logoDark: { accepts: (value) => isText(value, 4096), problem: "must be the path of an image" },
  favicon: { accepts: (value) => isText(value, 4096), problem: "must be the path of an image" },
};

function isText(value: unknown, most: number): value is string {
  return typeof value === "string" && value !== "" && value.length <= most;
}

function isThemeColor(value: unknown): boolean {
  return typeof value === "string" && isColor(value);
}

/**
 * Checks `config.interactions.theme`, derives the colors and reads the pictures. With `background` or `text` there is one
 * color scheme; without them there is a light and a dark one, chosen by the person's system.
 */
export function readTheme(theme: InteractionSettings["theme"]): Theme {
  const { name, accent = LIGHT.accent, logo, logoDark, favicon } = theme;
  const wrong = Object.entries(theme).flatMap(([key, value]) => valueProblem(key, value));
  const icon = { accent, ink: "#ffffff" };
  const nothing = {
    css: "",
    name: undefined,
    logo: undefined,
    logoDark: undefined,
    favicon: undefined,
    colors: [],
    icon,
  };
  if (wrong.length > 0) return { ...nothing, problems: wrong };
  const pictures = {
    logo: logo && readPicture(logo, MAX_BYTES.logo),
    logoDark: logoDark && readPicture(logoDark, MAX_BYTES.logoDark),
    favicon: favicon && readPicture(favicon, MAX_BYTES.favicon),
  };
  const problems = Object.entries(pictures).flatMap(([key, picture]) =>
    picture && "problem" in picture ? [`config.interactions.theme.${key}: ${picture.problem}`] : [],
  );
  // Both are in every page.
  const logos = [pictures.logo, pictures.logoDark].flatMap((each) =>
    each && "url" in each ? [each.size] : [],
  );
  const size = logos.reduce((sum, each) => sum + each, 0);
  if (size > MAX_BYTES.logo)
    problems.push(
      `config.interactions.theme.logoDark: has ${size} bytes together with logo, at most ${MAX_BYTES.logo} are allowed`,
    );
  const { css, colors, problem } = themeColors(theme);
  if (problem !== undefined) problems.push(problem);
  const urlOf = (picture: (typeof pictures)["logo"]): string | undefined =>
    picture && "url" in picture ? picture.url : undefined;
  return {
    css: `${shape(theme)}\n${css}`,
    name,
    logo: urlOf(pictures.logo),
    logoDark: urlOf(pictures.logoDark),
    favicon: urlOf(pictures.favicon),
    colors,
    icon: { accent, ink: bestOf(["#ffffff", "#000000"], accent) },
    problems,
  };
}

/**
 * Every size of the pages is in rem. A percentage keeps the person's own font size; fingers keep large targets, and browsers
 * on phones zoom in on inputs of less than 16 pixels.
 */
const COMPACT =
  "@media screen and (min-width: 40rem) and (hover: hover) and (pointer: fine) { html { font-size: 87.5%; } }";

/** The variables that don't depend on light and dark. */
function shape(theme: InteractionSettings["theme"]): string {
  const { radius = DEFAULT_RADIUS, fonts = DEFAULT_FONTS, density } = theme;
  const families = fonts.split(",").map((each) => each.trim());
  const quoted = families.map((family) => (GENERIC_FONTS.has(family) ? family : `"${family}"`));
  const variables = `html { --radius: ${radius}px; --fonts: ${quoted.join(", ")}; }`;
  return density === "compact" ? `${variables}\n${COMPACT}` : variables;
}

/** The colors as CSS, or why they can't be used. */
function themeColors(
  theme: InteractionSettings["theme"],
): Pick<Theme, "css" | "colors"> & { readonly problem?: string } {
  const found = palettes(theme);
  if ("ratio" in found) {
    const ratio = found.ratio.toFixed(1);
    const problem = `config.interactions.theme.text: can't be read on the background (contrast ${ratio}, at least ${TEXT_CONTRAST} is needed)`;
    return { css: "", colors: [], problem };
  }
  const { main, dark } = found;
  const color = main["--surface"];
  if (dark === undefined) return { css: rule(main), colors: [{ color }] };
  const media = "(prefers-color-scheme: dark)";
  return {
    css: `${rule(main)}\n@media ${media} {\n${rule(dark)}\n}`,
    colors: [{ color }, { color: dark["--surface"], media }],
  };
}

function valueProblem(key: string, value: unknown): string[] {
  const check = Object.hasOwn(CHECKS, key) ? CHECKS[key] : undefined;
  if (check === undefined)
    return [`config.interactions.theme.${key}: not one of ${Object.keys(CHECKS).join(", ")}`];
  return check.accepts(value) ? [] : [`config.interactions.theme.${key}: ${check.problem}`];
}

function rule(variables: Palette): string {
  const lines = Object.entries(variables).map(([name, value]) => `  ${name}: ${value};`);
  return `:root {\n${lines.join("\n")}\n}`;
}
