/**
 * `npm run screens` takes a picture of every page and every mail in Chromium, by language, theme and width, and writes a contact sheet:
 * `screens/index.html`. Names after `--` limit it to pages whose names contain one: `npm run screens -- login`. The pages of the console
 * come from a service that runs, and their names begin with `console-`. The name `documents` takes the pictures of README.md and docs/.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { CONSOLE_PAGES, openSampleConsole } from "./console.ts";
import type { Screen } from "./mails.ts";
import { LANGUAGES, screenMails, screenPages, screens } from "./pages.ts";

const ROOT = join(import.meta.dirname, "../..");
const OUT = join(ROOT, "screens");
/** Debian's package, as for the tests in a browser. */
const CHROMIUM = "/usr/bin/chromium-headless-shell";
const THEMES = ["light", "dark"] as const;
const WIDTHS = [390, 1280] as const;
const EXAMPLE_THEMES = join(ROOT, "examples/themes");
/** The picture of the login page in README.md. */
const README_PICTURE = join(ROOT, "docs/images/login.png");
/** Pictures in docs/images: the page, the size of the window, and the file. */
const DOCUMENT_PICTURES = [
  ["login-providers", [480, 760], "providers.png"],
  ["provider-link", [480, 800], "provider-link.png"],
  ["account-methods-linked", [900, 700], "linked-accounts.png"],
] as const;
/** Pictures of the console in docs/images: the page, the size of the window, and the scheme. A picture ends with the window. */
const CONSOLE_PICTURES = [
  ["person", [1280, 800], "light"],
  ["person", [390, 844], "dark"],
  ["audit", [1280, 720], "light"],
  ["keys", [1280, 480], "light"],
  ["receiver", [1280, 800], "light"],
  ["health", [1280, 560], "light"],
  ["clients", [1280, 560], "light"],
  ["deliveries", [1280, 720], "dark"],
  ["deliveries", [390, 844], "light"],
] as const;

interface Shot {
  readonly screen: string;
  readonly language: string;
  readonly theme: (typeof THEMES)[number];
  readonly width: number;
  readonly file: string;
}

/** Takes the pictures of one page. */
async function shoot(page: Page, screen: Screen): Promise<Shot[]> {
  const shots: Shot[] = [];
  for (const language of LANGUAGES) {
    const html = screen.html({ locale: language, here: "" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: width === 390 ? 844 : 800 });
      for (const theme of THEMES) {
        await page.emulateMedia({ colorScheme: theme });
        // Starts from a new document, so that the focus is where the page puts it.
        await page.goto("about:blank");
        await page.setContent(html);
        // Does what the script of the pages does if passkeys are available.
        await page.locator("form[data-passkey]").evaluateAll((forms) => {
          for (const form of forms) form.removeAttribute("hidden");
        });
        const file = `${screen.name}-${language}-${width}-${theme}.png`;
        await page.screenshot({ path: join(OUT, file), fullPage: true });
        shots.push({ screen: screen.name, language, theme, width, file });
      }
    }
  }
  return shots;
}

/** Takes the pictures of the console: those of the sheet, and those of docs/. */
async function shootConsole(names: readonly string[], isForDocuments: boolean): Promise<Shot[]> {
  const shots: Shot[] = [];
  const sample = await openSampleConsole();
  const page = await browser.newPage();
  const show = async (
    name: string,
    language: string,
    [width, height]: readonly [number, number],
    theme: Shot["theme"],
  ) => {
    const url = new URL(`${sample.url}${CONSOLE_PAGES[name] ?? "/"}`);
    url.searchParams.set("lang", language);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme });
    await page.goto(url.href);
  };
  try {
    await sample.enter(page);
    for (const name of names)
      for (const language of LANGUAGES)
        for (const width of WIDTHS)
          for (const theme of THEMES) {
            const file = `console-${name}-${language}-${width}-${theme}.png`;
            await show(name, language, [width, width === 390 ? 844 : 800], theme);
            await page.screenshot({ path: join(OUT, file), fullPage: true });
            shots.push({ screen: `console-${name}`, language, theme, width, file });
          }
    for (const [name, size, theme] of isForDocuments ? CONSOLE_PICTURES : []) {
      await show(name, "en", size, theme);
      const device = size[0] === 390 ? "phone" : "desk";
      await page.screenshot({ path: join(ROOT, `docs/images/console-${name}-${device}-${theme}.png`) });
    }
    return shots;
  } finally {
    await page.close();
    await sample.close();
  }
}

