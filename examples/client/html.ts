/** HTML in which every value is escaped. */

/** Text that is HTML already: for what {@link html} makes, and for what is ours and must not be escaped. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand between the parts of a template: lists are put one after the other. */
export type Part = string | number | Html | readonly Part[] | undefined;

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};

function print(part: Part): string {
  if (part === undefined) return "";
  if (part instanceof Html) return part.text;
  if (typeof part === "object") return part.map(print).join("");
  return String(part).replaceAll(/[&<>"']/g, (sign) => ENTITIES[sign] ?? sign);
}

/** A template: what is written in it is HTML, what is put into it is text. Attributes need their quotes. */
export function html(literals: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(literals.reduce((before, literal, i) => before + print(parts[i - 1]) + literal));
}
