/** Where a provider has domains, the first page asks for the name, and the next one depends on its domain alone. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { clientAt } from "./clients.ts";
import { ADA, NEWS, OPERATOR, PARTNER, SHOP, useService } from "./running-service.ts";

/** Nobody listens at these addresses: no page of ours asks there. */
const AT = { issuer: "http://127.0.0.1:9/", client_id: "us", client_secret: "a-secret" };
const running = useService({
  config: {
    operators: [OPERATOR.sub],
    providers: {
      google: { client_id: "us", client_secret: "a-secret" },
      corp: { ...AT, client_id: "corp", name: "Corp ID", domains: ["corp.example"] },
      strict: { ...AT, name: "Strict ID", domains: ["strict.example", "xn--bcher-kva.example"], only: true },
    },
  },
});
/** There is an account with each of these addresses. */
const GRACE = { email: "grace@corp.example", password: "the password of grace", email_verified: true };
const OPAL = { ...OPERATOR, email: "opal@strict.example", email_verified: true };

beforeAll(async () => {
  await running.service.accounts.import(GRACE);
  await running.service.accounts.import(OPAL);
  await running.service.accounts.import({ email: "strict@strict.example", email_verified: true });
  await running.service.clients.update("shop", { providers: ["google"] });
  await running.service.clients.update("partner", { providers: ["google", "corp"] });
});

const atFirst = (client = NEWS, deployment: "oauth2" | "openid" = "oauth2"): Promise<Browser> => {
  const party = clientAt(running, deployment, client);
  return party.browser().get(party.authorizeUrl());
};
const typed = async (username: string, browser?: Browser): Promise<Browser> => {
  const page = browser ?? (await atFirst());
  return page.submit(page.form("username"), { username });
};
/** What a page asks for, and where it can lead. */
function asked(browser: Browser): string[] {
  const buttons = browser.forms().flatMap((form) => form.buttons);
  return [
    ...["username", "password"].filter((name) => browser.hasForm(name)),
    ...buttons.flatMap(([name, value]) => (name === "provider" ? [`to ${value}`] : [])),
  ];
}
const nameField = ({ html }: Browser): string => /<input[^>]* name="username"[^>]*>/.exec(html)?.[0] ?? "";
/** A page without what differs in each sign-in, and without the name. */
const withoutName = ({ html }: Browser, name: string): string =>
  html
    .replaceAll(/interaction\/[\w-]+/g, "interaction/ID")
    .replaceAll(/name="(?:csrf|again)" value="[^"]*"/g, "")
    .replaceAll(/data-passkey="[^"]*"/g, "")
    .replaceAll("<wbr>", "")
    .replaceAll(`value="${name}"`, "")
    .replaceAll(`<bdi>${name}</bdi>`, "");

