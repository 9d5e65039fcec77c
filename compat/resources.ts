/** The parameter `resource` (RFC 8707), before anything else reads it (decisions.md, What is an API?). */
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { Fields } from "./form-fields.ts";

/** An origin with a slash behind it, as many clients write it because they make URLs of identifiers. */
const ORIGIN_WITH_SLASH = /^https?:\/\/[^/?#]+\/$/;

/** Removes the slash of `https://host/` if the registered identifier is `https://host`. */
export function registeredResources({
  findApi,
}: Pick<DirectoryRecords, "findApi">): (fields: Fields) => Promise<Fields> {
  return async (fields) => {
    const named = new Set(fields.all("resource").filter((each) => ORIGIN_WITH_SLASH.test(each)));
    if (named.size === 0) return fields;
    const known = new Map<string, string>();
    for (const each of named) {
      const plain = each.slice(0, -1);
      const [exact, other] = await Promise.all([findApi(each), findApi(plain)]);
      if (exact === undefined && other !== undefined) known.set(each, plain);
    }
    return fields.map("resource", (each) => known.get(each) ?? each);
  };
}
