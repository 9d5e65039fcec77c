/** What the pages of a person say about what is stored, in words that people understand. */
import { describe, expect, it } from "@jest/globals";
import { overviewView } from "../../../interactions/account/overview.ts";
import { sessionsView } from "../../../interactions/account/sessions.ts";
import { tagsNamed } from "../../../testing/browser/html.ts";
import { pagesWith } from "../every-page.ts";

const NOW = Date.UTC(2026, 8, 21, 14, 20);
const MONTH = 2_592_000;

const pages = pagesWith();
const person = { name: "Ada Lovelace", email: "ada@example.com" };
const common = {
  base: "",
  action: "/account",
  csrf: "c",
  person,
  navigation: ["home", "profile", "email", "password", "sessions", "services", "delete"].map((page) => ({
    page,
    href: `/account/${page}`,
    isCurrent: page === "home",
  })),
  now: NOW,
};
const password = { hash: "x", generation: 0 };
const account = { sub: "1", email_verified: true, username: "ada", ways: { password } };

type Overview = Parameters<typeof overviewView.locals>[1];
const overview: Overview = { ...common, account, browsers: 1, services: [] };

/** The text of a part of a page. */
const textOf = (html = ""): string =>
  html
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
const mainOf = (html: string): string => html.replace(/^[\s\S]*<main>/, "");

/** The rows of the overview by where they lead. */
function rows(changes: Partial<Overview>, locale = "en"): Map<string, string> {
  const html = pages.render(overviewView, { locale }, { ...overview, ...changes });
  const links = mainOf(html).matchAll(/<a href="\/account\/(\w+)">([\s\S]*?)<\/a>/g);
  return new Map([...links].map(([, page = "", text]) => [page, textOf(text)]));
}

describe("the overview", () => {
  it.each<[Partial<Overview>, string, string]>([
    [{}, "profile", "Profile Ada Lovelace · ada"],
    [
      { person: { ...person, name: "" }, account: { ...account, username: null } },
      "profile",
      "Profile Name, username, date of birth, language",
    ],
    [{}, "email", "Email address ada@example.com"],
    [
      { account: { ...account, email_verified: false } },
      "email",
      "Email address ada@example.com – not confirmed yet",
    ],
    [{}, "password", "Password Choose a new password"],
    [
      { account: { ...account, ways: { password: { ...password, hash: null, changed_at: 0 } } } },
      "password",
      "Password No password",
    ],
    [
      { account: { ...account, ways: { password: { ...password, changed_at: NOW / 1000 - 3 * MONTH } } } },
      "password",
      "Password Changed 3 months ago",
    ],
    [{}, "sessions", "Where you are signed in Only in this browser"],
    [{ browsers: 2 }, "sessions", "Where you are signed in 2 browsers"],
    [{}, "services", "Connected services No services yet."],
    [{ services: ["News", "Video", "Radio"] }, "services", "Connected services News, Video, and Radio"],
    [
      { services: ["News", "Video", "Radio", "Shop"] },
      "services",
      "Connected services News, Video, and 2 more",
    ],
  ])("says what is set: %j, %s", (changes, page, text) => {
    expect(rows(changes).get(page)).toBe(text);
  });

  it("counts in the forms of the language", () => {
    const forms = [2, 5, 22].map((browsers) => rows({ browsers }, "pl").get("sessions")?.match(/\d.*/)?.[0]);
    expect(forms).toEqual(["2 przeglądarki", "5 przeglądarek", "22 przeglądarki"]);
  });

  it.each([
    ["Ada Lovelace", "AL"],
    ["ada king lovelace", "AL"],
    ["Ada", "A"],
    ["", "A"],
    ["👩‍🔬 Łucja", "👩‍🔬Ł"],
  ])("shows the initials of %j: %s", (name, initials) => {
    const html = pages.render(overviewView, { locale: "en" }, { ...overview, person: { ...person, name } });
    const avatar = tagsNamed(html, "span").find(({ attributes }) => attributes.get("class") === "avatar");
    expect(avatar?.text).toBe(initials);
  });
});

describe("a session", () => {
  const session = { uid: "1", firstUse: NOW / 1000 - 200, lastUse: NOW / 1000 - 100 };

  it.each([
    ["192.0.2.0/24", "192.0.2.0/24", "On this network"],
    ["192.0.2.0/24", "198.51.100.0/24", "On another network"],
    ["2001:db8:1::/48", "192.0.2.0/24", "On another network"],
    [undefined, "192.0.2.0/24", "Last used 1 minute ago First used"],
    ["192.0.2.0/24", undefined, "Last used 1 minute ago First used"],
  ])("last used from %s and seen from %s: %s", (last, network, text) => {
    const shown = { session: { ...session, ...(last !== undefined && { address: last }) }, isThis: false };
    const html = pages.render(
      sessionsView,
      { locale: "en" },
      { ...common, network, sessions: [shown], remembered: [], now: NOW },
    );
    expect(textOf(mainOf(html))).toContain(text);
    expect(html).not.toMatch(/\/24|\/48|192\.0|2001:db8/);
  });
});
