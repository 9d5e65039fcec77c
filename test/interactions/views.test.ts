import { describe, expect, it } from "@jest/globals";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { localeFile, LOCALES, pagesWith, SOURCES, viewsFolder } from "./every-page.ts";
import { sampleStep } from "../../interactions/samples/steps.ts";
import { STEP_NAMES } from "../../interactions/steps/running-sign-in.ts";
import { viewsPage, viewsWritten } from "../../build/views.ts";
import { loggedOutPage } from "../../interactions/answers.ts";
import { stepPage } from "../../interactions/steps/views.ts";
import { readTexts } from "../../core/texts.ts";
import { tagsNamed } from "../../testing/browser/html.ts";

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

  it("are all used by a view, by the pages or in mail", () => {
    const files = [
      ...readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
        .filter((file) => /\.(?:ts|ejs)$/.test(file))
        .map((file) => join(SOURCES, file)),
      join(SOURCES, "../accounts/people/messages.ts"),
      join(SOURCES, "../accounts/ways/ways.ts"),
      join(SOURCES, "../accounts/people/views/mail.ejs"),
    ];
    const used = files.map((file) => readFileSync(file, "utf8")).join("\n");
    const chosenByName = new RegExp(
      `^(?:${[
        "mail\\.(?:registration|reset|newAddress|factors|password|recovery|stopped|failures|browser|device|signIn|identity)",
        "field|share|strength|link|error|problem|label|hint|notice|alternative|gender|boolean",
        "email\\.problem",
        "ended",
        "methods\\.(?:missing|new|problem)",
        "device\\.(?:problem|connected|refused)",
        "provider-link",
        "link-account\\.problem",
        "account\\.(?:notice|profile|email|password|sessions|services|delete)",
        "profile\\.(?:gender|locale|problem|section)",
        "console\\.(?:state|action|result|reason|error|empty)",
        "provider-problem",
        // The console's: `test/core/locales.test.ts` looks for their keys.
        "admin",
      ].join(
        "|",
      )})\\.|^[a-z-]+\\.(?:title|submit|username|password|code|name|passkey|remember|provider)$|^login\\.(?:name|proof|nothing)\\.[a-z]+$|^account\\.home$|^mail\\.[a-z]+\\.(?:subject|what|notYou)$`,
    );
    const left = Object.keys(localeFile("en")).filter(
      (key) =>
        // A row of a table names its texts.
        ![`t("${key}"`, `: "${key}"`].some((use) => used.includes(use)) && !chosenByName.test(key),
    );
    expect(left).toEqual([]);
  });

  it("can be replaced one by one", async () => {
    const pages = pagesWith({ copy: { en: { lead: "so that {client} can open" } } });
    const step = sampleStep("login");
    const html = pages.render(stepPage(step), { locale: "en" }, step);
    expect(tagsNamed(html, "p")[0]?.text).toBe("so that News can open");
    expect(tagsNamed(html, "button")[0]?.text).toBe("Sign in");
  });

  it("of another language may come only from the configuration", async () => {
    const german = { ...localeFile("en"), direction: "ltr", "loggedOut.title": "Abgemeldet" };
    const pages = pagesWith({ locales: ["de"], copy: { de: german } });
    expect(
      pages.render(loggedOutPage, { locale: "de" }, { accountUrl: "/account", after: "signed out" }),
    ).toContain("Abgemeldet");
  });

  it.each([
    [{ copy: { en: { "login.titel": "x" } } }, "config.interactions.copy.en.login.titel"],
    [{ copy: { en: { "login.title": "{name}" } } }, "unknown placeholder {name}"],
    [{ copy: { en: { direction: '"><script>' } } }, "must be ltr or rtl"],
    [{ copy: { fr: {} } }, "config.interactions.copy.fr"],
    [
      { locales: ["fr"], copy: { fr: {} } },
      "config.interactions.copy.fr: no text for direction, service.name",
    ],
    [{ locales: ["en", "fr"] }, "config.interactions.locales: fr is not built in ("],
    [{ locales: ["../locales/en"] }, "config.interactions.locales: ../locales/en is not built in"],
    [{ copy: { en: { "account.title": "{n, plural, other {#}}" } } }, "unknown placeholder {n}"],
    [
      { copy: { pl: { "problem.password.too-long": "{max, plural, one {#} other {#}}" } } },
      "the plural of {max} must have the forms few, many, one, other",
    ],
    [
      { copy: { en: { "problem.password.too-long": "{max, plural, one {#} other {#}" } } },
      "a plural must look like",
    ],
    [{ locales: [] }, "config.interactions.locales"],
  ])("that are invalid fail the start: %j", (settings, problem) => {
    expect(() => pagesWith(settings)).toThrow(problem);
  });

  it("that are missing are an error that names the key", async () => {
    const views = [viewsFolder({ "logged-out.ejs": '<%= t("own.bye") %>' })];
    expect(() => pagesWith({ views })).toThrow("no text for own.bye in locale en");
    const copy = { en: { "own.bye": "So long" }, pl: { "own.bye": "Do widzenia" } };
    const pages = pagesWith({ views, copy });
    expect(
      pages.render(loggedOutPage, { locale: "en" }, { accountUrl: "/account", after: "signed out" }),
    ).toBe("So long");
  });
});