describe.each(["oauth2", "openid"] as const)("the first page at %s", (deployment) => {
  it("asks for the name, with the providers beside it [D-PROV-145]", async () => {
    const browser = await atFirst(NEWS, deployment);
    expect(asked(browser)).toEqual(["username", "to google", "to corp", "to strict"]);
    expect(browser.html).toContain(">Continue</button>");
    expect(browser.html).not.toContain("Forgot password");
  });

  it("signs in after the password on the next page [D-PROV-145]", async () => {
    const browser = await typed(ADA.username, await atFirst(NEWS, deployment));
    expect(asked(browser)).toEqual(["username", "password"]);
    expect(nameField(browser)).toMatch(/^<input type="text" value="ada" id="username"[^>]* readonly/);
    await browser.submit(browser.form("password"), { password: "wrong" });
    expect([browser.status, asked(browser)]).toEqual([400, ["username", "password"]]);
    await browser.submit(browser.form("password"), { password: ADA.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("takes a name and a password at once [D-PROV-146]", async () => {
    const browser = await atFirst(NEWS, deployment);
    const both = { username: ADA.username, password: ADA.password };
    await browser.submit(browser.form("username"), { ...both, password: "wrong" });
    expect([browser.status, asked(browser)[0]]).toEqual([400, "username"]);
    expect(browser.html).toContain("Wrong username or password.");
    await browser.submit(browser.form("username"), both);
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });
});

describe("the page after the name", () => {
  it.each([
    ["of no domain", ["ada@example.com", "nobody@example.com", "ada", "nobody"], ["username", "password"]],
    [
      "of the domain of a provider",
      ["grace@corp.example", "nobody@corp.example", "GRACE@CORP.EXAMPLE", " grace@corp.example "],
      ["username", "password", "to corp"],
    ],
    [
      "of a domain with only the provider",
      ["strict@strict.example", "nobody@strict.example", "opal@strict.example"],
      ["to strict"],
    ],
  ])(
    "%s depends on the domain, whether or not there is such an account [D-PROV-147]",
    async (_of, names, page) => {
      const pages = await Promise.all(names.map((name) => typed(name)));
      expect(pages.map(asked)).toEqual(names.map(() => page));
      const texts = pages.map((each, i) => withoutName(each, names[i]?.trim() ?? ""));
      expect(new Set(texts).size).toBe(1);
    },
  );

  it.each([
    "corp.example",
    "grace@corp.example.",
    "grace@evil-corp.example",
    "grace@corp.example@example.com",
    "grace@sub.corp.example",
    "__proto__",
    "constructor@constructor",
    `${"a".repeat(20_000)}@corp.example`,
    `${"a".repeat(300)}@corp.example`,
  ])("asks for the password, as for any name: %.40s [D-PROV-147]", async (name) => {
    expect(asked(await typed(name))).toEqual(["username", "password"]);
  });

  it("says which provider signs people of the domain in, and takes nothing else [D-PROV-148]", async () => {
    const browser = await typed("someone@strict.example");
    expect(browser.html).toContain("People with an address at strict.example sign in with Strict ID.");
    expect(browser.html).toContain("Continue to Strict ID");
    expect(browser.html).not.toMatch(/password|passkey/i);
    const { csrf } = Object.fromEntries(browser.form("provider").fields);
    for (const action of ["submit", "passkey", "register"]) {
      const form = browser.form("provider");
      await browser.submit(
        { ...form, fields: [["csrf", csrf ?? ""]] },
        { action, username: "x", password: "y" },
      );
      expect([action, browser.status]).toEqual([action, 400]);
      await browser.get(browser.url.href);
    }
  });

  it("recommends the provider where it is one of two ways [D-PROV-148]", async () => {
    const browser = await typed(GRACE.email);
    expect(browser.html).toContain("Addresses at corp.example can sign in with Corp ID.");
    expect(browser.html).toContain('<button type="submit" class="second">Sign in</button>');
    await browser.submit(browser.form("password"), { password: GRACE.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it.each(["nobody@strict.example", "ada"])("leads back to the name: %s [D-PROV-145]", async (name) => {
    const browser = await typed(name);
    const form = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "change"));
    await browser.submit(form);
    expect(asked(browser)[1]).toBe("to google");
    expect(nameField(browser)).toContain(`value="${name}"`);
  });

  it("shows the domain in its script, and the name as it was typed", async () => {
    const browser = await typed("<b>@bücher.example");
    expect(browser.html).toContain("People with an address at bücher.example sign in");
    expect(browser.html).not.toContain("<b>");
  });

  it("stays after a reload, and another tab can be at the name", async () => {
    const browser = await typed(ADA.username);
    await browser.get(browser.url.href);
    expect(asked(browser)).toEqual(["username", "password"]);
  });
});

describe("a client", () => {
  it("that offers no provider with domains asks for everything, unless one is the only way [D-PROV-149]", async () => {
    // `strict` is always offered to its domains, without a button.
    const browser = await atFirst({ ...SHOP, redirect_uris: SHOP.redirect_uris ?? [] });
    expect(asked(browser)).toEqual(["username", "to google"]);
    expect(asked(await typed("grace@corp.example", browser))).toEqual(["username", "password"]);
    const other = await typed("x@strict.example", await atFirst(SHOP));
    expect(asked(other)).toEqual(["to strict"]);
  });

  it("that offers one has its button, and the domain of the others counts [D-PROV-149]", async () => {
    const browser = await atFirst(PARTNER);
    expect(asked(browser)).toEqual(["username", "to google", "to corp"]);
    expect(asked(await typed("grace@corp.example", browser))).toEqual(["username", "password", "to corp"]);
  });

  it("can fill in the name, which leads nowhere by itself [D-PROV-145]", async () => {
    const party = clientAt(running, "openid", NEWS);
    const browser = await party.browser().get(party.authorizeUrl({ login_hint: "x@strict.example" }));
    expect(asked(browser)[0]).toBe("username");
    expect(browser.html).toContain('value="x@strict.example"');
  });
});

describe("the pages of the service itself", () => {
  it("keep the password, because an operator may have to repair the provider [D-PROV-150]", async () => {
    const browser = await clientAt(running, "oauth2", NEWS).browser().get(`${running.oauth2}/account`);
    await typed(OPAL.email, browser);
    expect(asked(browser)).toEqual(["username", "password", "to strict"]);
    await browser.submit(browser.form("password"), { password: OPAL.password });
    expect(browser.title).toBe("Your account");
  });
});

/** A program at the first step. */
async function opened() {
  const party = clientAt(running, "openid", NEWS);
  const visitor = new JsonVisitor(party.browser());
  return { visitor, first: (await visitor.open(party.authorizeUrl())).body };
}

describe("a program", () => {
  it("gets the name first, then what its domain allows [D-PROV-145]", async () => {
    const { visitor, first } = await opened();
    expect(first.fields.map(({ name }) => name)).toEqual(["username"]);
    expect(first.providers?.map(({ key }) => key)).toEqual(["google", "corp", "strict"]);
    const { body: offered } = await visitor.act(first, "submit", { username: GRACE.email });
    expect(offered.fields).toMatchObject([
      { name: "username", value: GRACE.email, read_only: true },
      { name: "password" },
    ]);
    expect(offered.providers).toEqual([
      { key: "corp", name: "Corp ID", label: "Continue to Corp ID", preset: "openid" },
    ]);
    expect(offered.text).toContain("Addresses at corp.example can sign in with Corp ID.");
    const { body: again } = await visitor.act(offered, "change");
    expect(again.fields).toMatchObject([{ name: "username", value: GRACE.email }]);
    const { body: only } = await visitor.act(again, "submit", { username: "x@strict.example" });
    expect([only.fields, only.actions.map(({ name }) => name)]).toEqual([[], ["provider", "change"]]);
    expect([only.passkey, only.providers?.map(({ key }) => key)]).toEqual([undefined, ["strict"]]);
  });

  it("may send both at once, and must send a name [D-PROV-146]", async () => {
    const { visitor, first } = await opened();
    const missing = await visitor.act(first, "submit", { password: ADA.password });
    expect([missing.status, missing.body.problems[0]?.code]).toEqual([400, "required"]);
    const wrong = await visitor.act(first, "submit", { username: "ada", password: "wrong" });
    expect([wrong.status, wrong.body.problems]).toMatchObject([
      400,
      [{ code: "wrong", fields: ["username"] }],
    ]);
    const right = await visitor.act(first, "submit", { username: "ada", password: ADA.password });
    expect(right.body.done).toBe(true);
  });
});
