/** The built-in languages: complete, translated, and without texts that nothing shows. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "core/locales");

const LOCALES = readdirSync(FOLDER).map((file) => file.replace(/\.json$/, ""));

function textsOf(locale: string): ReadonlyMap<string, string> {
  return new Map(Object.entries(JSON.parse(readFileSync(join(FOLDER, `${locale}.json`), "utf8"))));
}

const ENGLISH = textsOf("en");

/** Keys that are put together from two variables, so that nothing can be found in the sources. */
const COMPUTED = /^(?:gender\.\w+|(?:forgot|new)-password\.(?:username|password))$/;

/** Texts that are the same in every language. */
const INTERNATIONAL: ReadonlySet<string> = new Set(["direction", "title", "console.milliseconds"]);

/** The string literals of the product, and patterns for its templates such as `error.${code}`. */
function keysInSources(): { readonly literals: ReadonlySet<string>; readonly templates: readonly RegExp[] } {
  const literals = new Set<string>();
  const templates = new Set<string>();
  for (const folder of ["accounts", "core", "interactions", "lib", "notifier", "provider"]) {
    const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
    for (const file of files.filter((each) => /\.(?:ts|ejs)$/.test(each))) {
      const source = readFileSync(join(ROOT, folder, file), "utf8");
      for (const [, literal = ""] of source.matchAll(/"([\w.-]+)"/g)) literals.add(literal);
      for (const [, template = ""] of source.matchAll(/`([\w.-]*(?:\$\{[^}`]*\}[\w.-]*)+)`/g)) {
        if (/^[\w-]+\.|\.[\w-]+$/.test(template)) templates.add(template);
      }
    }
  }
  return {
    literals,
    templates: [...templates].map((template) => {
      const parts = template.split(/\$\{[^}]*\}/).map((part) => part.replaceAll(".", String.raw`\.`));
      return new RegExp(`^${parts.join("[\\w-]+")}$`);
    }),
  };
}

const placeholdersOf = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).toSorted();

describe("the texts of the pages and of mail", () => {
  it("are all used", () => {
    const { literals, templates } = keysInSources();
    const unused = [...ENGLISH.keys()].filter(
      (key) => !literals.has(key) && !COMPUTED.test(key) && !templates.some((template) => template.test(key)),
    );
    expect(unused).toEqual([]);
    expect(literals.has("nobody.uses.this") || templates.some((each) => each.test("nobody.uses.this"))).toBe(
      false,
    );
  });

  describe.each(LOCALES.filter((locale) => locale !== "en"))("in %s", (locale) => {
    const texts = textsOf(locale);

    it("have the same keys as in English, in the same order, with the same placeholders", () => {
      expect([...texts.keys()]).toEqual([...ENGLISH.keys()]);
      for (const [key, text] of texts) {
        expect([key, placeholdersOf(text)]).toEqual([key, placeholdersOf(ENGLISH.get(key) ?? "")]);
      }
    });

    it("are translated, and none is empty", () => {
      const same = [...texts].filter(([key, text]) => text === ENGLISH.get(key) && !INTERNATIONAL.has(key));
      expect(same).toEqual([]);
      expect([...texts].filter(([, text]) => text.trim() === "")).toEqual([]);
    });
  });
});
