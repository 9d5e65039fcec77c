/** The audit in the console: words, filters, a page for each record, and its export. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { actionGroups } from "../../../administration/console/audit/words.ts";
import { builtInLocales, readTexts } from "../../../core/texts.ts";
import { AUDIT_ACTIONS } from "../../../records/audit/actions.ts";
import { act, openConsole, type RunningConsole, SignedIn, textOf } from "./console-visitor.ts";

let console: RunningConsole;
beforeAll(async () => {
  console = await openConsole();
});

const signedIn = new SignedIn(() => console);
const as: SignedIn["as"] = (role, path) => signedIn.as(role, path);

let people = 0;
async function somebody() {
  people += 1;
  return console.running.service.accounts.create({
    email: `person${people}@example.com`,
    email_verified: true,
    password: "a long password",
  });
}

const auditOf = async (account: string, action: string) =>
  (await console.running.service.audit.list({ account, action })).items;

/** A time as the fields have it, in UTC. */
const local = (minutes: number): string =>
  new Date(console.clock.now() + minutes * 60_000).toISOString().slice(0, 16);

describe("the words of the audit", () => {
  const { translators } = readTexts(builtInLocales(), {});

  it.each([...translators])("in %s name every action, and no two alike [D-ADM-250]", (_locale, t) => {
    const options = actionGroups(t).flatMap((group) => group.options);
    expect(options.map(({ value }) => value).toSorted()).toEqual(Object.keys(AUDIT_ACTIONS).toSorted());
    expect(options.filter(({ value, label }) => value === label)).toEqual([]);
    expect(new Set(options.map(({ label }) => label)).size).toBe(options.length);
  });

  it("stand in groups, and none of them is empty [D-ADM-250]", () => {
    for (const t of translators.values())
      expect(actionGroups(t).filter(({ options }) => options.length === 0)).toEqual([]);
  });
});

describe("the audit", () => {
  it("shows who did what by day, filters, and has a page for each record [D-ADM-157]", async () => {
    const person = await somebody();
    const browser = await as("support", `/people/${person.sub}?do=endSessions`);
    await act(browser);
    await as("support", `/audit?account=${person.sub}`);
    const text = textOf(browser);
    expect(text).toContain("Sessions ended account.sessions_ended grace Support");
    expect(text).toContain("Kept 400 days; sign-ins and failures 90.");
    const day = new Intl.DateTimeFormat("en", { dateStyle: "full", timeZone: "UTC" });
    expect(text).toContain(day.format(console.clock.now()));
    const [record] = await auditOf(person.sub, "account.sessions_ended");
    await as("support", `/audit?account=${person.sub}&action=account.created`);
    expect(textOf(browser)).not.toContain("Sessions ended account");
    expect(textOf(browser)).toContain("1 record");
    // A filter in force can be removed, and all of them.
    expect(textOf(browser)).toMatch(/Account .* Action Account created × .* Remove all filters/u);
    await browser.click("Remove all filters");
    expect(textOf(browser)).toContain("Sessions ended account");
    await as("support", `/audit/${record?.id}`);
    expect([browser.status, textOf(browser)]).toEqual([200, expect.stringContaining(person.sub)]);
    expect((await as("support", "/audit/none")).status).toBe(404);
  });

  it("says how often something was refused and why, and what was changed [D-ADM-251]", async () => {
    const { service, storage } = console.running;
    const person = await somebody();
    await service.accounts.update(person.sub, { surname: "Changed" });
    const browser = await as("viewer", `/audit?account=${person.sub}`);
    expect(textOf(browser)).toMatch(/Account changed: Surname account.updated/u);
    await storage.audit.append({
      actor: { kind: "client", id: "news" },
      action: "client.authentication",
      subject: "news",
      outcome: "failure",
      reason: "credentials",
    });
    await browser.get(`${console.url}/audit?action=client.authentication`);
    expect(textOf(browser)).toMatch(
      /Authentication of a client refused client.authentication Client news news through news Refused wrong secret/u,
    );
    await browser.click("Last hour");
    expect(browser.url.search).toBe("?action=client.authentication&since=1h");
  });

  it.each([
    ["since=1h", 200],
    ["since=7d", 200],
    ["since=2026-01-31T12:00&until=2026-02-01T00:00", 200],
    ["since=yesterday", 422],
    ["action=nothing", 422],
    ["until=9999-99-99T99:99", 422],
  ])("takes the period and the action %s as %i [D-ADM-157]", async (query, status) => {
    expect((await as("support", `/audit?${query}`)).status).toBe(status);
  });
});

describe("the export of the audit", () => {
  it.each([
    ["csv", "text/csv; charset=utf-8"],
    ["jsonl", "application/jsonl"],
  ])(
    "gives administrators a file of what is shown, as %s, and is in the audit itself [D-ADM-252]",
    async (format, type) => {
      const [person, other] = [await somebody(), await somebody()];
      // An export ends before the second in which it is asked for.
      console.clock.advance(1);
      const browser = await as("administrator", `/audit?account=${person.sub}&since=1h`);
      await browser.click("Export these…");
      expect(textOf(browser)).toContain("The export is in the audit itself");
      await act(browser, { format });
      expect([browser.status, browser.headers.get("content-type")]).toEqual([200, type]);
      expect(browser.headers.get("content-disposition")).toMatch(
        new RegExp(`^attachment; filename="audit-[0-9-]{21}\\.${format}"$`, "u"),
      );
      expect(browser.headers.get("cache-control")).toBe("no-store");
      expect(browser.html).toContain("account.created");
      expect(browser.html).toContain(person.sub);
      expect(browser.html).not.toContain(other.sub);
      const { items } = await console.running.service.audit.list({ action: "audit.exported", limit: 1 });
      expect(items[0]).toMatchObject({
        actor: { kind: "operator" },
        detail: { format, of_account: person.sub },
      });
    },
  );

  it("writes cells that spreadsheets would run as texts [D-ADM-252]", async () => {
    const client = "=HYPERLINK(1)";
    await console.running.storage.audit.append({
      actor: { kind: "client", id: "-2+3" },
      action: "client.authentication",
      subject: client,
      detail: { note: "@SUM(1)" },
    });
    console.clock.advance(1);
    const browser = await as("administrator", "/audit?do=export&since=1h&action=client.authentication");
    await act(browser, { format: "csv" });
    const cells = browser.html.split(/[,\r\n]+/u);
    expect(cells).toEqual(expect.arrayContaining(["'=HYPERLINK(1)", "'-2+3"]));
    expect(cells.filter((cell) => /^"?[=+@-]/u.test(cell))).toEqual([]);
  });

  it.each([
    ["without a period", {}, /Choose|must be/u],
    ["of too long a period", { since: -60 * 24 * 40 }, /At most 31 days/u],
    ["that begins in the future", { since: 60 }, /must be before until/u],
  ])("refuses one %s [D-ADM-252]", async (_what, { since }: { since?: number }, said) => {
    const browser = await as("administrator", "/audit?do=export");
    await act(browser, { format: "csv", ...(since !== undefined && { since: local(since) }) });
    expect([browser.status, textOf(browser)]).toEqual([422, expect.stringMatching(said)]);
  });

  it.each(["viewer", "support"] as const)("is not offered to a %s [D-ADM-252]", async (role) => {
    const browser = await as(role, "/audit");
    expect(browser.html).not.toContain("do=export");
    expect((await as(role, "/audit?do=export&since=1h")).status).toBe(403);
  });
});
