/** What people see of the attributes that services read, and that operators set. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { type JsonAnswer, JsonVisitor } from "../interactions/json-visitor.ts";
import { ACCOUNTS, INTERACTIONS, VALUES } from "./attribute-party.ts";
import { clientAt, signedIn, signIn } from "./clients.ts";
import { PARTNER, useService } from "./running-service.ts";

const { name: SERVICE } = INTERACTIONS.theme;

const running = useService({
  config: {
    accounts: {
      attributes: {
        ...ACCOUNTS.attributes,
        department: { ...ACCOUNTS.attributes.department, label: { en: "Department", pl: "Dział" } },
        level: {
          type: "choice",
          label: { en: "Level", pl: "Poziom" },
          options: { high: { en: "Very high", pl: "Bardzo wysoki" } },
        },
        insured: { type: "boolean", label: "Insured" },
        address: { edit: "operator" },
      },
    },
    interactions: { ...INTERACTIONS, locales: ["en", "pl"], copy: { en: { "share.desk": "Where you sit" } } },
  },
});
const partner = clientAt(running, "openid", PARTNER);

beforeEach(async () => {
  const { accounts } = running.service;
  await accounts.revokeTokens(running.ada.sub);
  await accounts.update(running.ada.sub, { attributes: { ...VALUES, level: "high", insured: false } });
});

/** What a program gets in place of the page that the browser shows. */
const asProgram = (browser: Browser, language: string): Promise<JsonAnswer> =>
  new JsonVisitor(browser).get(browser.url.href, { headers: { "accept-language": language } });

/** The step that asks Ada, in a browser of this language, as a program gets it. */
async function consentIn(language: string, scope: string) {
  const browser = new Browser({
    stopAt: [partner.redirect_uri],
    headers: { "accept-language": language },
  });
  await browser.get(partner.authorizeUrl({ scope }));
  await signIn(browser);
  const items = tagsNamed(browser.html, "li").map(({ text }) => text.trim());
  const { body } = await asProgram(browser, language);
  const shares = body.shares?.map(({ label }) => label) ?? [];
  expect(items).toEqual(expect.arrayContaining(shares));
  return { browser, shares };
}

/** Whether a text has each of these. */
const lists = (text = ""): readonly boolean[] =>
  ["Phone number", "Department", "Where you sit", "Customer number", "Score", "Note"].map((label) =>
    text.includes(label),
  );

/** A page of Ada's account in this language, and as a program gets it. */
async function pageIn(language: string, path: string) {
  const browser = new Browser({ headers: { "accept-language": language } });
  await browser.get(`${running.openid}/account`);
  await signIn(browser);
  await browser.get(`${running.openid}/account/${path}`);
  const { body } = await asProgram(browser, language);
  return { html: browser.html, body: body as unknown as Readonly<Record<string, unknown>> };
}

describe("the consent page", () => {
  it.each([
    ["en", [`Department (set by ${SERVICE})`, "Motto", "Where you sit"]],
    ["pl", [`Dział (ustala ${SERVICE})`, "Motto", `Desk (ustala ${SERVICE})`]],
  ])(
    "names each attribute in the person's language, and who sets it: %s [D-ATTR-7]",
    async (language, own) => {
      const { shares } = await consentIn(language, "openid org");
      expect(shares).toEqual(expect.arrayContaining(own));
      expect(shares.join()).not.toContain("Score");
    },
  );
});

describe("Connected services", () => {
  it("says of each service what it reads: what the person allowed, or all of what its service may [D-ATTR-7]", async () => {
    const { browser } = await consentIn("en", "openid phone");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    await partner.exchange(browser.location?.searchParams.get("code") ?? "");
    for (const key of ["1", "2"]) await running.service.accounts.assign(running.ada.sub, key);
    const { body } = await pageIn("en", "services");
    const services = body["services"] as readonly { readonly id: string; readonly reads: string }[];
    const reads = Object.fromEntries(services.map(({ id, reads: text }) => [id, text]));
    expect(lists(reads["1"])).toEqual([true, true, true, false, false, false]);
    expect(lists(reads["2"])).toEqual([true, true, false, true, false, false]);
    expect(lists(reads["3"])).toEqual([true, false, false, false, false, false]);
    expect(reads["1"]).toContain(`Department (set by ${SERVICE})`);
  });
});

describe("the profile page", () => {
  it("shows what operators have set, and not what is hidden from the person [D-ATTR-7]", async () => {
    const { html, body } = await pageIn("en", "profile");
    expect(body["set"]).toEqual([
      { name: "department", label: "Department", value: "Engines" },
      { name: "desk", label: "Desk", value: "7" },
      { name: "customer_number", label: "Customer number", value: "C-1017" },
      { name: "note", label: "Note", value: "Calls on Mondays" },
      { name: "phone_number_verified", label: "Whether the phone number is confirmed", value: "Yes" },
      { name: "address", label: "Postal address", value: "12 St James’s Square, London, United Kingdom" },
      { name: "level", label: "Level", value: "Very high" },
      { name: "insured", label: "Insured", value: "No" },
    ]);
    const shown = tagsNamed(html, "dd").map(({ text }) => text.trim());
    expect(shown).toEqual((body["set"] as readonly { readonly value: string }[]).map(({ value }) => value));
    expect(tagsNamed(html, "h2").map(({ text }) => text.trim())).toContain(`Set by ${SERVICE}`);
    const labels = tagsNamed(html, "dt").map(({ text }) => text.trim());
    for (const hidden of ["Score", "Rating"]) expect(labels).not.toContain(hidden);
  });

  it("shows it in the person's language, and without what the account lacks [D-ATTR-7]", async () => {
    const { accounts } = running.service;
    await accounts.update(running.ada.sub, { attributes: { department: null } });
    const { body } = await pageIn("pl", "profile");
    expect(body["set"]).toContainEqual({ name: "level", label: "Poziom", value: "Bardzo wysoki" });
    expect(JSON.stringify(body["set"])).not.toContain("Dział");
  });

  it("takes no change of what operators set [D-ATTR-7]", async () => {
    const browser = await signedIn(running.openid);
    await browser.get(`${running.openid}/account/profile`);
    await browser.submit(browser.form("name"), { department: "Board", customer_number: "C-1", score: "99" });
    const { attributes } = (await running.service.accounts.find(running.ada.sub)) ?? {};
    expect(attributes).toMatchObject({ department: "Engines", customer_number: "C-1017", score: 12 });
  });
});
