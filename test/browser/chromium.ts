/** A real browser with its console messages. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { AxeBuilder } from "@axe-core/playwright";
import { expect } from "@jest/globals";
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page } from "playwright-core";

/** Where test/machine.mjs puts it. */
const CHROMIUM = "/usr/bin/chromium-headless-shell";

const AXE = readFileSync(
  createRequire(import.meta.resolve("@axe-core/playwright")).resolve("axe-core/axe.min.js"),
  "utf8",
);

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export interface PageOptions {
  readonly javaScriptEnabled?: boolean;
  /** Default: 1280 by 720. */
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly userAgent?: string;
}

/** One browser for the tests of a file. */
export class TestBrowser {
  /** The problems reported on consoles since the last reset. */
  readonly problems: string[] = [];
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async launch(): Promise<TestBrowser> {
    return new TestBrowser(await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS }));
  }

  /** A page in a new context, whose console errors are problems. */
  async newPage(options: PageOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext({ locale: "en-GB", ...options });
    this.#contexts.push(context);
    const page = await context.newPage();
    page.on("console", (message) => {
      if (/Content.Security.Policy|Refused/i.test(message.text())) this.problems.push(message.text());
    });
    page.on("pageerror", (error) => this.problems.push(error.message));
    return page;
  }

  /** Closes all pages. @returns the problems there were. */
  async settle(): Promise<string[]> {
    for (const context of this.#contexts.splice(0)) await context.close();
    return this.problems.splice(0);
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

/** Fills in the login form that is open. */
export async function signIn(page: Page, account: { username: string; password: string }): Promise<void> {
  await page.getByLabel(/user ?name|e-mail/i).fill(account.username);
  await page.getByLabel(/password/i).fill(account.password);
  await page.locator("form:not([data-passkey]) button[type=submit]").click();
}

/** The violations that axe finds, one line per rule. @param rules default: all. */
export async function violations(page: Page, ...rules: string[]): Promise<string[]> {
  // The builder would send and compile the source twice for each look at a page.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  // Without frames, the legacy mode finds the same, and needs no second page.
  const builder = new AxeBuilder({ page, axeSource: "void 0" }).setLegacyMode();
  builder.options({ resultTypes: ["violations"] });
  const { violations: found } = await (rules.length > 0 ? builder.withRules(rules) : builder).analyze();
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** Expects that no rule of axe is broken, and that nothing is wider than the window. */
export async function expectUsable(page: Page): Promise<void> {
  expect(await violations(page)).toEqual([]);
  expect(await page.locator("html").evaluate((html) => html.scrollWidth <= html.clientWidth)).toBe(true);
}

/** The authenticator of a page, to be told what its person does. */
export interface PageAuthenticator {
  readonly session: CDPSession;
  readonly authenticatorId: string;
}

/** Gives a page an authenticator that verifies its person and answers at once. */
export async function addAuthenticator(page: Page): Promise<PageAuthenticator> {
  const session = await page.context().newCDPSession(page);
  await session.send("WebAuthn.enable");
  const { authenticatorId } = await session.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return { session, authenticatorId };
}

/** Whether somebody answers at once, whatever the browser asks the authenticator for. */
export async function setPresence(
  { session, authenticatorId }: PageAuthenticator,
  enabled: boolean,
): Promise<void> {
  await session.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled });
}
