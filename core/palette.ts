/** The colours of pages and mail: a team chooses up to three, and the others are derived so that all text stays readable. */

/** Every colour that `views/style.css` uses, by the names of its variables, and `color-scheme`: `light` or `dark`. */
export type Palette = Readonly<
  Record<
    | "color-scheme"
    | "--background"
    | "--surface"
    | "--text"
    | "--muted"
    | "--line"
    | "--border"
    | "--accent"
    | "--on-accent"
    | "--accent-hover"
    | "--accent-edge"
    | "--link"
    | "--error"
    | "--good"
    | "--warning",
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

export const LIGHT: Seeds = { background: "#f3f4f6", text: "#1a1d23", accent: "#1d4ed8" };
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
    return { main: palette({ ...LIGHT, ...chosen }), dark: palette({ ...DARK, ...chosen }) };
  }
  const paper = background ?? bestOf([LIGHT.background, DARK.background], text ?? LIGHT.text);
  const ink = text ?? bestOf([LIGHT.text, DARK.text], paper);
  const ratio = contrast(ink, paper);
  if (ratio < TEXT_CONTRAST) return { ratio };
  const base = luminance(ink) < luminance(paper) ? LIGHT : DARK;
  return { main: palette({ background: paper, text: ink, accent: accent ?? base.accent }) };
}

/** Derives every colour of the style sheet from three. Text is readable whatever the three are. */
function palette({ background, text, accent }: Seeds): Palette {
  const dark = luminance(text) > luminance(background);
  const raised = dark ? mix(background, text, 0.06) : "#ffffff";
  const surface = contrast(text, raised) >= TEXT_CONTRAST ? raised : background;
  const onAccent = bestOf(["#ffffff", "#000000"], accent);
  const readable = (candidates: readonly string[], least: number): string =>
    candidates.find((colour) => [surface, background].every((on) => contrast(colour, on) >= least)) ?? text;
  return {
    "color-scheme": dark ? "dark" : "light",
    "--background": background,
    "--surface": surface,
    "--text": text,
    "--muted": readable([mix(text, surface, 0.3), mix(text, surface, 0.15)], TEXT_CONTRAST),
    "--line": mix(text, surface, 0.86),
    "--border": readable([mix(text, surface, 0.5), mix(text, surface, 0.35)], BORDER_CONTRAST),
    "--accent": accent,
    "--on-accent": onAccent,
    // Away from the colour of the label, so that its contrast only grows.
    "--accent-hover": mix(accent, onAccent === "#ffffff" ? "#000000" : "#ffffff", 0.14),
    "--accent-edge": readable([accent], BORDER_CONTRAST),
    "--link": readable([accent], TEXT_CONTRAST),
    "--error": readable(ERRORS, TEXT_CONTRAST),
    "--good": readable(GOOD, TEXT_CONTRAST),
    "--warning": readable(WARNINGS, TEXT_CONTRAST),
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
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Mixes a share of the second colour, 0 to 1, into the first. */
function mix(colour: string, other: string, share: number): string {
  const into = channels(other);
  const mixed = channels(colour).map((value, i) => Math.round(value + ((into[i] ?? 0) - value) * share));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function channels(colour: string): number[] {
  const pairs = colour.length === 4 ? colour.replaceAll(/[0-9a-f]/gi, "$&$&") : colour;
  return [1, 3, 5].map((at) => Number.parseInt(pairs.slice(at, at + 2), 16));
}
