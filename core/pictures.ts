/**
 * The logo and the favicon: files that are read once, at the start, and become part of each page as `data:` URLs. A page
 * stays one request, and nothing has to serve them. Browsers run no script and load nothing inside such an image.
 */
import { readFileSync } from "node:fs";

/** A picture for the pages, or what is wrong with the file. */
type Picture = { readonly url: string; readonly size: number } | { readonly problem: string };

/** How many bytes the files may have: with 8,000 for both logos, every page stays under 45 kB. */
export const MAX_BYTES = { logo: 8_000, logoDark: 6_000, favicon: 4_000 } as const;

interface Format {
  readonly type: string;
  readonly matches: (bytes: Buffer) => boolean;
}

const startsWith =
  (...start: number[]) =>
  (bytes: Buffer): boolean =>
    start.every((value, i) => bytes[i] === value);

/** Detected from the content: the name of a file proves nothing. */
const FORMATS: readonly Format[] = [
  { type: "image/png", matches: startsWith(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a) },
  { type: "image/jpeg", matches: startsWith(0xff, 0xd8, 0xff) },
  {
    type: "image/webp",
    matches: (bytes) =>
      bytes.toString("latin1", 0, 4) === "RIFF" && bytes.toString("latin1", 8, 12) === "WEBP",
  },
  { type: "image/x-icon", matches: startsWith(0, 0, 1, 0) },
  {
    type: "image/svg+xml",
    matches: (bytes) =>
      /^\uFEFF?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[\s\S]*?-->\s*)*<svg[\s>]/.test(bytes.toString()),
  },
];

/** Scripts, documents inside the document, and addresses outside it. None would work in an image; a logo has no use for them. */
const ACTIVE_SVG =
  /<(?:\w+:)?(?:script|foreignObject|iframe|embed|object)\b|<!(?:DOCTYPE|ENTITY)|[\s"'/]on\w+\s*=|javascript:|@import|(?:href|src)\s*=\s*["']?\s*(?!#|["'\s]|data:image\/)|url\(\s*["']?\s*(?!#|["'\s])/i;

/** Reads a picture. */
export function readPicture(file: string, maxBytes: number): Picture {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    return { problem: `${file} can't be read: ${(error as NodeJS.ErrnoException).code}` };
  }
  if (bytes.length > maxBytes)
    return { problem: `${file} has ${bytes.length} bytes, at most ${maxBytes} are allowed` };
  const format = FORMATS.find(({ matches }) => matches(bytes));
  if (format === undefined) return { problem: `${file} is not a PNG, JPEG, WebP, ICO or SVG image` };
  if (format.type === "image/svg+xml" && ACTIVE_SVG.test(bytes.toString())) {
    return {
      problem: `${file} must not have scripts, event handlers, a DOCTYPE or addresses outside the image`,
    };
  }
  return { url: `data:${format.type};base64,${bytes.toString("base64")}`, size: bytes.length };
}

/** The favicon of a service that has none: the first letter of its name on the accent color. */
export function letterIcon(letter: string, { accent, ink }: { accent: string; ink: string }): string {
  const escaped = letter.replaceAll(/[<>&"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${accent}"/>` +
    `<text x="16" y="23" font-family="system-ui,sans-serif" font-size="20" font-weight="700" text-anchor="middle" fill="${ink}">${escaped}</text></svg>`;
  return `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`;
}

/** The first letters of the first and the last name, or the one of the address. */
export function initialsOf({ name, email }: { name: string; email: string }, locale: string): string {
  const names = name.split(/\s+/u).filter((each) => each !== "");
  const ends = names.length > 1 ? [names[0], names.at(-1)] : [names[0] ?? email];
  return ends.map((each = "") => firstLetter(each, locale)).join("");
}

/** The first grapheme of a name. */
export function firstLetter(name: string, locale: string): string {
  const [first] = new Intl.Segmenter(locale).segment(name.trim());
  return (first?.segment ?? "").toLocaleUpperCase(locale);
}
