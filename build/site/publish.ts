/** What the site shows and serves of the pages. */
import { dirname, join, relative } from "node:path/posix";
import type { Section, SitePage } from "./tree.ts";

/** A fenced block, which stays as it is, or a link or picture. The text of a link may have lines and brackets. */
const BLOCK_OR_LINK = /^( *)(`{3,})[^\n]*\n[\s\S]*?^\1\2`*$|(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/gm;

/**
 * Leads links that leave the site into the repository.
 * @param published whether the site has this file of `docs/`.
 * @param repository the address of its files; without one, only the text of such a link is left.
 */
export function publishedText(
  { path, text }: Pick<SitePage, "path" | "text">,
  published: (file: string) => boolean,
  repository: string | undefined,
): string {
  return text.replaceAll(
    BLOCK_OR_LINK,
    (whole, _indent, _fence, mark: string, words: string, target?: string) => {
      if (target === undefined || /^(?:[a-z][a-z+.-]*:|#)/i.test(target)) return whole;
      const [file = "", fragment] = target.split("#");
      const place = join("docs", dirname(path), file);
      if (place.startsWith("docs/") && published(place.slice("docs/".length))) return whole;
      if (place === "README.md") return `[${words}](${relative(dirname(path), "index.md")})`;
      if (repository === undefined) return words;
      return `${mark}[${words}](${repository}/${place}${fragment === undefined ? "" : `#${fragment}`})`;
    },
  );
}

/** A file for the generator. Values are JSON, which YAML contains. */
export function withFrontmatter(values: Readonly<Record<string, unknown>>, text: string): string {
  const lines = Object.entries(values).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
  return `---\n${lines.join("")}---\n\n${text}`;
}

export interface SiteFacts {
  readonly name: string;
  readonly version: string;
  readonly description: string;
}

/** The first page: one card for each section. */
export function homePage({ name, description }: SiteFacts, sections: readonly Section[]): string {
  const links = sections.map((section) => ({ ...section, link: `/${firstOf(section)}` }));
  return withFrontmatter(
    {
      layout: "home",
      title: name,
      description,
      hero: {
        name,
        tagline: description,
        image: {
          src: "/images/login.png",
          alt: "The sign-in page, with fields for a username and a password",
        },
        actions: links
          .slice(0, 2)
          .map(({ title, link }, index) => ({ text: title, link, theme: index === 0 ? "brand" : "alt" })),
      },
      features: links.map(({ title, about, link }) => ({ title, details: about, link })),
    },
    "",
  );
}

function firstOf({ groups }: Section): string {
  return groups[0]?.pages[0]?.path.replace(/md$/, "html") ?? "";
}

export const pagesOf = (sections: readonly Section[]): readonly SitePage[] =>
  sections.flatMap(({ groups }) => groups.flatMap(({ pages }) => pages));

/** `llms.txt`: all pages with what they are about, for programs that read. */
export function pageIndex({ name, version, description }: SiteFacts, sections: readonly Section[]): string {
  const parts = sections.map((section) => {
    const lines = pagesOf([section]).map(
      ({ path, title, description: about }) => `- [${title}](${path}): ${about}`,
    );
    return `## ${section.title}\n\n${section.about}\n\n${lines.join("\n")}\n`;
  });
  const intro = `Version ${version}. Every page is Markdown; \`llms-full.txt\` has all of them in one file.`;
  return [`# ${name}\n\n> ${description}\n\n${intro}\n`, ...parts].join("\n");
}

/** `llms-full.txt`: all pages. */
export function allPages(facts: SiteFacts, pages: readonly SitePage[]): string {
  const texts = pages.map(({ path, text }) => `<!-- ${path} -->\n\n${text.trim()}\n`);
  return [`<!-- ${facts.name} ${facts.version} -->\n`, ...texts].join("\n");
}
