/** Signing in with a provider in a real browser: with and without a script, on a phone in the dark, and with the name first. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type ProviderParty, startWithProvider } from "../flows/provider-party.ts";
import { ADA } from "../flows/running-service.ts";
import { heading, useBrowser, useClientPage, violations } from "./chromium.ts";

const ADA_THERE = { sub: "ada-there", email: "ada@corp.example" };
const browser = useBrowser();
const client = useClientPage();
let party: ProviderParty;

beforeAll(async () => {
  party = await startWithProvider({ name: "Corp ID", domains: ["corp.example"] });
  await party.service.clients.update("news", { redirect_uris: [client.callback] });
  await party.link(party.ada.sub, ADA_THERE);
  party.provider.signIn(ADA_THERE);
});

const authorize = (more: Readonly<Record<string, string>> = {}): string => {
  const query = { client_id: "news", response_type: "code", redirect_uri: client.callback, ...more };
  return `${party.oauth2}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
};

describe.each([
  ["with JavaScript", true],
  ["without JavaScript", false],
])("a phone in the dark %s", (_name, javaScriptEnabled) => {
  it("goes to the provider and back, which comes first the next time [D-PROV-141, D-PROV-142]", async () => {
    const page = await browser.newPage({ javaScriptEnabled, viewport: { width: 390, height: 844 } });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.goto(authorize());
    await page.getByRole("button", { name: "Sign in with Corp ID" }).click();
    await page.waitForURL(`${client.callback}?**`);
    await page.goto(authorize({ prompt: "login" }));
    await page.getByText("Last time in this browser:").waitFor();
    const [first] = await page.getByRole("button").allInnerTexts();
    expect(first?.trim()).toBe("Sign in with Corp ID");
    if (javaScriptEnabled) expect(await violations(page)).toEqual([]);
  });

  it("asks for the name first, and signs in after the password [D-PROV-145]", async () => {
    const page = await browser.newPage({ javaScriptEnabled, viewport: { width: 390, height: 844 } });
    await page.goto(authorize());
    await page.getByLabel("Username or email address").fill("grace@corp.example");
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("button", { name: "Continue to Corp ID" }).waitFor();
    await page.getByRole("button", { name: "Use another" }).click();
    await page.getByRole("button", { name: "Continue", exact: true }).waitFor();
    await page.getByLabel("Username or email address").fill(ADA.username);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.locator("input[name=password]").fill(ADA.password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.waitForURL(`${client.callback}?**`);
  });

  it("goes there from the page of a hint, by a press only [D-PROV-151]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize({ provider_hint: "corp" }));
    await heading(page, "Sign in with Corp ID");
    await page.getByRole("button", { name: "Continue to Corp ID" }).click();
    await page.waitForURL(`${client.callback}?**`);
  });
});
