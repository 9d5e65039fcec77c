import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { createHash } from "node:crypto";
import { everyPage, localeFile, LOCALES, pagesWith } from "./every-page.ts";
import { samples } from "../../interactions/samples/samples.ts";
import { asItIs, sampleApis } from "../../interactions/samples/sample.ts";
import { sampleStep } from "../../interactions/samples/steps.ts";
import { describeStep } from "../../interactions/steps/description.ts";
import type { UnregisteredClient } from "../../interactions/steps/running-sign-in.ts";
import { errorPage, logoutPage } from "../../interactions/answers.ts";
import type { Problem } from "../../interactions/steps/step.ts";
import { stepPage } from "../../interactions/steps/views.ts";
import { readTags, tagsNamed } from "../../testing/browser/html.ts";
import { rounds } from "../rounds.ts";

/** The tags and attributes of a page without texts and values. It changes when a text becomes a tag or an attribute. */
function skeleton(html: string): string[] {
  // An address may break behind its signs.
  return readTags(html.replaceAll("<wbr>", "")).map(
    ({ name, attributes }) => `${name} ${[...attributes.keys()].join(" ")}`,
  );
}

describe("every page in every locale", () => {
  const usual = pagesWith();
  const cases = LOCALES.flatMap((locale) =>
    [...everyPage(usual, locale)].map(([name, html]) => [locale, name, html] as const),
  );

  it("has a name of its own, which can be that of a file", () => {
    const names = samples().map(({ name }) => name);
    expect(names.filter((name) => !/^[a-z]+(?:-[a-z]+)*$/.test(name))).toEqual([]);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });

  it.each(cases)("%s: %s has a language, a title, one h1 and no missing text", (locale, _name, html) => {
    const [root] = tagsNamed(html, "html");
    expect(root?.attributes.get("lang")).toBe(locale);
    expect(root?.attributes.get("dir")).toBe("ltr");
    expect(tagsNamed(html, "h1")).toHaveLength(1);
    expect(/<h1>(?:<[^>]*>)*\s*[^\s<]/.test(html)).toBe(true);
    expect(tagsNamed(html, "title")[0]?.text).toContain(localeFile(locale)["service.name"]);
    const words = readTags(html).filter((tag) => tag.name !== "style");
    expect(words.map((tag) => tag.text).join(" ")).not.toMatch(/\{\w+\}|undefined|\[object/);
  });

  it.each(cases)(
    "%s: %s loads nothing, runs nothing, and works without JavaScript",
    (_locale, _name, html) => {
      for (const { name: tag, attributes } of readTags(html)) {
        expect(["script", "iframe", "object", "embed", "base", "!--"]).not.toContain(tag);
        for (const [attribute, value] of attributes) {
          expect(attribute).not.toMatch(/^on|^style$|^formaction$/);
          if (["src", "href", "action"].includes(attribute)) {
            expect(value).not.toMatch(/^(?!data:image\/svg\+xml[;,])[a-z]+:|^\/\//i);
          }
        }
      }
      expect(tagsNamed(html, "style").map(({ text }) => text)).toEqual([
        expect.not.stringMatching(/url\(|@import/),
      ]);
    },
  );

  it("has one style block with the reported hash", async () => {
    const pages = pagesWith({ theme: { name: "Contoso & Sons", accent: "#abc" } });
    for (const html of everyPage(pages, "en").values()) {
      const [style, ...more] = tagsNamed(html, "style");
      expect(more).toEqual([]);
      const digest = createHash("sha256")
        .update(style?.text ?? "")
        .digest("base64");
      const [body] = tagsNamed(html, "body");
      expect(pages.styleHash(body?.attributes.get("class"))).toBe(`sha256-${digest}`);
    }
  });
});

describe("untrusted text", () => {
  const hostile = fc.oneof(
    fc.string({ unit: "binary", minLength: 1 }),
    fc
      .array(
        fc.constantFrom(
          "<script>alert(1)</script>",
          "</title><script>",
          "</style><style>*{}",
          '" autofocus onfocus="x',
          "' onload='x",
          "<!--",
          "-->",
          "&lt;b&gt;",
          "&#34;",
          "<%= 1 %>",
          "{client}",
          "\0",
          "\u2028",
          "$&",
          "`",
          "javascript:",
        ),
        { minLength: 1, maxLength: 5 },
      )
      .map((parts) => parts.join("")),
  );
  const pages = pagesWith();

  it("is always text, never a tag or an attribute", async () => {
    const expected = [...everyPage(pages, "en")].map(([name, html]) => ({ name, tags: skeleton(html) }));
    await fc.assert(
      fc.asyncProperty(hostile, async (text) => {
        const hostilePages = everyPage(pages, "en", text);
        for (const page of expected)
          expect({ ...page, tags: skeleton(hostilePages.get(page.name) ?? "") }).toEqual(page);
      }),
      { numRuns: rounds(15, 500) },
    );
  });

  it("is not changed by escaping", async () => {
    await fc.assert(
      fc.asyncProperty(hostile, async (text) => {
        const step = sampleStep("login", { signIn: { loginHint: text } }, () => text);
        const html = pages.render(stepPage(step), { locale: "en" }, step);
        const values = new Map(
          tagsNamed(html, "input").map(({ attributes }) => [attributes.get("name"), attributes.get("value")]),
        );
        expect(values).toEqual(
          new Map([
            ["csrf", text],
            ["again", text],
            ["username", text],
            ["password", undefined],
          ]),
        );
        expect(tagsNamed(html, "form")[0]?.attributes.get("action")).toBe(text);
        expect(tagsNamed(html, "p")[0]?.text).toBe(`to continue to ${text}`);
      }),
      { numRuns: 150 },
    );
  });

  it("is detected by this test if it is not escaped", () => {
    expect(skeleton('<p title="a">x</p>')).not.toEqual(skeleton('<p title="" onclick="a">x</p>'));
    expect(skeleton("<p>x</p>")).not.toEqual(skeleton("<p><script>x</p>"));
    expect(skeleton("<title>x</title>")).not.toEqual(skeleton("<title></title><b>x"));
  });
});

function loginPage(...problems: readonly Problem[]): string {
  const step = sampleStep("login", { problems });
  return pagesWith().render(stepPage(step), { locale: "en" }, step);
}

describe("the login page", () => {
  it("is one plain form with username, password, and one submit button [D-LOGIN-1]", () => {
    const html = loginPage();
    expect(tagsNamed(html, "form").map(({ attributes }) => attributes.get("method"))).toEqual(["post"]);
    const fields = tagsNamed(html, "input").map(({ attributes }) => ({
      name: attributes.get("name"),
      type: attributes.get("type"),
      complete: attributes.get("autocomplete"),
    }));
    expect(fields).toEqual([
      { name: "csrf", type: "hidden", complete: undefined },
      { name: "again", type: "hidden", complete: undefined },
      { name: "username", type: "text", complete: "username" },
      { name: "password", type: "password", complete: "current-password" },
    ]);
    expect(tagsNamed(html, "button").map(({ attributes }) => attributes.get("type"))).toEqual(["submit"]);
  });

  it("has a label for each field", () => {
    const html = loginPage();
    const labelled = tagsNamed(html, "label").map(({ attributes }) => attributes.get("for"));
    const ids = tagsNamed(html, "input").flatMap(({ attributes }) => attributes.get("id") ?? []);
    expect(labelled).toEqual(ids);
  });

  it("says one problem once, below its field, which has the focus", () => {
    const html = loginPage({ code: "required", fields: ["password"] });
    expect(readTags(html).some(({ attributes }) => attributes.get("role") === "alert")).toBe(false);
    const [, , username, password] = tagsNamed(html, "input");
    expect(username?.attributes.has("aria-invalid")).toBe(false);
    expect(password?.attributes.get("aria-invalid")).toBe("true");
    const described = password?.attributes.get("aria-describedby");
    const texts = readTags(html).filter(({ attributes }) => attributes.get("id") === described);
    expect(texts.map(({ text }) => text)).toEqual(["Enter your password."]);
    const focused = readTags(html).filter(({ attributes }) => attributes.has("autofocus"));
    expect(focused.map(({ attributes }) => attributes.get("id"))).toEqual(["password"]);
    expect(tagsNamed(html, "title")[0]?.text).toMatch(/^Error: /);
  });

  it("lists several problems, links them to the fields and moves the focus there", () => {
    const html = loginPage(
      { code: "required", fields: ["username"] },
      { code: "required", fields: ["password"] },
    );
    const summary = readTags(html).find(({ attributes }) => attributes.get("role") === "alert");
    expect(summary?.attributes.has("autofocus")).toBe(true);
    expect(summary?.attributes.get("tabindex")).toBe("-1");
    expect(tagsNamed(html, "a").map(({ attributes, text }) => [attributes.get("href"), text])).toEqual([
      ["#username", "Username or email address"],
      ["#password", "Password"],
      ["/interaction/1/forgot-password", "Forgot password?"],
      ["/interaction/1/email-code", "Email me a code instead"],
      ["/interaction/1/register", "Create an account"],
    ]);
    expect(readTags(html).filter(({ attributes }) => attributes.has("autofocus"))).toHaveLength(1);
  });

  it("says above the form what is wrong with no field", () => {
    const html = loginPage({ code: "limited", fields: [], values: { retryAfter: 60 } });
    const alert = readTags(html).find(({ attributes }) => attributes.get("role") === "alert");
    expect(alert?.attributes.has("autofocus")).toBe(true);
    expect(tagsNamed(html, "p").map(({ text }) => text)).toContain(
      "Too many attempts. Try again in 1 minute.",
    );
  });
});

describe("the consent page", () => {
  it.each([
    ["en", ["sub", "email", "name", "surname"], ["Email address", "Name", "Account ID"]],
    ["en", ["sub", "name", "date_of_birth"], ["Given name", "Date of birth", "Account ID"]],
    ["en", ["sub"], ["Account ID"]],
    ["pl", ["sub", "name", "surname", "gender"], ["Imię i nazwisko", "Płeć", "Identyfikator konta"]],
  ])("lists what is shared in short names (%s, %j)", (locale, fields, names) => {
    const step = sampleStep("consent", { signIn: { shares: fields } });
    const html = pagesWith().render(stepPage(step), { locale }, step);
    expect(tagsNamed(html, "li").map(({ text }) => text.trim())).toEqual(names);
  });

  it("lists the requested fields by their localized names", async () => {
    const fields = ["sub", "email", "date_of_birth", "shoe_size"];
    const step = sampleStep("consent", { signIn: { shares: fields } });
    const html = pagesWith().render(stepPage(step), { locale: "pl" }, step);
    expect(tagsNamed(html, "li").map(({ text }) => text.trim())).toEqual([
      "Adres e-mail",
      "Data urodzenia",
      "shoe_size",
      "Identyfikator konta",
    ]);
    const buttons = tagsNamed(html, "button").map(({ attributes }) => [
      attributes.get("name"),
      attributes.get("value"),
    ]);
    expect(buttons).toEqual([
      ["decision", "allow"],
      ["decision", "deny"],
    ]);
  });
});

describe("the consent page of a client that nobody registered", () => {
  const HOST = "assistant.example.net";
  const NAME = "Research helper";
  const claim = { host: HOST, path: "/clients/1.json", name: NAME };
  const NOBODY = "Nobody at Account has checked this application.";
  const cases: readonly (readonly [UnregisteredClient, string, readonly string[]])[] = [
    [
      { ...claim, how: "https", checked: false },
      `${HOST} wants to use Articles`,
      [`It calls itself “${NAME}”.`, `${NOBODY} Allow it only if you know ${HOST}.`],
    ],
    [
      { ...claim, how: "https", checked: true },
      `${HOST} wants to use Articles`,
      [`Afterwards you return to ${HOST}.`],
    ],
    [
      { ...claim, how: "loopback", checked: true },
      "An app on this device wants to use Articles",
      [
        `and calls itself “${NAME}”.`,
        "This can’t be checked: any app on this device could say it.",
        "Did you just start this yourself, in an app on this device? If not, cancel.",
      ],
    ],
    [
      { ...claim, how: "scheme", scheme: "cursor", checked: false },
      "An app on this device wants to use Articles",
      ["It is opened by cursor: links.", NOBODY],
    ],
  ];

  it.each(cases)("says who asks, or says that it is: %j [D-DOC-40]", (unregistered, title, sentences) => {
    const client = { client_id: "https://x.example/c", name: HOST, logo: "/logo", unregistered };
    const step = sampleStep("consent", { signIn: { client, apis: sampleApis(asItIs) } });
    const pages = pagesWith();
    const html = pages.render(stepPage(step), { locale: "en" }, step);
    const [main = ""] = /<main>[\s\S]*<\/main>/.exec(html) ?? [];
    const words = main.replaceAll(/<[^>]*>/g, "").replaceAll(/\s+/g, " ");
    expect(words).toContain(title);
    expect(tagsNamed(html, "title")[0]?.text).toBe(`${title} – Account`);
    for (const sentence of [...sentences, HOST, "/clients/1.json"]) expect(words).toContain(sentence);
    expect(words.includes(NOBODY)).toBe(!unregistered.checked);
    expect(words.includes("you return to")).toBe(unregistered.how === "https");
    // No logo, no link, and nothing that remembers the answer; its name is not in the header either.
    expect(main).not.toMatch(/<img|<a |type="checkbox"/);
    expect(html.replace(main, "")).not.toContain(NAME);
    const buttons = tagsNamed(html, "button").map(({ attributes, text }) => [
      attributes.get("value"),
      attributes.get("class"),
      text,
    ]);
    expect(buttons).toEqual([
      ["deny", "second", "Cancel"],
      ["allow", "second", "Allow"],
    ]);
    const described = describeStep(step, pages.translator("en"));
    expect(described).toMatchObject({ step: "consent", title, client: { unregistered } });
    expect(described.actions.map(({ name, label }) => [name, label])).toEqual([
      ["deny", "Cancel"],
      ["allow", "Allow"],
    ]);
    const isOnDevice = unregistered.how !== "https";
    expect(described.text.includes(`It says that it is ${HOST}. This can’t be checked.`)).toBe(isOnDevice);
    expect(described.text).toContain(`It calls itself “${NAME}”.`);
    expect(described.text.includes(NOBODY)).toBe(!unregistered.checked);
  });

  it("leaves out the path of an address that is allowed as a whole, and a name that is missing [D-DOC-40]", () => {
    const unregistered = { host: HOST, how: "https", checked: true } as const;
    const step = sampleStep("consent", {
      signIn: { client: { client_id: "x", name: HOST, unregistered }, apis: sampleApis(asItIs) },
    });
    const html = pagesWith().render(stepPage(step), { locale: "en" }, step);
    expect(tagsNamed(html, "code")).toEqual([]);
    expect(html).not.toContain("calls itself");
  });
});

describe("the logout page", () => {
  it("sends xsrf, and logout=yes only with the first button", async () => {
    const html = pagesWith().render(
      logoutPage,
      { locale: "en" },
      { action: "/oauth2/logout/confirm", xsrf: "x1" },
    );
    expect(tagsNamed(html, "input").map(({ attributes }) => Object.fromEntries(attributes))).toEqual([
      { type: "hidden", name: "xsrf", value: "x1" },
    ]);
    expect(tagsNamed(html, "button").map(({ attributes }) => attributes.get("name"))).toEqual([
      "logout",
      undefined,
    ]);
  });
});

describe("the error page", () => {
  it("has a text for known codes, a common one for others, and shows the code", async () => {
    const pages = pagesWith();
    const texts = localeFile("en");
    expect(
      pages.render(errorPage, { locale: "en" }, { accountUrl: "/account", error: "invalid_client" }),
    ).toContain(texts["error.invalid_client"]);
    for (const error of ["server_error", "title", "details", "constructor"]) {
      const html = pages.render(errorPage, { locale: "en" }, { accountUrl: "/account", error });
      expect(html).toContain(texts["error.other"]);
      expect(tagsNamed(html, "code")[0]?.text).toBe(error);
    }
  });
});
