/**
 * Reads HTML as a browser's tokenizer does: tags, quoted and unquoted attributes, comments, and `title` and `style`
 * as text. That is enough to see whether a text is escaped.
 */

/** One start tag. */
export interface Tag {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  /** The text up to the next tag, decoded. */
  text: string;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&#34;": '"',
  "&quot;": '"',
  "&#39;": "'",
};

function decoded(text: string): string {
  return text.replaceAll(/&(?:amp|lt|gt|quot|#34|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}

/** Every start tag in order, without end tags and the doctype. A comment is a tag named `!--`. */
export function readTags(html: string): Tag[] {
  const tags: Tag[] = [];
  let open: Tag | undefined;
  let at = 0;
  while (at < html.length) {
    const rest = html.slice(at);
    const start = /^<([A-Za-z][^\s/>]*)/.exec(rest);
    const other = /^<!--[\s\S]*?(?:-->|$)|^<[/!?][^>]*>?/.exec(rest);
    if (start?.[1] !== undefined) {
      const [attributes, length] = readAttributes(rest, start[0].length);
      const tag: Tag = { name: start[1].toLowerCase(), attributes, text: "" };
      tags.push(tag);
      open = tag;
      at += length;
      if (["title", "style", "textarea", "script"].includes(tag.name)) {
        const end = html.slice(at).search(new RegExp(`</${tag.name}[\\s/>]`, "i"));
        const raw = html.slice(at, end === -1 ? undefined : at + end);
        tag.text = tag.name === "title" ? decoded(raw) : raw;
        at += raw.length;
      }
    } else if (other) {
      if (other[0].startsWith("<!--")) tags.push({ name: "!--", attributes: new Map(), text: "" });
      open = undefined;
      at += other[0].length;
    } else {
      const next = rest.indexOf("<", 1);
      const text = next === -1 ? rest : rest.slice(0, next);
      if (open) open.text += decoded(text);
      at += text.length;
    }
  }
  return tags;
}

function readAttributes(rest: string, from: number): [Map<string, string>, number] {
  const attributes = new Map<string, string>();
  const pattern = /[\s/]*(?:(>)|([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*)))?)/y;
  pattern.lastIndex = from;
  for (let found = pattern.exec(rest); found; found = pattern.exec(rest)) {
    if (found[1] !== undefined) return [attributes, pattern.lastIndex];
    attributes.set((found[2] ?? "").toLowerCase(), decoded(found[3] ?? found[4] ?? found[5] ?? ""));
  }
  return [attributes, rest.length];
}

/** The tags of one name. */
export function tagsNamed(html: string, name: string): Tag[] {
  return readTags(html).filter((tag) => tag.name === name);
}
