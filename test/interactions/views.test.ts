import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { contrast, readTheme } from "../../interactions/theme.ts";
import { localeFile, LOCALES, pagesWith, SOURCES, viewsFolder } from "./every-page.ts";
import { tagsNamed } from "../../lib/testing/browser/html.ts";

/** Key → placeholders. */
function shape(texts: Record<string, string>): Record<string, string[]> {
  const entries = Object.entries(texts).map(([key, text]) => [
    key,
    (text.match(/\{\w+\}/g) ?? []).toSorted(),
  ]);
  return Object.fromEntries(entries);
}

describe("the texts", () => {
  it.each(LOCALES)("%s has the keys and placeholders of English, and no other", (locale) => {
    expect(shape(localeFile(locale))).toEqual(shape(localeFile("en")));
  });

  it("are all used by a view or by the pages", () => {
    const files = [
      ...readdirSync(join(SOURCES, "views")).map((file) => join(SOURCES, "views", file)),
      join(SOURCES, "pages.ts"),
      join(SOURCES, "console-views.ts"),
    ];
    const used = files.map((file) => readFileSync(file, "utf8")).join("\n");
    const chosenByName = /^(?:field|error|login\.problem|console\.(?:state|action|result))\./;
    const left = Object.keys(localeFile("en")).filter(
      (key) => !used.includes(`t("${key}"`) && !chosenByName.test(key),
    );
    expect(left).toEqual([]);
  });

  it("can be replaced one by one", async () => {
    const pages = pagesWith({ copy: { en: { "login.title": "Come in, {client} waits" } } });
    const html = await pages.login({ locale: "en", client: "News", action: "/", csrf: "t", username: "" });
    expect(tagsNamed(html, "h1")[0]?.text).toBe("Come in, News waits");
    expect(tagsNamed(html, "button")[0]?.text).toBe("Sign in");
  });

  it("of another language may come only from the configuration", async () => {
    const german = { ...localeFile("en"), direction: "ltr", "loggedOut.title": "Abgemeldet" };
    const pages = pagesWith({ locales: ["de"], copy: { de: german } });
    expect(await pages.loggedOut({ locale: "de" })).toContain("Abgemeldet");
  });

  it.each([
    [{ copy: { en: { "login.titel": "x" } } }, "config.interactions.copy.en.login.titel"],
    [{ copy: { en: { "login.title": "{name}" } } }, "unknown placeholder {name}"],
    [{ copy: { en: { direction: '"><script>' } } }, "must be ltr or rtl"],
    [{ copy: { fr: {} } }, "config.interactions.copy.fr"],
    [{ locales: ["en", "de"] }, "config.interactions.copy.de: no text for direction, service.name"],
    [{ locales: ["../locales/en"] }, "config.interactions.copy.../locales/en: no text for"],
    [{ locales: [] }, "config.interactions.locales"],
  ])("that are invalid fail the start: %j", (settings, problem) => {
    expect(() => pagesWith(settings)).toThrow(problem);
  });

  it("that are missing are an error that names the key", async () => {
    const views = [viewsFolder({ "logged-out.ejs": '<%= t("own.bye") %>' })];
    expect(() => pagesWith({ views })).toThrow("no text for own.bye in locale en");
    const copy = { en: { "own.bye": "So long" }, pl: { "own.bye": "Do widzenia" } };
    await expect(pagesWith({ views, copy }).loggedOut({ locale: "en" })).resolves.toBe("So long");
  });
});