describe("the built-in views", () => {
  // `<%-` does not escape, so it may only include a partial with a literal name.
  it.each(readdirSync(join(SOURCES, "views")).filter((file) => file.endsWith(".ejs")))(
    "%s use <%%- only to include layout partials, and <%%= otherwise",
    (file) => {
      const source = readFileSync(join(SOURCES, "views", file), "utf8");
      const partial = new RegExp(
        [
          String.raw`^include\("(?:layout-head|layout-foot|brand|problems|step-form|console-nav|console-zone|footer|style|notice|passkey|buttons|step-foot|api-lists|account-notice|account-nav|new-app|later|new-passkey|new-codes|form-token|last-provider|providers|continue-to|change|came-back|bond|linked-accounts|console-head|console-foot|console-delivery-list|delivery-attempts|delivery-tiles)"\)$`,
          String.raw`^include\("field", \{ field \}\)$`,
          String.raw`^include\("account-form", \{ form \}\)$`,
          String.raw`^include\("address", \{ address: (?:account|marked|asked|username|cameBack\.email|claim\.host|each\.host|item\.email) \}\)$`,
          String.raw`^include\("api-lists", \{ apis: each\.apis \}\)$`,
          String.raw`^include\("page-links", \{ first, next \}\)$`,
          String.raw`^include\("attributes", \{ attributes \}\)$`,
          String.raw`^include\("icon", \{ icon: (?:"\w+"|page|pageIcon|each\.(?:device|icon)|verdict\.tone|check\.(?:icon|tone), tone: check\.tone|tone, tone) \}\)$`,
          String.raw`^include\("mark", \{ look: (?:provider\.look|item\.look|cameBack\.preset) \}\)$`,
          String.raw`^include\("provider-button", \{ provider(?:: providers\.last, described: "again")? \}\)$`,
          String.raw`^include\("account-method", \{ method \}\)$`,
          String.raw`^include\("console-value", \{ value(?:: cell(?:\.value)?|: each\.(?:when|receiver|answer))? \}\)$`,
          String.raw`^include\("console-(?:cell|table|verdict|facts)", \{ (?:cell|table|verdict|facts(?:: chapter\.facts|: identifiers)?) \}\)$`,
          String.raw`^include\("console-field", \{ field(?:: typed)? \}\)$`,
          String.raw`^include\("field-problem", \{ name: (?:"\w+"|field\.name) \}\)$`,
        ].join("|"),
      );
      for (const [, code = ""] of source.matchAll(/<%-([\s\S]*?)-?%>/g)) {
        expect(code.trim()).toMatch(partial);
      }
      expect(source.match(/include\(/g)?.length ?? 0).toBe(source.match(/<%-/g)?.length ?? 0);
      // Words that people read are in the locale files.
      const words = source.replaceAll(/<%[\s\S]*?%>/g, "").replaceAll(/<[^>]*>|="[^"]*"/g, "");
      expect(words.trim()).toBe("");
    },
  );
});

describe("the pages of the account", () => {
  // Whoever had to sign in again for a form must see that it was lost.
  it("have a place for what has happened wherever they have a form", () => {
    const withForm = readdirSync(join(SOURCES, "views"))
      .filter((file) => /^(?:account|device)/.test(file))
      .map((file) => [file, readFileSync(join(SOURCES, "views", file), "utf8")] as const)
      .filter(
        ([, source]) =>
          source.includes('include("layout-head")') && /<form|new-passkey|account-form/.test(source),
      );
    expect(withForm.length).toBeGreaterThan(10);
    for (const [file, source] of withForm)
      expect([file, source.includes('include("account-notice")')]).toEqual([file, true]);
  });
});

describe("docs/reference/views.md", () => {
  const text = readFileSync(join(SOURCES, "../docs/reference/views.md"), "utf8");

  it("lists every file of the built-in views", () => {
    const files = [...text.matchAll(/\b([a-z][\w-]*\.(?:ejs|css|js))\b/g)].map(([, file = ""]) => file);
    expect([...new Set<string>(files)].toSorted()).toEqual(readdirSync(join(SOURCES, "views")).toSorted());
  });

  it("lists every variable of the views of the steps", () => {
    const { translators } = readTexts(["en"], {});
    const t = translators.get("en");
    if (t === undefined) throw new Error("there is no English");
    const unregistered = { host: "a.example", how: "https", checked: true } as const;
    const steps = [
      ...STEP_NAMES.map((name) => sampleStep(name)),
      sampleStep("consent", { signIn: { client: { client_id: "x", name: "x", unregistered } } }),
    ];
    const missing = steps.flatMap((step) => {
      const variables = Object.keys(stepPage(step).locals(t, step));
      return variables.filter((variable) => !text.includes(`\`${variable}`));
    });
    expect(missing).toEqual([]);
  });

  it("says for each view what it reads, and nothing that it doesn't read [D-DOC-140]", () => {
    // The page is written from what the code of each view reads: see the check of `npm run docs`.
    expect(viewsPage.generate()).toBe(text);
    const changed = (from: string, to: string): (() => unknown) => {
      expect(text).toContain(from);
      return () => viewsWritten(text.replace(from, to));
    };
    expect(changed("Variables: `asked`", "Variables: `planted`")).toThrow("email-code.ejs: planted");
    expect(changed("- `cameBack`", "- `other`")).toThrow("other");
    expect(changed("| `fields` |", "| `planted` |")).toThrow("reauthenticate.ejs: fields");
    expect(changed("### login.ejs", "### planted.ejs")).toThrow("there is no view planted.ejs");
  });
});

describe("the pages about the look", () => {
  it("show configurations that are accepted", () => {
    const examples = ["brand", "texts-and-languages", "replace-views"].flatMap((page) => {
      const document = readFileSync(join(SOURCES, `../docs/customize/${page}.md`), "utf8");
      return [...document.matchAll(/```json .*\n([\s\S]*?)```/g)].map(([, json = ""]) => JSON.parse(json));
    });
    expect(examples).toHaveLength(4);
    for (const { interactions } of examples) {
      const views = interactions.views && [viewsFolder({})];
      expect(pagesWith({ ...interactions, ...(views && { views }) }).styleHash()).toMatch(/^sha256-/);
    }
  });
});
