/** Attributes in forms: on the profile page, at registration and, for operators to read, in the console. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { clientAt, signedIn } from "./clients.ts";
import { NEWS, OPERATOR, useService } from "./running-service.ts";

const running = useService({
  config: {
    accounts: {
      attributes: {
        phone_number: { registration: "required" },
        address: true,
        website: true,
        nickname: true,
        team: { type: "choice", label: "Team", edit: "person", options: { red: "Red", blue: "Blue" } },
        motto: { type: "text", label: "Motto" },
        rating: { type: "integer", label: "Rating", scope: "rating", visible: false, readers: ["1"] },
      },
    },
    interactions: { registration: true },
    mail: { send: async () => undefined },
    operators: { [OPERATOR.sub]: "administrator" },
  },
});
const LONDON = { street_address: "12 St James’s Square", locality: "London", country: "GB" };

const stored = async () => (await running.service.accounts.find(running.ada.sub))?.attributes ?? {};
const set = (attributes: Readonly<Record<string, unknown>>) =>
  running.service.accounts.update(running.ada.sub, { attributes: attributes as Record<string, string> });

beforeAll(async () => {
  await running.service.accounts.import({ ...OPERATOR, email_verified: true });
});

async function profile(): Promise<Browser> {
  const browser = await signedIn(running.openid);
  return browser.get(`${running.openid}/account/profile`);
}

/** Types into the form, and sends it. @returns the fields that are wrong. */
async function save(values: Readonly<Record<string, string>>, browser?: Browser): Promise<string[]> {
  const visitor = browser ?? (await profile());
  await visitor.submit(visitor.form("name"), values);
  return [...visitor.html.matchAll(/<(?:input|select) id="([^"]+)"[^>]*aria-invalid/g)].map(
    ([, name = ""]) => name,
  );
}

describe("the profile page", () => {
  it("has its fields in sections, with what helps to fill them in [D-ATTR-13]", async () => {
    const browser = await profile();
    expect(tagsNamed(browser.html, "legend").map(({ text }) => text)).toEqual([
      "About you",
      "Contact",
      "Postal address",
      "Other details",
    ]);
    const { body } = await new JsonVisitor(browser).get(browser.url.href);
    const found = body.fields.map(({ name, type, autocomplete }) => [name, type, autocomplete].join(" "));
    expect(found).toEqual(
      expect.arrayContaining([
        "phone_number tel tel",
        "website url url",
        "address.street_address text street-address",
        "address.locality text address-level2",
        "address.region text address-level1",
        "address.postal_code text postal-code",
        "address.country select country",
      ]),
    );
    const sections = new Map(body.fields.map((field) => [field.name, Object(field).section as unknown]));
    expect([sections.get("name"), sections.get("nickname"), sections.get("team")]).toEqual([
      "About you",
      "About you",
      "Other details",
    ]);
    const phone = body.fields.find(({ name }) => name === "phone_number");
    expect(phone?.hint).toContain("country code");
    const country = body.fields.find(({ name }) => name === "address.country");
    expect(country?.options?.find(({ value }) => value === "DE")?.label).toBe("Germany");
  });

  it("takes a number as people write it, and an address of any country by its parts", async () => {
    const values = {
      phone_number: "+44 (20) 7946-0958",
      "address.street_address": LONDON.street_address,
      "address.locality": LONDON.locality,
      "address.country": LONDON.country,
      team: "blue",
    };
    expect(await save(values)).toEqual([]);
    expect(await stored()).toMatchObject({ phone_number: "+442079460958", address: LONDON, team: "blue" });
    // What is left alone stays, and one part is changed without the others.
    expect(await save({ "address.country": "IE" })).toEqual([]);
    expect(await stored()).toMatchObject({ address: { ...LONDON, country: "IE" }, team: "blue" });
    const none = Object.keys(LONDON).map((part) => [`address.${part}`, ""] as const);
    expect(await save(Object.fromEntries(none))).toEqual([]);
    expect(await stored()).toMatchObject({ address: null, team: "blue" });
  });

  it.each([
    ["phone_number", "020 7946 0958"],
    ["phone_number", "+44<b>20"],
    ["website", "http://example.com"],
    ["website", "javascript:alert(1)"],
    ["nickname", "a\u202eb"],
    ["team", "green"],
    ["team", "__proto__"],
    ["address.country", "XX"],
    ["address.country", "constructor"],
    ["address.country", "gb"],
    ["address.locality", "Lon\u0007don"],
    ["address.locality", "a".repeat(257)],
    ["address.region", "\u2066Kent"],
  ])("says which field is wrong, and stores nothing: %s %j", async (name, text) => {
    await set({ phone_number: null, address: null });
    const before = await stored();
    const typed = { nickname: "Enchantress", "address.postal_code": "SW1Y 4JU", [name]: text };
    expect(await save(typed)).toEqual([name]);
    expect(await stored()).toEqual(before);
  });

  it("keeps what somebody else changes meanwhile, also after a mistake", async () => {
    await set({ phone_number: "+442079460958", team: "red" });
    const open = await profile();
    await set({ team: "blue", address: LONDON });
    expect(await save({ phone_number: "+44" }, open)).toEqual(["phone_number"]);
    expect(await save({ phone_number: "+442079460999" }, open)).toEqual([]);
    expect(await stored()).toMatchObject({ phone_number: "+442079460999", team: "blue", address: LONDON });
  });

  it("ignores parts that no address has", async () => {
    const browser = await profile();
    const { body } = await new JsonVisitor(browser).get(browser.url.href);
    const before = await stored();
    const { status } = await new JsonVisitor(browser).post(browser.url.href, {
      csrf: body.csrf,
      "address.__proto__": "x",
      "address.formatted": "x",
      "address.": "x",
      "phone_number.country": "PL",
    });
    expect(status).toBe(200);
    expect(await stored()).toEqual(before);
  });
});

