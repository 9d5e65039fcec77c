/** A real browser with its console messages. */
import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { AxeBuilder } from "@axe-core/playwright";
import { afterAll, expect } from "@jest/globals";
import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { atEnd, beforeTests } from "../closing.ts";

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

/** A browser for the tests of a file, which starts with its first page. */
export interface TestBrowser {
  /** A page in a new context, which closes at the end of the test or of the file. What its console complains about fails it. */
  newPage(options?: PageOptions): Promise<Page>;
}

export function useBrowser(): TestBrowser {
  let launched: Promise<Browser> | undefined;
  afterAll(async () => (await launched)?.close());
  return {
    async newPage(options = {}) {
      launched ??= chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
      const context = await (await launched).newContext({ locale: "en-GB", ...options });
      const problems: string[] = [];
      atEnd(async () => {
        await context.close();
        expect(problems).toEqual([]);
      });
      const page = await context.newPage();
      page.on("console", (message) => {
        if (/Content.Security.Policy|Refused/i.test(message.text())) problems.push(message.text());
      });
      page.on("pageerror", (error) => problems.push(error.message));
      return page;
    },
  };
}

/** The page of a client, which shows what was sent there. */
export interface ClientPage {
  /** Where sign-ins come back to. */
  readonly callback: string;
  /** Resolves when the page has got a code. */
  arrived(page: Page): Promise<void>;
}

/** A web server at a free port of the loopback, which closes at the end of the test or of the file. @returns its origin. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export const useClientPage = (): ClientPage =>
  beforeTests(async () => {
    const origin = await serve((request, response) => {
      void text(request).then((body) => {
        const got = `<p id="got">${request.method} ${encodeURI(body)}</p>`;
        response.setHeader("content-type", "text/html");
        return response.end(`<!doctype html><title>Client</title><h1>Client</h1>${got}`);
      });
    });
    const callback = `${origin}/callback`;
    return {
      callback,
      arrived: (page) => page.waitForURL(({ href }) => href.startsWith(`${callback}?code=`)),
    };
  });

/**
 * Waits for a page with this heading, and for all of it: what is read or pressed next is neither on half of it nor on the
 * page before.
 */
export async function heading(page: Page, name: string | RegExp): Promise<void> {
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.waitForLoadState();
}

/** Fills in the login form that is open. */
export async function signIn(page: Page, account: { username: string; password: string }): Promise<void> {
  await page.getByLabel(/user ?name|e-mail/i).fill(account.username);
  await page.getByLabel(/password/i).fill(account.password);
  await page.locator("form:not([data-passkey]) button[type=submit]").click();
}

/** The violations that axe finds, one line per rule. @param rules default: all. */
export async function violations(page: Page, ...rules: string[]): Promise<string[]> {
  await page.waitForLoadState();
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
