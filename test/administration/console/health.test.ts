/** The page of the health of the service: what needs somebody stands first. */
import { expect, it } from "@jest/globals";
import type { Browser } from "../../../testing/browser/browser.ts";
import { openConsole, OPERATORS, type RunningConsole, textOf } from "./console-visitor.ts";

const folded = ({ html }: Browser): string => /<details>([^]*?)<\/details>/u.exec(html)?.[1] ?? "";

/** Sends this many requests of nobody, and waits until they are counted. */
async function refuse({ url, running }: RunningConsole, times: number): Promise<void> {
  for (let sent = 0; sent < times; sent += 1) {
    const counted = new Promise((resolve) => running.service.events.once("administration.answered", resolve));
    const { status } = await fetch(`${url}/v1/health`, { headers: { authorization: "Bearer nobody" } });
    expect(status).toBe(401);
    await counted;
  }
}

it("names operators without a second factor, and counts tokens that end within a week [D-ADM-258]", async () => {
  const console = await openConsole();
  const { service } = console.running;
  const browser = await console.open("administrator", "/health");
  expect(textOf(browser)).not.toMatch(/second factor|end within/u);
  await service.accounts.removeFactors(OPERATORS.viewer.sub);
  await service.tokens.create({ role: "viewer", expires: 86_400 });
  await service.tokens.create({ role: "viewer", expires: 30 * 86_400 });
  await browser.get(`${console.url}/health`);
  expect(textOf(browser)).toMatch(/The operator vera has no second factor, and can’t open the console/u);
  expect(browser.html).toContain(`href="/people/${OPERATORS.viewer.sub}"`);
  expect(textOf(browser)).toContain("1 administration token ends within a week. tokens list");
});

it("says in one sentence that all is well, and when; the rest is folded [D-ADM-306]", async () => {
  const console = await openConsole();
  const browser = await console.open("viewer", "/health");
  expect(textOf(browser)).toMatch(/Everything works\. Checked now \d+ checks passed/u);
  expect(folded(browser)).toContain("Storage: works");
  expect(browser.html.replace(folded(browser), "")).not.toContain('class="checks"');
});

it("counts what the administration refused in the last day, warns of more than 50, and leads to the audit [D-ADM-307] [D-ADM-330]", async () => {
  const console = await openConsole();
  const browser = await console.open("viewer", "/health");
  expect(folded(browser)).toContain("in the last 24 hours: 0 refused, 0 over a limit");
  await refuse(console, 50);
  await browser.get("/health");
  expect(folded(browser)).toContain("in the last 24 hours: 50 refused, 0 over a limit");
  await refuse(console, 1);
  await browser.get("/health");
  expect(textOf(browser)).toMatch(/1 thing needs you Checked now [^]*in the last 24 hours: 51 refused/u);
  expect(folded(browser)).not.toContain("refused");
  // One record says so, with a count, wherever the requests came in.
  await browser.click("Show");
  expect(String(browser.url)).toBe(`${console.url}/audit?action=administration.refused&since=24h`);
  expect(textOf(browser)).toMatch(
    /administration\.refused Nobody signed in [^]*Refused ×51 · no valid token/u,
  );
  const { items } = await console.running.service.audit.list({ action: "administration.refused" });
  expect(items.map(({ count, reason, actor }) => [count, reason, actor.kind])).toEqual([
    [51, "token", "anonymous"],
  ]);
  console.clock.advance(86_400);
  const later = await console.open("viewer", "/health");
  expect(folded(later)).toContain("in the last 24 hours: 0 refused, 0 over a limit");
});

it("has the number of the keys that end beside its entry of the sidebar, on every page [D-ADM-308]", async () => {
  const console = await openConsole();
  const { storage } = console.running;
  const browser = await console.open("viewer", "/people");
  expect(browser.html).not.toContain('class="todo"');
  const soon = console.clock.now() / 1000 + 86_400;
  await storage.keys.change(({ keys }) => ({
    keys: keys.map((key) => ({ ...key, retires_at: Math.floor(soon) })),
    audit: [],
  }));
  await browser.get("/people");
  const todo = /href="\/keys"[^]*?class="todo">(\d+)<span class="unseen"> (\w+)</u.exec(browser.html);
  const { items } = await console.running.service.keys.list();
  expect(todo?.slice(1)).toEqual([String(items.length), "ending"]);
  await browser.get("/health");
  expect(textOf(browser)).toMatch(/stops signing within a week, and none follows/u);
});
