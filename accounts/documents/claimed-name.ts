/** The name that a client calls itself, so that it can be shown between quotation marks and says nothing else. */

const MAX_CHARACTERS = 60;
/** Controls, marks of direction, and everything else that has no width of its own. */
const INVISIBLE = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu;
/** Letters that are drawn over their neighbours when many marks are piled on them. */
const PILED_MARKS = /(\p{M}{2})\p{M}+/gu;
/** A name can't end its own quotation and begin a sentence of ours. */
const QUOTATION_MARKS = /[\p{Pi}\p{Pf}"„‚‛‟〝〞〟＂]/gu;

/**
 * @param name as the document has it: of any length, with any characters.
 * @returns at most 60 characters on one line, or `undefined` if nothing is left that can be seen.
 */
export function claimedName(name: string): string | undefined {
  const characters = Array.from(
    name
      // The rest of a long one is never shown.
      .slice(0, 50 * MAX_CHARACTERS)
      .normalize("NFC")
      .replaceAll(/\s+/gu, " ")
      .replaceAll(INVISIBLE, "")
      .replaceAll(PILED_MARKS, "$1")
      .replaceAll(QUOTATION_MARKS, "'")
      .replaceAll(/ {2,}/g, " ")
      .trim(),
  );
  if (!/[\p{L}\p{N}\p{S}\p{P}]/u.test(characters.join(""))) return undefined;
  if (characters.length <= MAX_CHARACTERS) return characters.join("");
  return `${characters
    .slice(0, MAX_CHARACTERS - 1)
    .join("")
    .trimEnd()}…`;
}