describe("registration", () => {
  it("asks for a phone number with its country code", async () => {
    const party = clientAt(running, "openid", NEWS);
    const visitor = new JsonVisitor();
    const { body } = await visitor.open(party.authorizeUrl());
    const register = await visitor.get(body.actions.find(({ name }) => name === "register")?.href);
    const phone = register.body.fields.find(({ name }) => name === "phone_number");
    expect(phone).toMatchObject({ type: "tel", autocomplete: "tel", required: true });
    expect(phone?.hint).toContain("country code");
    const values = { email: "ida@example.com", password: "a long password of hers" };
    const refused = await visitor.act(register.body, "submit", { ...values, phone_number: "12" });
    expect(refused.body.problems.map(({ fields }) => fields)).toEqual([["phone_number"]]);
    const next = await visitor.act(refused.body, "submit", { ...values, phone_number: "0044 20 7946 0958" });
    expect(next.body.step).toBe("confirm-email");
  });
});

describe("the console", () => {
  it("shows operators the attributes of an account, as text", async () => {
    await set({ motto: "<img src=x onerror=alert(1)>", rating: 7, address: LONDON });
    const browser = await signedIn(running.openid, OPERATOR);
    await browser.get(`${running.openid}/account/people/${running.ada.sub}`);
    const labels = tagsNamed(browser.html, "dt").map(({ text }) => text);
    const values = tagsNamed(browser.html, "dd").map(({ text }) => text);
    const facts = new Map(labels.map((label, i) => [label, values[i]]));
    expect(facts.get("Motto")).toContain("onerror");
    expect(browser.html).not.toContain("<img src=x");
    expect([facts.get("Rating"), facts.get("Postal address"), facts.get("Team")]).toEqual([
      "7",
      "12 St James’s Square, London, United Kingdom",
      "Blue",
    ]);
  });
});
