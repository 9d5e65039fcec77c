/** Makes text from a storage or a person safe to print on a terminal. */

/** Control characters, which terminals would obey, and characters that change the direction of text. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Replaces characters that a terminal would obey. */
export function printable(text: string): string {
  return text.replaceAll(UNSAFE, "\uFFFD");
}

/** A value as one line of JSON, with characters that a terminal would obey escaped. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replaceAll(UNSAFE, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}
