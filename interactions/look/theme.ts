/** The theme: a team chooses up to three colours, and the others are derived so that all text stays readable. */
import type { InteractionSettings } from "../../config/configuration.ts";
import { isColour, isFontList, isPrintable } from "../../config/value-forms.ts";
import { MOST_BYTES, readPicture } from "./pictures.ts";

/** The checked theme, or its problems. */
export interface Theme {
  /** CSS: rules on `:root` with every variable that `views/style.css` uses. */
  readonly css: string;
  /** The name of the service; `undefined` means the text `service.name`. */
  readonly name: string | undefined;
  /** `data:` URLs of the configured pictures. */
  readonly logo: string | undefined;
  readonly favicon: string | undefined;
  /** Colours of the built-in favicon. */
  readonly icon: { readonly accent: string; readonly ink: string };
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
const GOOD = ["#11703a", "#5fd38d"];
const WARNINGS = ["#8a5300", "#f0b849"];

/** Pixels. */
const MOST_RADIUS = 24;
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
  accent: { accepts: isThemeColour, problem: "must be a colour such as #1d4ed8" },
  background: { accepts: isThemeColour, problem: "must be a colour such as #ffffff" },
  text: { accepts: isThemeColour, problem: "must be a colour such as #1a1d23" },
  radius: {
    accepts: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MOST_RADIUS,
    problem: `must be a whole number of pixels from 0 to ${MOST_RADIUS}`,
  },
  fonts: {
    accepts: (value) => isText(value, 200) && isFontList(value),
    problem: "must be names of fonts, such as Inter, system-ui, sans-serif",
  },
  logo: { accepts: (value) => isText(value, 4096), problem: "must be the path of an image" },
  favicon: { accepts: (value) => isText(value, 4096), problem: "must be the path of an image" },
};

function isText(value: unknown, most: number): value is string {
  return typeof value === "string" && value !== "" && value.length <= most;
}

function isThemeColour(value: unknown): boolean {
  return typeof value === "string" && isColour(value);
}

/**
 * Checks `config.interactions.theme`, derives the colours and reads the pictures. With `background` or `text` there is one
 * colour scheme; without them there is a light and a dark one, chosen by the person's system.
 */
export function readTheme(theme: InteractionSettings["theme"]): Theme {
  const { name, accent = LIGHT.accent, logo, favicon } = theme;
  const wrong = Object.entries(theme).flatMap(([key, value]) => valueProblem(key, value));
  const icon = { accent, ink: "#ffffff" };
  const nothing = { css: "", name: undefined, logo: undefined, favicon: undefined, icon };
  if (wrong.length > 0) return { ...nothing, problems: wrong };
  const pictures = {
    logo: logo && readPicture(logo, MOST_BYTES.logo),
    favicon: favicon && readPicture(favicon, MOST_BYTES.favicon),
  };
  const problems = Object.entries(pictures).flatMap(([key, picture]) =>
    picture && "problem" in picture ? [`config.interactions.theme.${key}: ${picture.problem}`] : [],
  );
  const { css, problem } = colours(theme);
  if (problem !== undefined) problems.push(problem);
  const urlOf = (picture: (typeof pictures)["logo"]): string | undefined =>
    picture && "url" in picture ? picture.url : undefined;
  return {
    css: `${shape(theme)}\n${css}`,
    name,
    logo: urlOf(pictures.logo),
    favicon: urlOf(pictures.favicon),
    icon: { accent, ink: bestOf(["#ffffff", "#000000"], accent) },
    problems,
  };
}

/** What doesn't depend on light and dark. */
function shape({ radius = DEFAULT_RADIUS, fonts = DEFAULT_FONTS }: InteractionSettings["theme"]): string {
  const families = fonts.split(",").map((each) => each.trim());
  const quoted = families.map((family) => (GENERIC_FONTS.has(family) ? family : `"${family}"`));
  return `html { --radius: ${radius}px; --fonts: ${quoted.join(", ")}; }`;
}

/** The colours as CSS, or why they can't be used. */
function colours({ accent, background, text }: InteractionSettings["theme"]): {
  readonly css: string;
  readonly problem?: string;
} {
  if (background === undefined && text === undefined) {
    const light = palette({ ...LIGHT, ...(accent !== undefined && { accent }) });
    const dark = palette({ ...DARK, ...(accent !== undefined && { accent }) });
    return { css: `${rule(light)}\n@media (prefers-color-scheme: dark) {\n${rule(dark)}\n}` };
  }
  const paper = background ?? bestOf([LIGHT.background, DARK.background], text ?? LIGHT.text);
  const ink = text ?? bestOf([LIGHT.text, DARK.text], paper);
  if (contrast(ink, paper) < TEXT_CONTRAST) {
    const ratio = contrast(ink, paper).toFixed(1);
    const problem = `config.interactions.theme.text: can't be read on the background (contrast ${ratio}, at least ${TEXT_CONTRAST} is needed)`;
    return { css: "", problem };
  }
  const base = luminance(ink) < luminance(paper) ? LIGHT : DARK;
  return { css: rule(palette({ background: paper, text: ink, accent: accent ?? base.accent })) };
}

function valueProblem(key: string, value: unknown): string[] {
  const check = Object.hasOwn(CHECKS, key) ? CHECKS[key] : undefined;
  if (check === undefined)
    return [`config.interactions.theme.${key}: not one of ${Object.keys(CHECKS).join(", ")}`];
  return check.accepts(value) ? [] : [`config.interactions.theme.${key}: ${check.problem}`];
}

/** Derives every colour of the style sheet from three. Text is readable whatever the three are. */
function palette({ background, text, accent }: Seeds): Readonly<Record<string, string>> {
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
