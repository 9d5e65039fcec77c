/** Reads HTML as a list of tags, which is enough to fill in forms and to see whether a text is escaped. */
import { Parser } from "htmlparser2";

/** One start tag. */
export interface Tag {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  /** The text up to the next tag, decoded. */
  text: string;
}

/** Every start tag in order, without end tags and the doctype. A comment is a tag named `!--`. */
export function readTags(html: string): Tag[] {
  const tags: Tag[] = [];
  let attributes = new Map<string, string>();
  let open: Tag | undefined;
  const parser = new Parser({
    onopentagname() {
      attributes = new Map();
    },
    onattribute(name, value) {
      attributes.set(name, value);
    },
    onopentag(name) {
      open = { name, attributes, text: "" };
      tags.push(open);
    },
    ontext(text) {
      if (open !== undefined) open.text += text;
    },
    // The end of an element without an end tag, such as `input`, is implied at once.
    onclosetag(_name, isImplied) {
      if (!isImplied) open = undefined;
    },
    oncomment() {
      tags.push({ name: "!--", attributes: new Map(), text: "" });
      open = undefined;
    },
  });
  parser.end(html);
  return tags;
}

/** The tags of one name. */
export function tagsNamed(html: string, name: string): Tag[] {
  return readTags(html).filter((tag) => tag.name === name);
}

/** The text of the first element of this name, with that of the elements in it. */
export function textOf(html: string, element: string): string {
  const texts: string[] = [];
  let depth = 0;
  let isDone = false;
  const parser = new Parser({
    onopentagname(name) {
      if (depth > 0 || (name === element && !isDone)) depth += 1;
    },
    ontext(text) {
      if (depth > 0) texts.push(text);
    },
    onclosetag() {
      if (depth > 0) isDone = --depth === 0;
    },
  });
  parser.end(html);
  return texts.join("");
}
