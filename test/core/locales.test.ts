/** The built-in languages: complete, translated, and without texts that nothing shows. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { builtIn, builtInLocales, readTexts } from "../../core/texts.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "core/locales");

const LOCALES = builtInLocales();

const textsOf = (locale: string): ReadonlyMap<string, string> => new Map(Object.entries(builtIn(locale)));

const ENGLISH = textsOf("en");

/** Keys that are put together from two variables, so that nothing can be found in the sources. */
const COMPUTED =
  /^(?:admin\.hint\.receiver\.\w+|(?:gender|boolean)\.\w+|[\w-]+\.submit|(?:login|reauthenticate)\.provider|(?:login|email-code|(?:forgot|new)-password)\.(?:username|password)|(?:hint\.)?(?:second-factor|enrol)\.code|second-factor\.remember|enrol\.(?:name|passkey)|(?:device|email|link-account|methods|profile)\.problem\.[\w-]+)$/;

/** Texts that are the same in every language. */
const INTERNATIONAL: ReadonlySet<string> = new Set([
  "direction",
  "title",
  "methods.passkeys",
  "methods.passkey",
  "console.milliseconds",
  "console.filter.title",
  "console.filtered",
  "admin.zoned",
  "admin.member.host",
  "admin.actor.client",
  "admin.actor.operator",
  "admin.actor.token",
  "admin.search.operator",
]);

/** The string literals of the product, and patterns for its templates such as `error.${code}`. */
function keysInSources(): { readonly literals: ReadonlySet<string>; readonly templates: readonly RegExp[] } {
  const literals = new Set<string>();
  const templates = new Set<string>();
  for (const folder of [
    "accounts",
    "administration",
    "core",
    "interactions",
    "lib",
    "notifier",
    "provider",
  ]) {
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

/** The names of placeholders and plurals. */
const placeholdersOf = (text: string): string[] =>
  [...text.matchAll(/\{(\w+)(?:\}|, plural,)/g)].map(([, name = ""]) => name).toSorted();

/** Numbers of every plural category of the languages. */
const NUMBERS = [...Array.from({ length: 130 }, (_, number) => number), 1_000, 1_001];

describe("the texts of the pages and of mail", () => {
  it("are in one file each: those of the console in theirs", () => {
    for (const locale of LOCALES) {
      const [people, operators] = ["", "console"].map((folder) =>
        Object.keys(JSON.parse(readFileSync(join(FOLDER, folder, `${locale}.json`), "utf8"))),
      );
      expect(operators?.filter((key) => people?.includes(key))).toEqual([]);
    }
  });

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

  it.each(LOCALES)("in %s have every plural form of the language, each with the number", (locale) => {
    const { translators, problems } = readTexts([locale], {});
    expect(problems).toEqual([]);
    const t = translators.get(locale)!;
    const rules = new Intl.PluralRules(locale);
    const wanted = rules.resolvedOptions().pluralCategories.toSorted();
    let count = 0;
    for (const [key, text] of textsOf(locale)) {
      // What is no placeholder, plural or form of one is a mistake of writing.
      expect([key, text.replaceAll(/\{\w+(?:, plural,(?: *\w+ \{[^{}]*#[^{}]*\})+)?\}/g, "")]).toEqual([
        key,
        expect.not.stringMatching(/[{}]/),
      ]);
      for (const [plural] of text.matchAll(/\{\w+, plural,(?: *\w+ \{[^{}]*\})+\}/g)) {
        const forms = [...plural.matchAll(/ (\w+) \{/g)].map(([, form = ""]) => form);
        expect([key, forms.toSorted()]).toEqual([key, wanted]);
        count += 1;
        for (const number of NUMBERS) {
          const values = Object.fromEntries(placeholdersOf(text).map((name) => [name, number]));
          expect(t(key, values)).toContain(new Intl.NumberFormat(locale).format(number));
        }
      }
    }
    expect(count).toBeGreaterThan(0);
  });

  it.each([
    ["en", ["1 character", "2 characters", "5 characters", "22 characters"]],
    ["de", ["1 Zeichen", "2 Zeichen", "5 Zeichen", "22 Zeichen"]],
    ["pl", ["1 znak", "2 znaki", "5 znaków", "22 znaki"]],
    ["uk", ["1 символ", "2 символи", "5 символів", "22 символи"]],
  ])("in %s count as people do", (locale, counted) => {
    const t = readTexts([locale], {}).translators.get(locale)!;
    for (const [index, number] of [1, 2, 5, 22].entries())
      expect(t("hint.new-password", { min: number })).toMatch(new RegExp(` ${counted[index]}\\.`));
  });

  it("are in the table of languages, with who has read them", () => {
    const table = readFileSync(join(ROOT, "docs/customize/texts-and-languages.md"), "utf8");
    const rows = [...table.matchAll(/^\| `(\w+)` +\| [^|]+\| [^|]+\| (?:yes|no) +\|/gm)];
    expect(rows.map(([, tag = ""]) => tag).toSorted()).toEqual(LOCALES.toSorted());
  });
});
