/** The page of the health of the service: what needs somebody stands first. */
import { expect, it } from "@jest/globals";
import { openConsole, OPERATORS, textOf } from "./console-visitor.ts";

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
