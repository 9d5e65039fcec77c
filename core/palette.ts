/** The colors of pages and mail: a team chooses up to three, and the others are derived so that all text stays readable. */

/** Every color that `views/style.css` uses, by the names of its variables, and `color-scheme`: `light` or `dark`. */
export type Palette = Readonly<
  Record<
    | "color-scheme"
    | "--background"
    | "--surface"
    | "--text"
    | "--muted"
    | "--line"
    | "--hover"
    | "--border"
    | "--accent"
    | "--on-accent"
    | "--accent-hover"
    | "--accent-edge"
    | "--link"
    | "--focus"
    | "--error"
    | "--error-focus"
    | "--error-surface"
    | "--good"
    | "--good-surface"
    | "--warning"
    | "--warning-surface",
    string
  >
>;

interface Seeds {
  readonly background: string;
  readonly text: string;
  readonly accent: string;
}

/** Minimum contrast of text (1.4.3) and of field borders (1.4.11) in WCAG 2.2 AA. */
export const TEXT_CONTRAST = 4.5;
const BORDER_CONTRAST = 3;

export const LIGHT: Seeds = { background: "#f5f6f8", text: "#16181d", accent: "#1d4ed8" };
const DARK: Seeds = { background: "#101318", text: "#e9ebee", accent: "#8ab4ff" };
const ERRORS = ["#b3261e", "#ff9d94"];
const GOOD = ["#11703a", "#5fd38d"];
const WARNINGS = ["#8a5300", "#f0b849"];

/**
 * With `background` or `text` there is one palette; without them there is a light one, and a dark one for people whose
 * system is dark.
 * @returns `ratio`: the contrast of text and background, if the text can't be read.
 */
export function palettes({
  accent,
  background,
  text,
}: Partial<Seeds>): { readonly main: Palette; readonly dark?: Palette } | { readonly ratio: number } {
  if (background === undefined && text === undefined) {
    const chosen = accent === undefined ? {} : { accent };
    const main = palette({ ...LIGHT, ...chosen });
    return { main, dark: palette({ ...DARK, ...(accent !== undefined && { accent: onDark(accent) }) }) };
  }
  const paper = background ?? bestOf([LIGHT.background, DARK.background], text ?? LIGHT.text);
  const ink = text ?? bestOf([LIGHT.text, DARK.text], paper);
  const ratio = contrast(ink, paper);
  if (ratio < TEXT_CONTRAST) return { ratio };
  const base = luminance(ink) < luminance(paper) ? LIGHT : DARK;
  return { main: palette({ background: paper, text: ink, accent: accent ?? base.accent }) };
}

/** A tint of an accent that is as easy to see on dark as the accent is on light. */
function onDark(accent: string): string {
  const surface = raised(DARK.background, DARK.text);
  return shades(accent, "#ffffff").find((shade) => contrast(shade, surface) >= TEXT_CONTRAST) ?? DARK.accent;
}

/** The steps from one color to another. */
function shades(from: string, to: string): readonly string[] {
  return Array.from({ length: 21 }, (_, step) => mix(from, to, step / 20));
}

/** The color of surfaces that lie on the background. */
function raised(background: string, text: string): string {
  return luminance(text) > luminance(background) ? mix(background, text, 0.06) : "#ffffff";
}

/** Derives every color of the style sheet from three. Text is readable whatever the three are. */
function palette({ background, text, accent }: Seeds): Palette {
  const dark = luminance(text) > luminance(background);
  const lifted = raised(background, text);
  const surface = contrast(text, lifted) >= TEXT_CONTRAST ? lifted : background;
  const onAccent = bestOf(["#ffffff", "#000000"], accent);
  /** A tint of the surface, on which text can still be read. */
  const tinted = (color: string, share: number): string =>
    shades(mix(surface, color, share), surface).find((tint) => contrast(text, tint) >= TEXT_CONTRAST) ??
    surface;
  const hover = tinted(text, 0.05);
  const papers = [surface, background];
  const readable = (candidates: readonly string[], least: number, on: readonly string[] = papers): string =>
    candidates.find((color) => on.every((paper) => contrast(color, paper) >= least)) ?? text;
  /** A color with a meaning, and a tint of it on which it is readable. */
  const meaning = (candidates: readonly string[]): { readonly ink: string; readonly tint: string } => {
    const seen = readable(candidates, TEXT_CONTRAST);
    const tint = tinted(seen, 0.1);
    return { tint, ink: readable(shades(seen, text), TEXT_CONTRAST, [...papers, tint, hover]) };
  };
  const [error, good, warning] = [meaning(ERRORS), meaning(GOOD), meaning(WARNINGS)];
  const link = readable(shades(accent, text), TEXT_CONTRAST, [...papers, hover]);
  return {
    "color-scheme": dark ? "dark" : "light",
    "--background": background,
    "--surface": surface,
    "--text": text,
    "--muted": readable(shades(mix(text, surface, 0.35), text), TEXT_CONTRAST, [...papers, hover]),
    "--line": mix(text, surface, 0.88),
    "--hover": hover,
    // Fields lie on the surface: the lightest border that can still be seen there.
    "--border": readable(shades(mix(text, surface, 0.7), text), BORDER_CONTRAST, [surface]),
    "--accent": accent,
    "--on-accent": onAccent,
    // Moves away from the color of the label, so that its contrast only grows.
    "--accent-hover": mix(accent, onAccent === "#ffffff" ? "#000000" : "#ffffff", 0.14),
    "--accent-edge": readable([accent], BORDER_CONTRAST),
    "--link": link,
    "--focus": mix(surface, link, 0.3),
    "--error": error.ink,
    "--error-focus": mix(surface, error.ink, 0.25),
    "--error-surface": error.tint,
    "--good": good.ink,
    "--good-surface": good.tint,
    "--warning": warning.ink,
    "--warning-surface": warning.tint,
  };
}

export function bestOf(candidates: readonly [string, ...string[]], on: string): string {
  return candidates.reduce((best, next) => (contrast(next, on) > contrast(best, on) ? next : best));
}

/** Contrast ratio of WCAG 2.2: 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Relative luminance of WCAG 2.2: 0 to 1. */
function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = channels(color).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Mixes a share of the second color, 0 to 1, into the first. */
function mix(color: string, other: string, share: number): string {
  const into = channels(other);
  const mixed = channels(color).map((value, i) => Math.round(value + ((into[i] ?? 0) - value) * share));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function channels(color: string): number[] {
  const pairs = color.length === 4 ? color.replaceAll(/[0-9a-f]/gi, "$&$&") : color;
  return [1, 3, 5].map((at) => Number.parseInt(pairs.slice(at, at + 2), 16));
}
