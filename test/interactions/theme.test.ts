/** The look that a team configures: values that are refused, contrast, pictures, links. */
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { basename, join } from "node:path";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tagsNamed } from "../../testing/browser/html.ts";
import { readConfiguration } from "../../config/read.ts";
import { contrast } from "../../core/palette.ts";
import { readTheme } from "../../interactions/look/theme.ts";
import { loggedOutPage } from "../../interactions/answers.ts";
import { smaller } from "../../build/smaller.ts";
import { everyPage, pagesWith, SOURCES, viewsFolder } from "./every-page.ts";

const DOCS = join(import.meta.dirname, "../../docs");
const EXAMPLE_THEMES = join(import.meta.dirname, "../../examples/themes");

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
    ["radius", -1],
    ["radius", 25],
    ["radius", "4px;}body{display:none"],
    ["density", "dense"],
    ["density", "compact; } body { display: none"],
    ["density", true],
    ["fonts", 'x"; } body { display: none'],
    ["fonts", "url(https://other.example/font)"],
    ["fonts", "a\\22 "],
    ["fonts", "</style><script>"],
    ["fonts", ",serif"],
    ["logo", ""],
    ["logo", { path: "logo.png" }],
    ["favicon", "/nowhere/at/all.png"],
  ])("refuses %s: %j", (key, value) => {
    expect(() => pagesWith({ theme: { [key]: value } })).toThrow(`config.interactions.theme.${key}`);
  });

  it("refuses colours with too little contrast", () => {
    expect(() => pagesWith({ theme: { background: "#ffffff", text: "#aaaaaa" } })).toThrow("contrast 2.3");
  });

  it.each(readdirSync(EXAMPLE_THEMES))(
    "accepts the example %s, which has pictures in both modes",
    (example) => {
      const { interactions } = readConfiguration({
        deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
        storage: "sqlite::memory:",
        ...JSON.parse(readFileSync(join(EXAMPLE_THEMES, example), "utf8")),
      });
      const { css, problems } = readTheme(interactions.theme);
      expect(problems).toEqual([]);
      expect(css).toContain("prefers-color-scheme: dark");
      const page = readFileSync(join(DOCS, "customize/brand.md"), "utf8");
      for (const mode of ["light", "dark"]) {
        const picture = `images/theme-${basename(example, ".json")}-${mode}.png`;
        expect(page).toContain(picture);
        expect(existsSync(join(DOCS, picture))).toBe(true);
      }
    },
  );

  it("is smaller when it is compact, but not on touch screens and narrow screens", () => {
    const { css } = readTheme({ density: "compact" });
    expect(css).toMatch(
      /\(min-width: 40rem\) and \(hover: hover\) and \(pointer: fine\) \{ html \{ font-size: 87\.5%/,
    );
    for (const density of [undefined, "comfortable"] as const)
      expect(readTheme({ ...(density && { density }) }).css).not.toContain("font-size");
  });

  it("shows the name as text", async () => {
    const html = pagesWith({ theme: { name: "<b>Contoso</b>" } }).render(
      loggedOutPage,
      { locale: "en" },
      { accountUrl: "/account", after: "signed out" },
    );
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
            for (const name of ["text", "muted", "link", "error", "good", "warning"]) {
              expect(contrast(value(name), on)).toBeGreaterThanOrEqual(4.5);
            }
            expect(contrast(value("accent-edge"), on)).toBeGreaterThanOrEqual(3);
          }
          // Fields lie on the surface.
          expect(contrast(value("border"), value("surface"))).toBeGreaterThanOrEqual(3);
          for (const name of ["error", "good", "warning"])
            expect(contrast(value(name), value(`${name}-surface`))).toBeGreaterThanOrEqual(4.5);
          for (const name of ["text", "muted", "link"])
            expect(contrast(value(name), value("hover"))).toBeGreaterThanOrEqual(4.5);
          for (const on of ["accent", "accent-hover"]) {
            expect(contrast(value("on-accent"), value(on))).toBeGreaterThanOrEqual(4.5);
          }
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

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path fill="url(#a)" d="M0 0h9v9z"/></svg>';

/** A file with this content. */
function file(name: string, content: string | Buffer): string {
  const path = join(viewsFolder({}), name);
  writeFileSync(path, content);
  return path;
}

/** A picture of this many bytes. */
const pictureOf = (name: string, size: number): string =>
  file(name, Buffer.concat([PNG, Buffer.alloc(size - PNG.length)]));

describe("the pictures of the theme", () => {
  it("are part of each page, and nothing else is loaded", async () => {
    const theme = { name: "A & B", logo: file("logo", SVG), favicon: file("icon", PNG) };
    for (const html of everyPage(pagesWith({ theme }), "en").values()) {
      const [image] = tagsNamed(html, "img");
      expect(image?.attributes.get("src")).toBe(
        `data:image/svg+xml;base64,${Buffer.from(SVG).toString("base64")}`,
      );
      expect(image?.attributes.get("alt")).toBe("A & B");
      const [icon] = tagsNamed(html, "link");
      expect(icon?.attributes.get("href")).toBe(`data:image/png;base64,${PNG.toString("base64")}`);
    }
  });

  it.each([
    ["text", "not a picture", "is not a PNG, JPEG, WebP, ICO or SVG image"],
    ["a page named like a picture", "<!doctype html><script>alert(1)</script>", "is not a PNG"],
    ["an empty file", "", "is not a PNG"],
    ["an enormous file", Buffer.concat([PNG, Buffer.alloc(8_001)]), "at most 8000 are allowed"],
    ["a script", SVG.replace("<path", "<script>alert(1)</script><path"), "must not have scripts"],
    ["a script in a namespace", SVG.replace("<path", "<svg:script/><path"), "must not have scripts"],
    ["an event handler", SVG.replace("<path", "<path onload='alert(1)'"), "must not have scripts"],
    ["an event handler after a slash", SVG.replace("<svg ", "<svg/onload=alert(1) "), "is not a PNG"],
    [
      "an address outside",
      SVG.replace("<path", '<image href="https://evil.example/x"/><path'),
      "must not have scripts",
    ],
    ["an entity", `<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "b">]>${SVG}`, "is not a PNG"],
    [
      "a script address",
      SVG.replace("<path", '<a href="javascript:alert(1)"/><path'),
      "must not have scripts",
    ],
    ["a style sheet", SVG.replace("<path", "<style>@import 'x'</style><path"), "must not have scripts"],
  ])("are refused: %s", (_what, content, problem) => {
    const logo = file("logo.svg", content);
    expect(() => pagesWith({ theme: { logo } })).toThrow(`config.interactions.theme.logo: ${logo}`);
    expect(() => pagesWith({ theme: { logo } })).toThrow(problem);
  });

  it("are refused if both logos together are too large for a page", () => {
    const [logo, logoDark] = [pictureOf("logo", 5_000), pictureOf("dark", 3_001)];
    expect(() => pagesWith({ theme: { logo, logoDark } })).toThrow(
      "config.interactions.theme.logoDark: has 8001 bytes together with logo, at most 8000 are allowed",
    );
  });

  it("are the first letter of the name in the favicon without any", async () => {
    const html = pagesWith({ theme: { name: "<łódź" } }).render(
      loggedOutPage,
      { locale: "en" },
      { accountUrl: "/account", after: "signed out" },
    );
    expect(tagsNamed(html, "i")).toEqual([]);
    const icon = tagsNamed(html, "link")[0]?.attributes.get("href") ?? "";
    expect(Buffer.from(icon.split(",")[1] ?? "", "base64").toString()).toContain(">&#60;</text>");
    const polish = pagesWith({ theme: { name: "łódź" } }).render(
      loggedOutPage,
      { locale: "pl" },
      { accountUrl: "/account", after: "signed out" },
    );
    const polishIcon = tagsNamed(polish, "link")[0]?.attributes.get("href") ?? "";
    expect(Buffer.from(polishIcon.split(",")[1] ?? "", "base64").toString()).toContain(">Ł</text>");
  });
});

describe("the links in the footer", () => {
  it("are those of the configuration, in the language of the page", async () => {
    const links = {
      help: "mailto:help@example.org",
      privacy: "https://example.org/{locale}/privacy?a=1&b=2",
    };
    const html = pagesWith({ links }).render(
      loggedOutPage,
      { locale: "pl" },
      { accountUrl: "/account", after: "signed out" },
    );
    expect(tagsNamed(html, "a").map(({ attributes, text }) => [text, attributes.get("href")])).toEqual([
      ["Zaloguj się ponownie", "/account"],
      ["Pomoc", "mailto:help@example.org"],
      ["Prywatność", "https://example.org/pl/privacy?a=1&b=2"],
    ]);
  });

  it.each([
    ["help", "javascript:alert(1)"],
    ["terms", "data:text/html,x"],
    ["terms", "http://example.org"],
    ["privacy", "mailto:a@b.example"],
    ["privacy", "//evil.example"],
    ["privacy", "https://user:secret@example.org"],
    ["help", "mailto:a@b.example?body=x"],
  ])("are refused: %s %s", (name, address) => {
    expect(() => pagesWith({ links: { [name]: address } })).toThrow(`config.interactions.links.${name}`);
  });
});

describe("the size of a page of the package", () => {
  const script = smaller("pages.js", pagesWith().script.text);
  const sheets = readdirSync(join(SOURCES, "views")).filter((name) => name.endsWith(".css"));
  const smallerSheets = sheets.map((name) => [
    name,
    smaller(name, readFileSync(join(SOURCES, "views", name), "utf8")),
  ]);

  it("has a script of its own under 10 kB [D-FACTOR-39]", () => {
    expect(Buffer.byteLength(script)).toBeLessThan(10_000);
  });

  it("is under 48 kB with its script and the largest pictures", async () => {
    const theme = {
      logo: pictureOf("logo", 4_000),
      logoDark: pictureOf("dark", 4_000),
      favicon: pictureOf("icon", 4_000),
    };
    const pages = pagesWith({ theme, views: [viewsFolder(Object.fromEntries(smallerSheets))] });
    // The page that asks for an address has a list of all countries.
    const countries = 10_000;
    for (const [name, html] of everyPage(pages, "pl")) {
      const limit = 48_000 + (html.includes('autocomplete="country"') ? countries : 0);
      const size = Buffer.byteLength(html) + Buffer.byteLength(script);
      expect([name, Math.max(size, limit)]).toEqual([name, limit]);
    }
  });
});
