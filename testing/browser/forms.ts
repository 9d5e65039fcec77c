/** Reads the forms of a page, with what a browser would send. */
import { readTags, type Tag } from "./html.ts";

/** One form. */
export interface Form {
  readonly action: URL;
  /** In upper case. */
  readonly method: string;
  /** Names and values on the page, including hidden fields, without buttons. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** Names and values of the buttons that have a name. */
  readonly buttons: readonly (readonly [name: string, value: string])[];
}

const BUTTONS: ReadonlySet<string> = new Set(["submit", "image", "button", "reset"]);
const TICKED: ReadonlySet<string> = new Set(["checkbox", "radio"]);

/** Every form of a page that came from this address. */
export function readForms(html: string, url: URL): Form[] {
  // Each piece contains one form at most, at its end. Tags after it belong to no form.
  return html
    .split(/<\/form\s*>/i)
    .slice(0, -1)
    .flatMap((piece) => {
      const tags = readTags(piece);
      const start = tags.findLastIndex(({ name }) => name === "form");
      const form = tags[start];
      return form === undefined ? [] : [readForm(form, tags.slice(start + 1), url)];
    });
}

function readForm({ attributes }: Tag, inside: readonly Tag[], url: URL): Form {
  const fields: [string, string][] = [];
  const buttons: [string, string][] = [];
  for (const [index, tag] of inside.entries()) {
    const name = tag.attributes.get("name");
    if (name === undefined || name === "" || tag.attributes.has("disabled")) continue;
    const value = tag.attributes.get("value");
    const kind = tag.attributes.get("type")?.toLowerCase() ?? (tag.name === "button" ? "submit" : "text");
    if (tag.name === "button" || (tag.name === "input" && BUTTONS.has(kind))) {
      buttons.push([name, value ?? ""]);
    } else if (tag.name === "input" && TICKED.has(kind)) {
      if (tag.attributes.has("checked")) fields.push([name, value ?? "on"]);
    } else if (tag.name === "input") {
      fields.push([name, value ?? ""]);
    } else if (tag.name === "textarea") {
      fields.push([name, tag.text.replace(/^\r?\n/, "")]);
    } else if (tag.name === "select") {
      fields.push([name, chosen(inside.slice(index + 1))]);
    }
  }
  return {
    action: new URL(attributes.get("action") || url, url),
    method: (attributes.get("method") ?? "get").toUpperCase(),
    fields,
    buttons,
  };
}

/** The value of the selected option, or of the first one. */
function chosen(after: readonly Tag[]): string {
  const end = after.findIndex(({ name }) => name !== "option" && name !== "optgroup");
  const options = after.slice(0, end === -1 ? undefined : end).filter(({ name }) => name === "option");
  const option = options.find(({ attributes }) => attributes.has("selected")) ?? options[0];
  return option === undefined ? "" : (option.attributes.get("value") ?? option.text.trim());
}