describe("the built-in views", () => {
  // `<%-` does not escape, so it may only include a partial with a literal name.
  it.each(readdirSync(join(SOURCES, "views")).filter((file) => file.endsWith(".ejs")))(
    "%s use <%%- only to include layout partials, and <%%= otherwise",
    (file) => {
      const source = readFileSync(join(SOURCES, "views", file), "utf8");
      const partials = ["layout-head", "layout-foot", "brand", "problems", "console-nav", "style"];
      for (const [, code = ""] of source.matchAll(/<%-([\s\S]*?)-?%>/g)) {
        expect(partials.map((name) => `include("${name}")`)).toContain(code.trim());
      }
      expect(source.match(/include\(/g)?.length ?? 0).toBe(source.match(/<%-/g)?.length ?? 0);
      // Words that people read are in the locale files.
      const words = source.replaceAll(/<%[\s\S]*?%>/g, "").replaceAll(/<[^>]*>/g, "");
      expect(words.trim()).toBe("");
    },
  );
});

describe("docs/pages.md", () => {
  const text = readFileSync(join(SOURCES, "../docs/pages.md"), "utf8");

  it("lists every file of the built-in views", () => {
    const table = [...text.matchAll(/`([\w-]+\.(?:ejs|css))`/g)].map(([, file = ""]) => file);
    expect([...new Set<string>(table)].toSorted()).toEqual(readdirSync(join(SOURCES, "views")).toSorted());
  });

  it("shows configurations that are accepted", () => {
    const examples = [...text.matchAll(/```json\n([\s\S]*?)```/g)].map(([, json = ""]) => JSON.parse(json));
    expect(examples).toHaveLength(3);
    for (const { interactions } of examples) {
      const views = interactions.views && [viewsFolder({})];
      expect(pagesWith({ ...interactions, ...(views && { views }) }).styleHash).toMatch(/^sha256-/);
    }
  });
});

describe("the theme", () => {
  it.each([
    ["accent", "red;}body{display:none"],
    ["accent", "rebeccapurple"],
    ["background", "#fff}</style><script>"],
    ["background", "url(https://other.example/x)"],
    ["text", "#12345"],
    ["text", "#000000\n"],
    ["name", ""],
    ["name", "a\0b"],
    ["name", "x".repeat(81)],
    ["font", "Arial"],
    ["constructor", "#fff"],
  ])("refuses %s: %j", (key, value) => {
    expect(() => pagesWith({ theme: { [key]: value } })).toThrow(`config.interactions.theme.${key}`);
  });

  it("refuses colours with too little contrast", () => {
    expect(() => pagesWith({ theme: { background: "#ffffff", text: "#aaaaaa" } })).toThrow("contrast 2.3");
  });

  it("shows the name as text", async () => {
    const html = await pagesWith({ theme: { name: "<b>Contoso</b>" } }).loggedOut({ locale: "en" });
    expect(tagsNamed(html, "span")[0]?.text.trim()).toBe("<b>Contoso</b>");
    expect(tagsNamed(html, "b")).toEqual([]);
  });

  it("has AA contrast in light and dark mode with any colours", () => {
    const colour = fc
      .integer({ min: 0, max: 0xffffff })
      .map((value) => `#${value.toString(16).padStart(6, "0")}`);
    const theme = fc.record({ accent: colour, background: colour, text: colour }, { requiredKeys: [] });
    fc.assert(
      fc.property(theme, (chosen) => {
        const { css, problems } = readTheme(chosen);
        fc.pre(problems.length === 0);
        const looks = css.split(":root").slice(1);
        expect(looks).toHaveLength("background" in chosen || "text" in chosen ? 1 : 2);
        for (const look of looks) {
          const value = (name: string): string => new RegExp(`--${name}: (#\\w+);`).exec(look)?.[1] ?? "";
          for (const on of ["background", "surface"].map(value)) {
            for (const name of ["text", "muted", "link", "error"]) {
              expect(contrast(value(name), on)).toBeGreaterThanOrEqual(4.5);
            }
            expect(contrast(value("border"), on)).toBeGreaterThanOrEqual(3);
            expect(contrast(value("accent-edge"), on)).toBeGreaterThanOrEqual(3);
          }
          expect(contrast(value("on-accent"), value("accent"))).toBeGreaterThanOrEqual(4.5);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("measures contrast as WCAG does", () => {
    expect(contrast("#000", "#ffffff")).toBeCloseTo(21, 5);
    expect(contrast("#777777", "#fff")).toBeCloseTo(4.478, 2);
  });
});
