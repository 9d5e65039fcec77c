/** The buttons of providers on the pages of a sign-in, rendered from the samples. */
import { describe, expect, it } from "@jest/globals";
import { providerName } from "../../interactions/look/providers.ts";
import { asItIs } from "../../interactions/samples/sample.ts";
import { sampleProviders } from "../../interactions/samples/provider-steps.ts";
import { sampleStep } from "../../interactions/samples/steps.ts";
import type { RunningSignIn, StepName } from "../../interactions/steps/running-sign-in.ts";
import { stepPage } from "../../interactions/steps/views.ts";
import { readTags, tagsNamed } from "../../testing/browser/html.ts";
import { pagesWith } from "./every-page.ts";

const PROVIDERS = sampleProviders(asItIs);
const CHALLENGE = { loginChallenge: { challenge: "bGluayBvZiAzMiBieXRlcw", expiresAt: 0 } };

function page(name: StepName, signIn: Partial<RunningSignIn>, locale = "en"): string {
  const step = sampleStep(name, { signIn, state: CHALLENGE });
  return pagesWith({ locales: ["en", "de", "pl", "uk"] }).render(stepPage(step), { locale }, step);
}

/** The inputs and buttons of a page in their order, by name, value or words. */
const controls = (html: string): string[] =>
  readTags(html).flatMap(({ name, attributes, text }) => {
    if (name === "summary") return [text];
    if (name === "button") return [attributes.get("value") ?? (text || "passkey")];
    const isHidden = attributes.get("type") === "hidden" || attributes.has("hidden");
    return name === "input" && !isHidden ? [attributes.get("name") ?? ""] : [];
  });

describe("the name of a provider", () => {
  it.each([
    ["Corp ID", "pl", "Corp ID"],
    [{ en: "Corp ID", de: "Firmenkonto" }, "de", "Firmenkonto"],
    [{ en: "Corp ID", de: "Firmenkonto" }, "de-AT", "Firmenkonto"],
    [{ en: "Corp ID", de: "Firmenkonto" }, "uk", "Corp ID"],
    [{ de: "Firmenkonto" }, "pl", "Firmenkonto"],
    [{ en: "Corp ID" }, "constructor", "Corp ID"],
  ] as const)("of %j in %s is %s", (name, locale, expected) => {
    expect(providerName({ name }, locale)).toBe(expected);
  });
});

describe("the first page", () => {
  it("has the form, then a passkey, then up to four providers in the order of the configuration [D-PROV-140]", () => {
    expect(controls(page("login", { providers: PROVIDERS.slice(0, 4) }))).toEqual([
      "username",
      "password",
      "Sign in",
      "passkey",
      "google",
      "microsoft",
      "apple",
      "github",
    ]);
  });

  it("folds all but three from five on [D-PROV-140]", () => {
    const all = controls(page("login", { providers: PROVIDERS }));
    expect(all.slice(4)).toEqual([
      "google",
      "microsoft",
      "apple",
      "3 more ways to sign in",
      "github",
      "corp",
      "uni",
    ]);
  });

  it("moves the one that this browser used last before the form, and gives no field the focus [D-PROV-141]", () => {
    const html = page("login", { providers: PROVIDERS.slice(0, 3), lastProvider: "microsoft" });
    expect(controls(html)).toEqual([
      "microsoft",
      "username",
      "password",
      "Sign in",
      "passkey",
      "google",
      "apple",
    ]);
    expect(html).toContain("Last time in this browser:");
    expect(html).not.toContain("autofocus");
    expect(page("login", { providers: PROVIDERS.slice(0, 3) })).toContain("autofocus");
  });

  it.each(["corp", "constructor", "", '"><script>', "google "])(
    "ignores a last provider that the client does not offer: %j [D-PROV-141]",
    (lastProvider) => {
      const providers = PROVIDERS.slice(0, 3);
      expect(page("login", { providers, lastProvider })).toBe(page("login", { providers }));
    },
  );

  it("sends each provider by POST, with the hidden token, in a form without fields [D-PROV-142]", () => {
    const html = page("login", { providers: PROVIDERS, lastProvider: "google" });
    const forms = html.split("<form").slice(1);
    const ofProviders = forms.filter((form) => form.includes('name="provider"'));
    expect(ofProviders).toHaveLength(2);
    for (const form of ofProviders) {
      const [own = ""] = form.split("</form>");
      expect(own).toMatch(/^ method="post" action="\/interaction\/1"/);
      expect(own).toContain('<input type="hidden" name="csrf" value="c">');
      expect(own).toContain('<input type="hidden" name="action" value="provider">');
      expect(tagsNamed(own, "input").every((input) => input.attributes.get("type") === "hidden")).toBe(true);
    }
    expect(
      tagsNamed(html, "a").filter(({ attributes }) => /^https?:/.test(attributes.get("href") ?? "")),
    ).toEqual([]);
  });

  it.each([
    ["de", "Mit Firmenkonto anmelden"],
    ["pl", "Zaloguj się przez Corp ID"],
    ["uk", "Увійти через Corp ID"],
  ])("says it in %s: %s", (locale, words) => {
    expect(page("login", { providers: PROVIDERS.slice(4, 5) }, locale)).toContain(`<span>${words}</span>`);
  });

  it("describes the providers to programs, with the last one [D-PROV-143]", () => {
    const step = sampleStep("login", { signIn: { providers: PROVIDERS.slice(3, 5), lastProvider: "corp" } });
    expect(stepPage(step).describe(pagesWith({ locales: ["de"] }).translator("de"), step)).toMatchObject({
      providers: [
        { key: "github", name: "GitHub", label: "Mit GitHub anmelden", preset: "github" },
        { key: "corp", name: "Firmenkonto", label: "Mit Firmenkonto anmelden", preset: "openid", last: true },
      ],
    });
  });
});

describe("the page that asks to sign in again", () => {
  const account = { sub: "1", email: "ada@example.com", name: "", locale: null };

  it("has the providers of the account only, and none first [D-PROV-144]", () => {
    const html = page("reauthenticate", {
      account: { ...account, ways: ["password", "provider"], providers: ["apple", "gone"] },
      providers: PROVIDERS,
      lastProvider: "google",
    });
    expect(controls(html)).toEqual(["password", "Continue", "apple"]);
    expect(html).toContain("Continue with Apple");
  });

  it("has none for an account without [D-PROV-144]", () => {
    const html = page("reauthenticate", {
      account: { ...account, ways: ["password"] },
      providers: PROVIDERS,
    });
    expect(controls(html)).toEqual(["password", "Continue"]);
  });
});
