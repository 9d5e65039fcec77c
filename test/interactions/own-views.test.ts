/** A team's own views, and problems that fail the start. */
import { describe, expect, it } from "@jest/globals";
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { tagsNamed } from "../../testing/browser/html.ts";
import { ConfigurationError } from "../../core/errors.ts";
import { loggedOutPage, unavailablePage } from "../../interactions/answers.ts";
import { pagesWith, viewsFolder } from "./every-page.ts";

/** The problems that the start reports. */
function problemsWith(settings: Parameters<typeof pagesWith>[0]): readonly string[] {
  try {
    pagesWith(settings);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("views of a team", () => {
  it("override the built-in ones, the first folder first, including partials", async () => {
    const first = viewsFolder({ "layout-foot.ejs": "<footer>first</footer></html>" });
    const second = viewsFolder({
      "layout-foot.ejs": "second",
      "logged-out.ejs": '<%- include("layout-head") %><b><%= service %></b><%- include("layout-foot") %>',
    });
    const pages = pagesWith({ views: [first, second], theme: { name: "A & B" } });
    expect(
      pages.render(loggedOutPage, { locale: "en" }, { accountUrl: "/account", after: "signed out" }),
    ).toContain("<b>A &amp; B</b><footer>first</footer>");
    expect(pages.render(unavailablePage, { locale: "en" }, { accountUrl: "/account" })).toContain(
      "<footer>first</footer>",
    );
  });

  it("do not affect another service in the same process", async () => {
    const plain = pagesWith();
    const before = plain.render(unavailablePage, { locale: "en" }, { accountUrl: "/account" });
    const own = pagesWith({ views: [viewsFolder({ "layout-foot.ejs": "own foot" })] });
    expect(own.render(unavailablePage, { locale: "en" }, { accountUrl: "/account" })).toContain("own foot");
    expect(plain.render(unavailablePage, { locale: "en" }, { accountUrl: "/account" })).toBe(before);
    expect(pagesWith().render(unavailablePage, { locale: "en" }, { accountUrl: "/account" })).toBe(before);
  });

  it("may have their own style sheet, whose hash is in the CSP", async () => {
    const sheet = 'main > p { content: "a & b"; }\r\n';
    const pages = pagesWith({ views: [viewsFolder({ "style.css": sheet })] });
    const style =
      tagsNamed(
        pages.render(loggedOutPage, { locale: "en" }, { accountUrl: "/account", after: "signed out" }),
        "style",
      )[0]?.text ?? "";
    expect(style).toContain('main > p { content: "a & b"; }');
    expect(style).not.toContain("\r");
    expect(style).not.toContain(".problems");
    const digest = createHash("sha256").update(style).digest("base64");
    expect(pages.styleHash("end")).toBe(`sha256-${digest}`);
    expect(pages.styleHash()).not.toBe(pagesWith().styleHash());
  });

  it.each([
    ["login.ejs", "<% if ( { %>", "login.ejs does not compile: SyntaxError"],
    ["style.css", "a{}</STYLE><script>", "style.css must not hold </style"],
    ["pages.js", "form.hidden = (", "pages.js does not compile: SyntaxError"],
  ])("that do not compile fail the start: %s", (file, text, problem) => {
    expect(() => pagesWith({ views: [viewsFolder({ [file]: text })] })).toThrow(problem);
  });

  it("in a missing folder fail the start", () => {
    expect(() => pagesWith({ views: ["/nowhere/at/all"] })).toThrow("there is no folder /nowhere/at/all");
    const file = join(viewsFolder({ "login.ejs": "" }), "login.ejs");
    expect(() => pagesWith({ views: [file] })).toThrow(`there is no folder ${file}`);
  });

  it("are reported all at once, together with invalid texts and colours", () => {
    const views = [
      viewsFolder({ "lgoin.ejs": "" }),
      "/nowhere",
      viewsFolder({ "login.ejs": "<% if ( { %>" }),
    ];
    const copy = { en: { "login.titel": "x" } };
    const theme = { background: "#ffffff", text: "#aaaaaa" };
    expect(problemsWith({ views, copy, theme })).toEqual([
      expect.stringContaining("config.interactions.copy.en.login.titel"),
      expect.stringContaining("config.interactions.theme"),
      expect.stringContaining("there is no folder /nowhere"),
      expect.stringContaining("lgoin.ejs"),
      expect.stringContaining("login.ejs does not compile"),
    ]);
  });

  // Each view breaks only in one state of one page, or in one language.
  it.each([
    ["a local that no page has", "login.ejs", "<%= clinet %>", ":1: clinet is not defined"],
    [
      "a login that failed",
      "problems.ejs",
      "<% if (problems.length) problems.first.text %>",
      ":1: Cannot read",
    ],
    [
      "a consent to the ID alone",
      "consent.ejs",
      "<% if (fields.length === 1) nobody() %>",
      ":1: nobody is not",
    ],
    [
      "staying signed in",
      "logged-out.ejs",
      '\n<% if (text === t("stayed.text")) oops() %>',
      ":2: oops is not",
    ],
    [
      "a sign-in that is gone",
      "start-again.ejs",
      "<% if (next.length === 0) gone() %>",
      ":1: gone is not defined",
    ],
    ["an error without description", "error.ejs", "<%= description || none() %>", ":1: none is not defined"],
    [
      "the second language",
      "brand.ejs",
      '<% if (locale === "pl") t("x.y") %>',
      ":1: no text for x.y in locale pl",
    ],
    [
      "a partial that is not there",
      "layout-foot.ejs",
      '<%- include("foot") %>',
      ":1: there is no view foot.ejs",
    ],
    ["the delivery console", "delivery.ejs", "<% history.map(({ a }) => a.b) %>", ":1: Cannot read"],
  ])("that break with %s fail the start, with one line each", (_when, file, text, problem) => {
    const folder = viewsFolder({ [file]: text });
    const refused = expect.stringMatching(
      `^config.interactions.views: ${join(folder, file)}${problem}[^\n]*$`,
    );
    expect(problemsWith({ views: [folder] })).toEqual([refused]);
  });

  const OWN_FIELDS = [
    '<form method="post" action="<%= action %>"><input type="hidden" name="csrf" value="<%= csrf %>">',
    '<input name="username" value="<%= username %>"><input name="password" type="password"></form>',
  ].join("\n");
  const FIELD_PROBLEMS = ["username", "password"]
    .map((name) => `<%- include("field-problem", { name: "${name}" }) %>`)
    .join("\n");
  it.each([
    [
      "a wrong password",
      '<%- include("problems") %>',
      /something is wrong with \w+; add include\("field-problem"/,
    ],
    [
      "too many attempts",
      FIELD_PROBLEMS,
      /shows no text when something is wrong; add include\("problems"\)$/,
    ],
  ])("with inputs of their own that say nothing about %s fail the start", (_what, shown, problem) => {
    const problems = problemsWith({ views: [viewsFolder({ "login.ejs": shown + OWN_FIELDS })] });
    expect(problems.length).toBeGreaterThan(0);
    for (const each of problems) expect(each).toMatch(/^config\.interactions\.views: login\.ejs /);
    expect(problems).toContainEqual(expect.stringMatching(problem));
  });

  it.each([
    ["the parts for them", `<%- include("problems") %>${FIELD_PROBLEMS}`],
    ["texts of their own", "<% problems.forEach(({ text }) => { %><b><%= text %></b><% }); %>"],
  ])("with inputs of their own and %s are accepted", (_what, shown) => {
    expect(() => pagesWith({ views: [viewsFolder({ "login.ejs": shown + OWN_FIELDS })] })).not.toThrow();
  });

  it("that change nothing pass the same checks", () => {
    expect(() => pagesWith({ views: [viewsFolder({})] })).not.toThrow();
  });

  it.each([
    ["lgoin.ejs", "did you mean login.ejs?"],
    ["Login.ejs", "did you mean login.ejs?"],
    ["login.html", "did you mean login.ejs?"],
    ["logged_out.ejs", "did you mean logged-out.ejs?"],
    ["styles.css", "did you mean style.css?"],
    ["style.ejs", "did you mean style.css?"],
    ["README.md", "the nearest known name is"],
    ["constructor.ejs", "the nearest known name is"],
  ])("named %s fail the start, because no page uses them [D-VIEWS-1]", (file, hint) => {
    const folder = viewsFolder({ [file]: "", "login.ejs": "" });
    expect(problemsWith({ views: [folder] })).toEqual([
      expect.stringContaining(
        `config.interactions.views: ${join(folder, file)} is not named like a built-in view, and none includes it; ${hint}`,
      ),
    ]);
  });

  it("may be split into more files if a built-in view includes each; hidden files are ignored [D-VIEWS-1]", async () => {
    const first = viewsFolder({ "logged-out.ejs": "<%- include('own-frame') -%>", ".DS_Store": "" });
    const second = viewsFolder({ "own-frame.ejs": '[<%- include("own-words", { n: 1 }) -%>]' });
    const third = viewsFolder({ "own-words.ejs": "<%= locale %> <%= n %>" });
    const pages = pagesWith({ views: [first, second, third] });
    expect(
      pages.render(loggedOutPage, { locale: "pl" }, { accountUrl: "/account", after: "signed out" }),
    ).toBe("[pl 1]");
    expect(problemsWith({ views: [second, third] })).toEqual([
      expect.stringContaining(join(second, "own-frame.ejs")),
      expect.stringContaining(join(third, "own-words.ejs")),
    ]);
    const folder = viewsFolder({});
    mkdirSync(join(folder, "pl"));
    expect(problemsWith({ views: [folder] })).toEqual([expect.stringContaining(join(folder, "pl"))]);
  });
});
