/** The link in the mail about a linked identity, as a page and as JSON, and the identity in the review after a reset. */
import { describe, expect, it } from "@jest/globals";
import type { AccountInternals } from "../../accounts/account.ts";
import type { LinkedAs } from "../../accounts/identities/identity.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { beforeTests } from "../closing.ts";
import { JsonVisitor } from "./json-visitor.ts";
import { linkIn, startSelfService } from "./self-service.ts";

const PASSWORD = "a password that a thief knows";
const NEW_PASSWORD = "the owner has a new one";
let people = 0;

const service = beforeTests(() =>
  startSelfService(undefined, {
    config: {
      providers: {
        google: { client_id: "news", client_secret: "secret" },
        corp: {
          issuer: "https://login.corp.example",
          client_id: "news",
          name: "Corp ID",
          domains: ["staff.example"],
          only: true,
        },
      },
    },
  }),
);

/** Somebody to whose account a thief has linked an identity, with the link in the mail about it. */
async function linked(provider: "google" | "corp" = "google") {
  people += 1;
  const username = `person${people}@${provider === "corp" ? "staff.example" : "example.com"}`;
  const { accounts } = service.service;
  const { sub } = await accounts.create({ email: username, password: PASSWORD, email_verified: true });
  const issuer = provider === "corp" ? "https://login.corp.example" : "https://accounts.google.com";
  const identity: LinkedAs = { provider, issuer, subject: String(people), email: `thief${people}@gmail.com` };
  await (accounts as unknown as AccountInternals).addIdentity(sub, identity, undefined, SYSTEM);
  const mail = await service.mailTo(username);
  return {
    sub,
    username,
    mail,
    link: linkIn(mail),
    count: async () => (await accounts.identities(sub)).length,
  };
}

describe("the link that undoes a linking", () => {
  it("as a page: asks, unlinks, and leads to a new password [D-PROV-55]", async () => {
    const person = await linked();
    expect(person.mail.subject).toBe("Google was linked to your account");
    expect(person.mail.text).toContain(`the Google account thief${people}@gmail.com was linked.`);
    const browser = await new Browser().get(person.link);
    expect([browser.title, browser.url.search]).toEqual(["Unlink Google", ""]);
    expect(browser.html).not.toContain(person.username);
    // Following the link, as programs do too, changes nothing.
    expect(await person.count()).toBe(1);
    await browser.submit(browser.form("csrf"));
    expect(await person.count()).toBe(0);
    await expect(service.service.accounts.verifyPassword(person.sub, PASSWORD)).resolves.toBe(false);
    expect((await service.mailTo(person.username)).text).toContain(
      "Your account was unlinked from Google on",
    );
    await browser.submit(browser.form("password"), { password: NEW_PASSWORD });
    const owner = await new Browser().get(`${service.openid}/account`);
    // A provider has a domain, so the name comes first.
    await owner.submit(owner.form("username"), { username: person.username });
    await owner.submit(owner.form("password"), { password: NEW_PASSWORD });
    expect(owner.url.pathname).toMatch(/\/account$/);
    expect((await new Browser().get(person.link)).status).toBe(400);
  });

  it("as JSON: is the step undo, then new-password", async () => {
    const person = await linked();
    const visitor = new JsonVisitor();
    const { body } = await visitor.open(person.link);
    expect(body).toMatchObject({ step: "undo", title: "Unlink Google", actions: [{ name: "submit" }] });
    const next = await visitor.act(body, "submit");
    expect([next.status, next.body.step, await person.count()]).toEqual([200, "new-password", 0]);
  });

  it("leads an account of an organization to its provider, and ends no password [D-PROV-60]", async () => {
    const person = await linked("corp");
    expect(person.mail.text).toContain("You then sign in with the provider of your organization.");
    expect(person.mail.text).not.toContain("password");
    const browser = await new Browser().get(person.link);
    expect(browser.html).toContain("You then sign in with the provider of your organization.");
    await browser.submit(browser.form("csrf"));
    expect([browser.status, browser.url.pathname, await person.count()]).toEqual([
      200,
      expect.stringMatching(/\/interaction\//),
      0,
    ]);
    expect(browser.title).not.toContain("password");
  });
});
