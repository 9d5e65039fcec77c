/** Signing in to the console: by the service itself, with two factors, by operators only. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { openConsole, type RunningConsole } from "./console-visitor.ts";

let console: RunningConsole;
beforeAll(async () => {
  console = await openConsole();
});

describe("an operator", () => {
  it("signs in and sees the clients", async () => {
    const browser = await console.open("administrator", "/clients");
    expect([browser.url.href, browser.status, browser.title]).toEqual([
      `${console.url}/clients`,
      200,
      "Clients",
    ]);
    expect(browser.html).toContain("News");
  });
});
