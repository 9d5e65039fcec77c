/** Every page, in each language, theme and width, and as people set their systems: checked by axe, measured, and walked. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Frame, Page } from "playwright-core";
import { LANGUAGES, RIGHT_TO_LEFT, screenMails, screenPages, screens } from "../../build/screens/pages.ts";
import { rounds } from "../rounds.ts";
import { useBrowser, violations } from "./chromium.ts";

const PAGES = screens(screenPages());
const ALL = [...PAGES, ...screenMails()];
/** Pixels by which a page is wider than the window. */
const OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

const browser = useBrowser();
let page: Page;
/** A frame that is not shown: it has its width like a window, and nothing is painted when that changes. */
let frame: Frame;

beforeAll(async () => {
  page = await browser.newPage();
  const around = await browser.newPage();
  await around.setContent('<!doctype html><title>Frame</title><iframe height="800" frameborder="0">');
  await around.addStyleTag({ content: "iframe { visibility: hidden }" });
  frame = around.mainFrame().childFrames()[0]!;
});

/** Shows a page with everything unfolded. The window stays, and axe with it: a new one would compile axe for each page. */
async function show(html: string): Promise<void> {
  await page.setContent(html);
  await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
}

/** Pixels by which a page with everything unfolded is wider than frames of these widths. */
async function overflows(html: string, widths: readonly number[]): Promise<readonly number[]> {
  await frame.setContent(html);
  return frame.evaluate((all) => {
    for (const each of document.querySelectorAll("details")) each.open = true;
    return all.map((width) => {
      window.frameElement?.setAttribute("width", String(width));
      return document.documentElement.scrollWidth - document.documentElement.clientWidth;
    });
  }, widths);
}

const WIDTHS = [320, 1280] as const;
interface View {
  readonly width: 320 | 1280;
  readonly colorScheme: "light" | "dark";
}
const VIEWS: readonly View[] = [
  { width: 320, colorScheme: "light" },
  { width: 1280, colorScheme: "light" },
  { width: 320, colorScheme: "dark" },
  { width: 1280, colorScheme: "dark" },
];

/** What axe checks of a view; `undefined`: nothing. */
function rulesOf(language: string, { width, colorScheme }: View): readonly string[] | undefined {
  // Nothing but colours depends on the theme.
  const rules = colorScheme === "dark" ? ["color-contrast"] : [];
  if (rounds(0, 1) === 1) return rules;
  // Outside `npm run test:all`, every page once in each language, width and theme.
  const usual = { en: "320 light", pl: "1280 dark" }[language];
  return usual === `${width} ${colorScheme}` ? rules : undefined;
}

describe.each(LANGUAGES)("in %s", (language) => {
  // The made-up language has the words of English: only its direction can break something.
  const views = language === RIGHT_TO_LEFT ? VIEWS.slice(0, 2) : VIEWS;

  it.each(ALL.map((screen) => [screen.name, screen] as const))(
    "%s has no problems that axe finds, and fits the window",
    async (_name, screen) => {
      const html = screen.html({ locale: language, here: "" });
      expect(await overflows(html, WIDTHS)).toEqual([0, 0]);
      const checked = views.flatMap((view) => {
        const rules = rulesOf(language, view);
        return rules === undefined ? [] : [{ view, rules }];
      });
      if (checked.length > 0) await show(html);
      for (const { view, rules } of checked) {
        const { width, colorScheme } = view;
        await page.setViewportSize({ width, height: 800 });
        // A colour that is still changing has a contrast of its own.
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        expect([view, await page.evaluate(OVERFLOW)]).toEqual([view, 0]);
        expect([view, await violations(page, ...rules)]).toEqual([view, []]);
      }
    },
  );
});

describe("the pages", () => {
  it("are measured in a frame as in a window", async () => {
    const style = "<style>p { width: 330px } @media (width > 500px) { p { width: 1400px } }</style>";
    const html = `<!doctype html>${style}<details><p>Wide`;
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      await show(html);
      const [inFrame] = await overflows(html, [width]);
      expect([width, inFrame]).toEqual([width, await page.evaluate(OVERFLOW)]);
      expect(inFrame).toBeGreaterThan(0);
    }
  });

  it.each(ALL.map((screen) => [screen.name, screen] as const))(
    "%s fits with text at 200 %, in forced colours and with less motion",
    async (_name, screen) => {
      await page.setViewportSize({ width: 640, height: 800 });
      await page.emulateMedia({ forcedColors: "active", reducedMotion: "reduce" });
      await show(screen.html({ locale: "pl", here: "" }));
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      expect(await page.evaluate(OVERFLOW)).toBe(0);
      const moving =
        "[...document.querySelectorAll('a, button')].filter((each) => getComputedStyle(each).transitionDuration !== '0s').length";
      expect(await page.evaluate(moving)).toBe(0);
      await page.emulateMedia({ forcedColors: "none", reducedMotion: "no-preference" });
    },
  );

  it.each([
    ["login-wrong", "#password:focus"],
    ["login-missing", '[role="alert"]:focus'],
    ["login-limited", '[role="alert"]:focus'],
  ])("put the focus on what is wrong, without a script (%s)", async (name, focused) => {
    await page.goto("about:blank");
    await page.setContent(ALL.find((screen) => screen.name === name)!.html({ locale: "en", here: "" }));
    await page.locator(focused).waitFor();
  });

  it("are mirrored for a language from right to left", async () => {
    await page.setViewportSize({ width: 1280, height: 800 });
    const login = ALL[0]!;
    const middleOf = async (language: string, selector: string): Promise<number> => {
      await show(login.html({ locale: language, here: "" }));
      const box = await page.locator(selector).first().boundingBox();
      return Math.round((box?.x ?? 0) + (box?.width ?? 0) / 2);
    };
    for (const selector of ["header span", "footer nav"]) {
      const [left, right] = [await middleOf("en", selector), await middleOf("qaa", selector)];
      expect([selector, left < 640, right > 640]).toEqual([selector, true, true]);
    }
  });

  it("print without forms and links to other languages", async () => {
    await page.emulateMedia({ media: "print" });
    await show(ALL.find(({ name }) => name === "error")!.html({ locale: "en", here: "" }));
    expect(await page.locator("main p").first().isVisible()).toBe(true);
    expect(await page.locator("footer").isVisible()).toBe(false);
    await page.emulateMedia({ media: "screen" });
  });

  it("look the same with any theme, but for its colours", async () => {
    await page.setViewportSize({ width: 320, height: 800 });
    const theme = {
      name: "W".repeat(80),
      accent: "#ffff00",
      background: "#222222",
      radius: 24,
      fonts: "serif",
    };
    const some = /^(?:login-wrong|consent|error|deliveries|receivers)$/;
    for (const screen of screens(screenPages({ theme })).filter(({ name }) => some.test(name))) {
      await show(screen.html({ locale: "pl", here: "" }));
      expect([screen.name, await page.evaluate(OVERFLOW)]).toEqual([screen.name, 0]);
      expect([screen.name, await violations(page)]).toEqual([screen.name, []]);
    }
  });
});
