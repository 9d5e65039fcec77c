import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "@jest/globals";
import { Parser } from "htmlparser2";
import type { Page } from "playwright-core";
import { pagesOf, publishedText } from "../../build/site/publish.ts";
import { readSections } from "../../build/site/tree.ts";
import { beforeTests, newFolder } from "../closing.ts";
import { manifest, run } from "../installed.ts";
import { rounds } from "../rounds.ts";
import { serve, useBrowser, violations } from "./chromium.ts";

const ROOT = join(import.meta.dirname, "../..");
const SITE = join(ROOT, "site");
/** Not the root: links, pictures and the search have to work below a path. */
const BASE = "/documents/";
const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};

const sections = readSections();
const pages = pagesOf(sections);
const addressOf = (path: string): string => path.replace(/md$/, "html");
/** The first page of each section, and one with a warning. */
const samples = new Set([
  ...sections.map((section) => pagesOf([section])[0]),
  pages.find(({ text }) => text.includes("> [!CAUTION]")),
]);
const chosen = pages.filter((page) => rounds(0, 1) === 1 || samples.has(page));
const walked = ["index.html", "404.html", ...chosen.map(({ path }) => addressOf(path))];

describe("the text of a page on the site", () => {
  const published: ReadonlySet<string> = new Set(["operate/backup.md", "a.json"]);
  const ofPage = (text: string, repository?: string): string =>
    publishedText({ path: "start/page.md", text }, (file) => published.has(file), repository);

  it("leads links that leave the site into the repository, or nowhere", () => {
    const text =
      "[a](../operate/backup.md#x) [b](#here) [c](https://example.com) [d](../a.json) [`e`](../../lib/e.ts#L1)\n" +
      "```sh\n[f](../../f.ts)\n```\n[g](../internals/g.md) [two\nlines](../../README.md#try-it)\n";
    const home = "[two\nlines](../index.md)\n";
    const kept = "[a](../operate/backup.md#x) [b](#here) [c](https://example.com) [d](../a.json)";
    expect(ofPage(text)).toBe(`${kept} \`e\`\n\`\`\`sh\n[f](../../f.ts)\n\`\`\`\ng ${home}`);
    expect(ofPage(text, "https://git.example.com/x")).toBe(
      `${kept} [\`e\`](https://git.example.com/x/lib/e.ts#L1)\n\`\`\`sh\n[f](../../f.ts)\n\`\`\`\n` +
        `[g](https://git.example.com/x/docs/internals/g.md) ${home}`,
    );
  });

  it("is no template, and shows the name of the file of a block [D-DOC-130]", async () => {
    const load = (file: string): Promise<unknown> => import(pathToFileURL(join(SITE, file)).href);
    const generator = (await load("node_modules/vitepress/dist/node/index.js")) as {
      createMarkdownRenderer(
        folder: string,
        options: unknown,
      ): Promise<{ renderAsync(text: string, context: unknown): Promise<string> }>;
    };
    const { markdown } = (await load(".vitepress/markdown.js")) as { markdown: unknown };
    const renderer = await generator.createMarkdownRenderer(SITE, markdown);
    const render = (text: string): Promise<string> =>
      renderer.renderAsync(text, { path: "a.md", relativePath: "a.md" });

    expect(await render("# A `{{ b }}` {{ c }} {#d}")).toContain('id="a--b---c--d"');
    expect(await render("{{ constructor }} :key:")).toContain("<p>&#123;&#123; constructor }} :key:</p>");
    for (const [written, shown] of [
      [
        "<base href=x> <Foo :a=1>{{ b }}</Foo>",
        "&lt;base href=x&gt; &lt;Foo :a=1&gt;&#123;&#123; b }}&lt;/Foo&gt;",
      ],
      ["<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"],
      ["<style>* { color: red }</style>", "&lt;style&gt;"],
      ["<!-- a --><img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"],
      ["a<br>b", "a<br>b"],
    ] as const)
      expect(await render(written)).toContain(shown);
    expect(await render("<!-- generated -->\n\ntext")).not.toContain("generated");
    for (const [info, file] of [
      ["js app.js", "app.js"],
      ["ts examples/embed/app.ts#mount", "examples/embed/app.ts"],
      ["tsx app/auth/[action]/route.ts", "app/auth/[action]/route.ts"],
      ["ts main.mts runnable", "main.mts"],
    ] as const) {
      const html = await render(`\`\`\`${info}\nconst a = "{{ b }}"\n\`\`\``);
      const language = info.split(" ")[0] ?? "";
      expect(html).toContain(`<figcaption>${file}</figcaption><div class="language-${language}">`);
      // Highlighted.
      expect(html).toMatch(/<span style="[^"]*--shiki/);
    }
    for (const info of ["ts name=rotate", "text illustration", "console", ""])
      expect(await render(`\`\`\`${info}\nx\n\`\`\``)).not.toContain("<figcaption>");
  });
});

