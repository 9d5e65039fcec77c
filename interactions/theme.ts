/** The theme: a team chooses up to three colours, and the others are derived so that all text stays readable. */
import type { InteractionSettings } from "../config/configuration.ts";

/** The checked theme, or its problems. */
export interface Theme {
  /** CSS: rules on `:root` with every variable that `views/style.css` uses. */
  readonly css: string;
  /** The name of the service; `undefined` means the text `service.name`. */
  readonly name: string | undefined;
  /** In the form `config.interactions.theme.…: …`; empty if nothing is wrong. */
  readonly problems: readonly string[];
}

interface Seeds {
  readonly background: string;
  readonly text: string;
  readonly accent: string;
}

/** Minimum contrast of text (1.4.3) and of field borders (1.4.11) in WCAG 2.2 AA. */
const TEXT_CONTRAST = 4.5;
const BORDER_CONTRAST = 3;

const LIGHT: Seeds = { background: "#f3f4f6", text: "#1a1d23", accent: "#1d4ed8" };
const DARK: Seeds = { background: "#101318", text: "#e9ebee", accent: "#8ab4ff" };
const ERRORS = ["#b3261e", "#ff9d94"];

/** CSS has more notations, but the contrast is computed from these only. */
const COLOUR = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i;
const CHECKS: Readonly<Record<string, { readonly pattern: RegExp; readonly problem: string }>> = {
  name: { pattern: /^[^\p{Cc}]{1,80}$/u, problem: "must be 1 to 80 characters without control characters" },
  accent: { pattern: COLOUR, problem: "must be a colour such as #1d4ed8" },
  background: { pattern: COLOUR, problem: "must be a colour such as #ffffff" },
  text: { pattern: COLOUR, problem: "must be a colour such as #1a1d23" },
};

/**
 * Checks `config.interactions.theme` and derives the colours. With `background` or `text` there is one colour scheme;
 * without them there is a light and a dark one, chosen by the person's system.
 */
export function readTheme(theme: InteractionSettings["theme"]): Theme {
  const problems = Object.entries(theme).flatMap(([key, value]) => valueProblem(key, value));
  if (problems.length > 0) return { css: "", name: undefined, problems };
  const { name, accent, background, text } = theme;
  if (background === undefined && text === undefined) {
    const light = palette({ ...LIGHT, ...(accent !== undefined && { accent }) });
    const dark = palette({ ...DARK, ...(accent !== undefined && { accent }) });
    const css = `${rule(light)}\n@media (prefers-color-scheme: dark) {\n${rule(dark)}\n}`;
    return { css, name, problems };
  }
  const paper = background ?? bestOf([LIGHT.background, DARK.background], text ?? LIGHT.text);
  const ink = text ?? bestOf([LIGHT.text, DARK.text], paper);
  if (contrast(ink, paper) < TEXT_CONTRAST) {
    const ratio = contrast(ink, paper).toFixed(1);
    const problem = `config.interactions.theme.text: can't be read on the background (contrast ${ratio}, at least ${TEXT_CONTRAST} is needed)`;
    return { css: "", name, problems: [problem] };
  }
  const base = luminance(ink) < luminance(paper) ? LIGHT : DARK;
  const css = rule(palette({ background: paper, text: ink, accent: accent ?? base.accent }));
  return { css, name, problems };
}

function valueProblem(key: string, value: string): string[] {
  const check = Object.hasOwn(CHECKS, key) ? CHECKS[key] : undefined;
  if (check === undefined)
    return [`config.interactions.theme.${key}: not one of ${Object.keys(CHECKS).join(", ")}`];
  return check.pattern.test(value) ? [] : [`config.interactions.theme.${key}: ${check.problem}`];
}

/** Derives every colour of the style sheet from three. Text is readable whatever the three are. */
function palette({ background, text, accent }: Seeds): Readonly<Record<string, string>> {
  const dark = luminance(text) > luminance(background);
  const raised = dark ? mix(background, text, 0.06) : "#ffffff";
  const surface = contrast(text, raised) >= TEXT_CONTRAST ? raised : background;
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
    "--on-accent": bestOf(["#ffffff", "#000000"], accent),
    "--accent-edge": readable([accent], BORDER_CONTRAST),
    "--link": readable([accent], TEXT_CONTRAST),
    "--error": readable(ERRORS, TEXT_CONTRAST),
  };
}

function rule(variables: Readonly<Record<string, string>>): string {
  const lines = Object.entries(variables).map(([name, value]) => `  ${name}: ${value};`);
  return `:root {\n${lines.join("\n")}\n}`;
}

function bestOf(candidates: readonly [string, ...string[]], on: string): string {
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
