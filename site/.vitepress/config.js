// The generator of the site. It reads `.cache/`, which build/site/main.ts writes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { markdown } from "./markdown.js";
import { searchBox } from "./search-box.js";

const { name, version, description, sections } = JSON.parse(
  readFileSync(join(import.meta.dirname, "../.cache/site.json"), "utf8"),
);

/** Browsers refuse every request to another host. The generator's own scripts are in the pages. */
const POLICY = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
].join("; ");

const link = (page) => `/${page.path.replace(/md$/, "html")}`;

export default {
  title: name,
  description,
  lang: "en",
  srcDir: ".cache/pages",
  cacheDir: ".cache/vite",
  // The next page is small. Fetching every page that a link leads to costs more than it saves.
  router: { prefetchLinks: false },
  // Addresses of a service on the reader's machine are links, too.
  ignoreDeadLinks: "localhostLinks",
  head: [["meta", { "http-equiv": "Content-Security-Policy", content: POLICY }]],
  transformHead: ({ siteData }) => [
    ["link", { rel: "icon", href: `${siteData.base}favicon.svg`, type: "image/svg+xml" }],
  ],
  markdown,
  vite: { plugins: [searchBox] },
  themeConfig: {
    siteTitle: `${name} <span class="version">${version}</span>`,
    logo: { src: "/favicon.svg", alt: "" },
    nav: sections.map(({ title, folder, groups }) => ({
      text: title,
      link: link(groups[0].pages[0]),
      activeMatch: `^/${folder}/`,
    })),
    sidebar: Object.fromEntries(
      sections.map(({ title, folder, groups }) => [
        `/${folder}/`,
        groups.map((group) => ({
          text: group.title ?? title,
          items: group.pages.map((page) => ({ text: page.title, link: link(page) })),
        })),
      ]),
    ),
    outline: { level: [2, 3] },
    search: { provider: "local" },
  },
};