describe("the site", () => {
  const browser = useBrowser();
  const asked: string[] = [];
  const built = beforeTests(async () => {
    const folder = newFolder();
    run("npm", ["run", "docs:site", "--", "--base", BASE, "--out", folder], ROOT);
    const origin = await serve((request, response) => {
      const path = decodeURIComponent((request.url ?? "").split("?")[0] ?? "");
      const file = join(folder, path.slice(BASE.length).replace(/^$/, "index.html"));
      if (!path.startsWith(BASE) || !existsSync(file)) {
        asked.push(path);
        response.statusCode = 404;
        response.end();
        return;
      }
      response.setHeader("content-type", TYPES[extname(file)] ?? "text/plain; charset=utf-8");
      response.end(readFileSync(file));
    });
    return { folder, home: `${origin}${BASE}` };
  });

  /** A page that says what it asked other hosts for, and what its console said. */
  async function watchedPage(width = 1280): Promise<{ page: Page; problems: string[] }> {
    const problems: string[] = [];
    const page = await browser.newPage({ viewport: { width, height: 800 } });
    page.on("request", (request) => {
      if (!request.url().startsWith(built.home) && !request.url().startsWith("data:"))
        problems.push(request.url());
    });
    page.on("console", (message) => problems.push(message.text()));
    return { page, problems };
  }

  it("has every page of the tree, its Markdown beside it, and the list for programs [D-DOC-131]", () => {
    const index = readFileSync(join(built.folder, "llms.txt"), "utf8");
    const whole = readFileSync(join(built.folder, "llms-full.txt"), "utf8");
    for (const { path, title, description } of pages) {
      expect(readFileSync(join(built.folder, addressOf(path)), "utf8")).toContain(
        `<meta name="description" content="`,
      );
      const text = readFileSync(join(built.folder, path), "utf8");
      expect(text).toMatch(/^# /m);
      expect(whole).toContain(text.trim());
      expect(index).toContain(`- [${title}](${path}): ${description}`);
      expect([path, description.length > 0 && description.length <= 200]).toEqual([path, true]);
    }
    expect(existsSync(join(built.folder, "internals"))).toBe(false);
    expect(manifest.files.filter((entry) => entry.startsWith("site"))).toEqual([]);
  });

  it("has no link, fragment or picture that leads nowhere [D-DOC-132]", () => {
    const files = readdirSync(built.folder, { recursive: true, encoding: "utf8" });
    const parsed = new Map(
      files
        .filter((file) => file.endsWith(".html"))
        .map((file) => [file, anchorsAndTargets(readFileSync(join(built.folder, file), "utf8"))]),
    );
    expect(parsed.size).toBe(pages.length + 2);
    const broken = [...parsed].flatMap(([file, { targets }]) =>
      targets.flatMap((target) => {
        const { origin, pathname, hash } = new URL(target, `http://site${BASE}${file}`);
        if (origin !== "http://site") return [];
        const place = decodeURIComponent(pathname).slice(BASE.length).replace(/^$/, "index.html");
        const isThere = pathname.startsWith(BASE) && files.includes(place);
        const anchors = parsed.get(place)?.anchors;
        const leads = isThere && (hash === "" || anchors?.has(decodeURIComponent(hash.slice(1))) === true);
        return leads ? [] : [`${file}: ${target}`];
      }),
    );
    expect(broken).toEqual([]);
  });

  it.each(walked)(
    "%s can be used by everybody, in light and dark, and asks nobody else [D-DOC-133]",
    async (path) => {
      const { page, problems } = await watchedPage();
      await page.goto(`${built.home}${path}`);
      expect(await violations(page)).toEqual([]);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.locator("html.dark").waitFor();
      // The other rules find the same in every color.
      expect(await violations(page, "color-contrast")).toEqual([]);
      await page.setViewportSize({ width: 320, height: 640 });
      expect(await widerThanWindow(page)).toBe(false);
      expect(problems).toEqual([]);
      expect(asked).toEqual([]);
    },
  );

  it("finds a page by a word, without another host, and works at 320 pixels [D-DOC-134]", async () => {
    const { page, problems } = await watchedPage(320);
    await page.goto(built.home);
    await page
      .getByRole("button", { name: /search/i })
      .first()
      .click();
    await page.getByRole("searchbox").fill("introspection");
    await page.getByRole("option").first().waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("option").first().click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    expect(page.url()).not.toBe(built.home);
    expect(await page.locator("main").textContent()).toMatch(/introspect/i);
    expect(await widerThanWindow(page)).toBe(false);
    expect(problems).toEqual([]);
  });
});

const widerThanWindow = (page: Page): Promise<boolean> =>
  page.locator("html").evaluate((html) => html.scrollWidth > html.clientWidth);

/** What can be linked to in a page, and what it links to or shows. */
function anchorsAndTargets(html: string): { anchors: ReadonlySet<string>; targets: readonly string[] } {
  const anchors = new Set<string>();
  const targets: string[] = [];
  const parser = new Parser({
    onopentag(name, { id, href, src }) {
      if (id !== undefined) anchors.add(id);
      for (const target of [name === "link" ? undefined : href, src])
        if (target !== undefined) targets.push(target);
    },
  });
  parser.end(html);
  return { anchors, targets };
}
