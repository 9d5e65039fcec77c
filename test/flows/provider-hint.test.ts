/** A client names a provider: the first page is about that one, and leads to the others. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { clientAt } from "./clients.ts";
import { ADA, NEWS, SHOP, useService } from "./running-service.ts";

/** Nobody listens there: no page of ours asks there. */
const AT = { issuer: "http://127.0.0.1:9/", client_secret: "a-secret" };
const running = useService({
  config: {
    interactions: { registration: true },
    mail: () => Promise.resolve(),
    providers: {
      google: { client_id: "us", client_secret: "a-secret" },
      corp: { ...AT, client_id: "corp", name: { en: "Corp ID", pl: "Firma" } },
      strict: { ...AT, client_id: "strict", name: "Strict ID", domains: ["strict.example"], only: true },
    },
  },
});

beforeAll(() => running.service.clients.update("shop", { providers: ["google"] }));

function begin(parameters: RequestParameters, client = NEWS, deployment: "oauth2" | "openid" = "openid") {
  const party = clientAt(running, deployment, client);
  return party.browser().get(party.authorizeUrl(parameters));
}
const titleWith = async (...about: Parameters<typeof begin>): Promise<string> =>
  (await begin(...about)).title;

describe.each(["oauth2", "openid"] as const)("a hint at %s", (deployment) => {
  it.each(["provider_hint", "kc_idp_hint"])(
    "as %s shows the provider, and goes nowhere [D-PROV-151]",
    async (name) => {
      const browser = await begin({ [name]: "google" }, NEWS, deployment);
      expect([browser.title, browser.status]).toEqual(["Sign in with Google", 200]);
      expect(browser.html).toContain("Continue to Google");
      expect(browser.forms().map(({ method }) => method)).toEqual(["POST"]);
      expect(browser.hasForm("password")).toBe(false);
      expect(browser.headers.get("refresh")).toBeNull();
    },
  );

  it("leads to the other ways [D-PROV-151]", async () => {
    const browser = await begin({ provider_hint: "google" }, SHOP, deployment);
    await browser.click("Sign in another way");
    await browser.submit(browser.form("username"), { username: ADA.username });
    await browser.submit(browser.form("password"), { password: ADA.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it.each(["nobody", "", "Google", "google ", "__proto__", "constructor", "<b>", "x".repeat(900)])(
    "that no provider has is ignored: %j [D-PROV-152]",
    async (provider_hint) => {
      expect(await titleWith({ provider_hint }, NEWS, deployment)).toBe("Sign in");
    },
  );

  it.each(["corp", "strict"])(
    "of a provider that the client does not offer is ignored: %s [D-PROV-152]",
    async (key) => {
      expect(await titleWith({ provider_hint: key }, SHOP, deployment)).toBe("Sign in");
      expect(await titleWith({ provider_hint: key }, NEWS, deployment)).toMatch(/^Sign in with /);
    },
  );
});

describe("a hint", () => {
  it("counts as provider_hint first, and as kc_idp_hint if that names none [D-PROV-152]", async () => {
    expect(await titleWith({ provider_hint: "corp", kc_idp_hint: "google" })).toBe("Sign in with Corp ID");
    expect(await titleWith({ provider_hint: "nobody", kc_idp_hint: "google" })).toBe("Sign in with Google");
  });

  it("is no page for somebody who is signed in, and none to register or continue [D-PROV-151]", async () => {
    const party = clientAt(running, "openid", NEWS);
    const browser: Browser = await party.browser().get(party.authorizeUrl());
    await browser.submit(browser.form("username"), { username: ADA.username, password: ADA.password });
    await browser.get(party.authorizeUrl({ provider_hint: "google" }));
    expect(browser.location?.searchParams.has("code")).toBe(true);
    await browser.get(party.authorizeUrl({ provider_hint: "google", prompt: "select_account" }));
    expect(browser.title).toContain("Continue as");
    expect(await titleWith({ provider_hint: "google", prompt: "create" })).toBe("Create an account");
    await browser.get(party.authorizeUrl({ provider_hint: "google", prompt: "login" }));
    expect(browser.title).toBe("Sign in with Google");
  });

  it("shows no page with prompt=none [D-PROV-151]", async () => {
    const browser = await begin({ provider_hint: "google", prompt: "none" });
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
  });

  it("is a step for programs, in the language of the person [D-PROV-151]", async () => {
    const party = clientAt(running, "openid", NEWS);
    const visitor = new JsonVisitor(party.browser());
    const { body } = await visitor.open(party.authorizeUrl({ provider_hint: "corp", ui_locales: "pl" }));
    expect(body).toMatchObject({
      step: "provider",
      title: "Zaloguj się przez Firma",
      fields: [],
      providers: [{ key: "corp", name: "Firma", label: "Przejdź do Firma", preset: "openid" }],
      actions: [
        { name: "submit", label: "Przejdź do Firma", method: "POST" },
        { name: "login", label: "Zaloguj się inaczej", method: "GET" },
      ],
    });
    const other = body.actions.find(({ name }) => name === "login");
    expect((await visitor.get(other?.href)).body.step).toBe("login");
  });

  it("survives a wrong password on the other page", async () => {
    const browser = await begin({ provider_hint: "google" });
    await browser.click("Sign in another way");
    await browser.submit(browser.form("username"), { username: "ada", password: "wrong" });
    expect([browser.status, browser.title]).toEqual([400, "Sign in"]);
    await browser.submit(browser.form("username"), { username: ADA.username, password: ADA.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });
});
