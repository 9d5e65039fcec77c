// What the documents mean on GitHub, they mean on the site: no templates, no components, the same anchors.

/** The anchor of a heading, as GitHub makes it. */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");

const escapeHtml = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
/** The pages are compiled as templates: braces in a text would be run. */
const escapeBraces = (html) => html.replaceAll("{{", "&#123;&#123;");

/** A comment, or a tag that documents use. Everything else in angle brackets is text, such as `<id>`. */
const COMMENT = /<!--[\s\S]*?-->/g;
const ALLOWED = /^(?:\s*<\/?(?:br|details|summary|kbd)>\s*)+$/;

/** The name of a file in the text after a fence, without its region: `ts examples/embed/app.ts#mount`. */
const FILE = /^[\w@.[\]/-]*\.\w+(?=#[\w-]+$|$)/;

/** HTML in Markdown, of which little is left. */
const htmlLeft = (tokens, index) => {
  const { content } = tokens[index];
  // The generator adds entities of its own.
  if (!content.trimStart().startsWith("<")) return content;
  const left = content.replaceAll(COMMENT, "");
  return left.trim() === "" || ALLOWED.test(left) ? left : escapeBraces(escapeHtml(left));
};

function plainMarkdown(md) {
  md.core.ruler.disable("emoji", true);
  const { rules } = md.renderer;
  const { text, fence } = rules;
  rules.text = (...args) => escapeBraces(text(...args));
  rules.html_inline = htmlLeft;
  rules.html_block = htmlLeft;
  // The head of a column that has no name is an empty cell, which screen readers don't announce.
  md.core.ruler.push("empty-heads", ({ tokens }) => {
    for (const [index, { type }] of tokens.entries())
      if (type === "th_open" && tokens[index + 1].content === "")
        for (const cell of [tokens[index], tokens[index + 2]]) cell.tag = "td";
  });
  rules.fence = (tokens, index, ...rest) => {
    const [language = "", ...words] = tokens[index].info.trim().split(/\s+/);
    const [file] = words.flatMap((word) => FILE.exec(word)?.[0] ?? []);
    tokens[index].info = language === "" ? "text" : language;
    const block = fence(tokens, index, ...rest);
    if (file === undefined) return block;
    return `<figure class="file"><figcaption>${escapeHtml(file)}</figcaption>${block}</figure>`;
  };
}

export const markdown = {
  theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  // What the highlighter does not know.
  languageAlias: { ejs: "html", jsonl: "json", promql: "text", redis: "text", url: "text" },
  anchor: { slugify },
  attrs: false,
  config: plainMarkdown,
};