/** The sheet: a row for each page and language, a column for each theme and width. */
function sheet(shots: readonly Shot[]): string {
  const rows = Map.groupBy(shots, ({ screen, language }) => `${screen}, ${language}`);
  const figures = [...rows].map(([name, found]) => {
    const images = found.map(
      ({ file, theme, width }) =>
        `<figure><img src="${file}" alt="" loading="lazy" width="${width === 390 ? 240 : 560}"><figcaption>${theme}, ${width}</figcaption></figure>`,
    );
    return `<h2>${name}</h2>\n<div>${images.join("\n")}</div>`;
  });
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>The pages</title>
<style>
body { margin: 2rem; font: 1rem/1.5 system-ui, sans-serif; background: #ddd; }
div { display: flex; flex-wrap: wrap; gap: 1rem; align-items: start; }
figure { margin: 0; }
img { display: block; border: 1px solid #888; }
</style>
<h1>The pages</h1>
${figures.join("\n")}
</html>
`;
}

/** The login page in each theme of `examples/themes`, light and dark, for docs/customize/brand.md. */
async function shootThemes(page: Page): Promise<void> {
  await page.setViewportSize({ width: 680, height: 680 });
  for (const file of readdirSync(EXAMPLE_THEMES)) {
    const { interactions } = JSON.parse(readFileSync(join(EXAMPLE_THEMES, file), "utf8"));
    const [login] = screens(screenPages({ locales: ["en", "pl"], theme: interactions.theme }));
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme });
      await page.goto("about:blank");
      await page.setContent(login?.html({ locale: "en", here: "" }) ?? "");
      const name = `theme-${file.replace(".json", "")}-${colorScheme}.png`;
      await page.screenshot({ path: join(ROOT, "docs/images", name), fullPage: true });
    }
  }
}

const wanted = process.argv.slice(2);
const pages = screenPages();
const all = [...screens(pages), ...screenMails()].filter(
  ({ name }) => wanted.length === 0 || wanted.some((each) => name.includes(each)),
);
mkdirSync(OUT, { recursive: true });
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage();
  const shots: Shot[] = [];
  for (const screen of all) shots.push(...(await shoot(page, screen)));
  const isForDocuments = wanted.length === 0 || wanted.includes("documents");
  const names = Object.keys(CONSOLE_PAGES).filter(
    (name) => wanted.length === 0 || wanted.some((each) => `console-${name}`.includes(each)),
  );
  if (names.length > 0 || isForDocuments) shots.push(...(await shootConsole(names, isForDocuments)));
  writeFileSync(join(OUT, "index.html"), sheet(shots));
  if (isForDocuments) {
    const [login] = screens(screenPages({ locales: ["en", "pl"] }));
    await page.setViewportSize({ width: 760, height: 680 });
    await page.emulateMedia({ colorScheme: "light" });
    await page.setContent(login?.html({ locale: "en", here: "" }) ?? "");
    await page.screenshot({ path: README_PICTURE });
    const named = screens(screenPages({ locales: ["en", "pl"] }));
    for (const [name, [width, height], file] of DOCUMENT_PICTURES) {
      const screen = named.find((each) => each.name === name);
      await page.setViewportSize({ width, height });
      await page.setContent(screen?.html({ locale: "en", here: "" }) ?? "");
      const part = page.locator("section[aria-labelledby=linked]");
      const target = (await part.count()) > 0 ? part : page;
      await target.screenshot({ path: join(ROOT, "docs/images", file) });
    }
    await shootThemes(page);
  }
  console.log(`${shots.length} pictures: screens/index.html`);
} finally {
  await browser.close();
}
