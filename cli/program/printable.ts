/** Makes text from a storage or a person safe to print on a terminal. */

/** Control characters, which terminals would obey, and characters that change the direction of text. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Replaces characters that a terminal would obey. */
export function printable(text: string): string {
  return text.replaceAll(UNSAFE, "\uFFFD");
}

/** A line of JSON with the characters that a terminal would obey escaped. */
function escaped(line: string): string {
  return line.replaceAll(UNSAFE, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** A value as one line of JSON, with characters that a terminal would obey escaped. */
export function jsonLine(value: unknown): string {
  return escaped(JSON.stringify(value));
}

/** The same for people, and for files: a member a line. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2).split("\n").map(escaped).join("\n")}\n`;
}
