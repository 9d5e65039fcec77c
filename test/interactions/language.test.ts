import { loggedOutPage } from "../../interactions/answers.ts";
import { describe, expect, it } from "@jest/globals";
import type { LanguageWishes } from "../../interactions/look/language.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { pagesWith } from "./every-page.ts";

interface Request {
  readonly method?: string;
  readonly query?: string;
  readonly cookie?: string;
  readonly header?: string | undefined;
  readonly secure?: boolean;
}

/** A request, and the cookies that its response sets. */
function request({ method = "GET", query = "", cookie, header, secure = true }: Request): {
  readonly ctx: LanguageWishes;
  readonly set: string[];
} {
  const set: string[] = [];
  const ctx = {
    method,
    querystring: query,
    req: { headers: { cookie } },
    exchange: { deployment: { secure } },
    // A stub of Koa's method. handlers.test.ts sends real `Accept-Language` headers.
    acceptsLanguages: (available: string[]) =>
      header === undefined ? (available[0] ?? false) : (available.find((tag) => tag === header) ?? false),
    append: (_field: string, value: string) => void set.push(value),
  };
  return { ctx, set };
}

const pages = pagesWith();

const localeOf = (asked: Request, hints = {}): string => pages.visit(request(asked).ctx, hints).locale;

describe("the language of a page", () => {
  it.each([
    ["pl en", "en", "pl"],
    ["pl-PL", "en", "pl"],
    ["PL", "en", "pl"],
    ["de plx pl", "en", "pl"],
    ["de", "pl", "pl"],
    ["", "pl", "pl"],
    [undefined, "pl", "pl"],
    [undefined, "de", "en"],
    [undefined, undefined, "en"],
  ])("is for ui_locales %j and Accept-Language %j: %s", (uiLocales, header, expected) => {
    expect(pages.visit(request({ header }).ctx, { uiLocales }).locale).toBe(expected);
  });

  it("must be configured", async () => {
    expect(() =>
      pages.render(loggedOutPage, { locale: "de" }, { accountUrl: "/account", after: "stayed" }),
    ).toThrow(TypeError);
  });

  it("is that of the cookie, then that of the account, then that of the browser [D-LOCALE-2]", () => {
    const polish = "a=b; sign_in_language=pl";
    expect(localeOf({ cookie: polish, header: "en" }, { account: "en" })).toBe("pl");
    expect(localeOf({ header: "en" }, { account: "pl-PL" })).toBe("pl");
    expect(localeOf({ header: "pl" }, { account: "de" })).toBe("pl");
    expect(localeOf({ cookie: polish, header: "en" }, { uiLocales: "en" })).toBe("en");
  });

  it.each([
    "sign_in_language=de",
    "sign_in_language=",
    "sign_in_language=pl%0d%0a",
    "sign_in_language=<script>",
    "sign_in_language=__proto__",
    "sign_in_language=../pl",
    "sign_in_language=pl; sign_in_language=pl",
    `sign_in_language=${"pl".repeat(2_000)}`,
    "sign_in_languages=pl",
  ])("is not changed by an unusable cookie: %s", (cookie) => {
    expect(pages.visit(request({ cookie, header: "en" }).ctx).locale).toBe("en");
  });
});

describe("a language link", () => {
  it("chooses the language, and keeps it in a cookie", () => {
    const { ctx, set } = request({ query: "a=1&lang=pl", header: "en" });
    expect(pages.visit(ctx)).toEqual({ locale: "pl", here: "a=1&lang=pl" });
    expect(set).toEqual(["sign_in_language=pl; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"]);
    const loopback = request({ query: "lang=pl", secure: false });
    pages.visit(loopback.ctx);
    expect(loopback.set[0]).toMatch(/SameSite=Lax$/);
  });

  it("wins over the language that the client asked for, for as long as it asks for the same", () => {
    const { ctx, set } = request({ query: "lang=en" });
    expect(pages.visit(ctx, { uiLocales: "pl" }).locale).toBe("en");
    const cookie = set[0]?.split(";")[0] ?? "";
    const three = pagesWith({ locales: ["pl", "en"] });
    expect(three.visit(request({ cookie }).ctx, { uiLocales: "pl-PL" }).locale).toBe("en");
    expect(three.visit(request({ cookie }).ctx).locale).toBe("en");
    const other = request({ cookie: "sign_in_language=en.de" });
    expect(pages.visit(other.ctx, { uiLocales: "pl" }).locale).toBe("pl");
  });

  it.each([
    "lang=de",
    "lang=__proto__",
    "lang=pl%00",
    "lang=%0d%0aSet-Cookie:a=b",
    "lang=PL",
    "slang=pl",
    "lang=",
  ])("to an unknown language does nothing: %s", (query) => {
    const { ctx, set } = request({ query, header: "en" });
    expect([pages.visit(ctx).locale, set]).toEqual(["en", []]);
  });

  it("does nothing in a form that is posted", () => {
    const { ctx, set } = request({ method: "POST", query: "lang=pl", header: "en" });
    expect([pages.visit(ctx), set]).toEqual([{ locale: "en" }, []]);
    expect(pages.visit(ctx, { isRepeatable: true })).toEqual({ locale: "en", here: "" });
  });

  it("leads to the same page, whatever its query holds", async () => {
    const query = `redirect_uri=${encodeURIComponent("https://evil.example/?a=b&c")}&state=%22%3E%3Cscript%3E&lang=en`;
    const html = pages.render(
      loggedOutPage,
      { locale: "en", here: query },
      { accountUrl: "/account", after: "signed out" },
    );
    const links = tagsNamed(html, "a")
      .filter(({ attributes }) => attributes.has("hreflang"))
      .map(({ attributes }) => attributes.get("href") ?? "");
    const at = "https://login.example/oauth2/authorize";
    for (const [i, lang] of ["en", "pl"].entries()) {
      const { origin, pathname, searchParams } = new URL(links[i] ?? "", at);
      expect(origin + pathname).toBe(at);
      expect(Object.fromEntries(searchParams)).toEqual({
        redirect_uri: "https://evil.example/?a=b&c",
        state: '"><script>',
        lang,
      });
    }
    expect(tagsNamed(html, "script")).toEqual([]);
  });

  it("has the name of the language in that language; the current one is marked", async () => {
    const html = pages.render(
      loggedOutPage,
      { locale: "pl", here: "" },
      { accountUrl: "/account", after: "signed out" },
    );
    const links = tagsNamed(html, "a")
      .filter(({ attributes }) => attributes.has("hreflang"))
      .map(({ attributes, text }) => [text, attributes.get("lang"), attributes.has("aria-current")]);
    expect(links).toEqual([
      ["English", "en", false],
      ["Polski", "pl", true],
    ]);
  });

  it("is not there with one language, on a page that can't be opened again, and with an enormous query", async () => {
    const one = pagesWith({ locales: ["en"] });
    expect(one.visit(request({}).ctx)).toEqual({ locale: "en" });
    expect(pages.visit(request({ query: "x".repeat(5_000), header: "en" }).ctx)).toEqual({ locale: "en" });
    expect(
      tagsNamed(
        pages.render(loggedOutPage, { locale: "en" }, { accountUrl: "/account", after: "signed out" }),
        "footer",
      ),
    ).toEqual([]);
  });
});
