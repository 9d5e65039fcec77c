import { readTags } from "../../lib/testing/browser/html.ts";

/** What a page is made of, without its texts and values: changes when a text becomes a tag or an attribute. */
export function skeleton(html: string): string[] {
  return readTags(html).map(({ name, attributes }) => `${name} ${[...attributes.keys()].join(" ")}`);
}
