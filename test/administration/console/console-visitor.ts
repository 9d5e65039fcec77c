/** A service with an administration console at an address of its own, and operators who are signed in to it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import type { OperatorRole } from "../../../config/operators.ts";
import { AUTHENTICATOR_APP } from "../../../records/factors/factor-kinds.ts";
import { Browser } from "../../../testing/browser/browser.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { totpCode } from "../../../testing/totp-code.ts";
import { atEnd } from "../../closing.ts";
import { type RunningOptions, type RunningService, startService } from "../../flows/running-service.ts";

export const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

/** Somebody who can sign in to the console. */
export interface OperatorAccount {
  readonly sub: string;
  readonly email: string;
  readonly username: string;
  readonly password: string;
  readonly name: string;
}

const operatorAs = (digit: string, username: string): OperatorAccount => ({
  sub: `${digit}f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f`,
  email: `${username}@example.com`,
  username,
  password: `the password of ${username}`,
  name: username,
});

export const OPERATORS: Readonly<Record<OperatorRole, OperatorAccount>> = {
  administrator: operatorAs("1", "zofia"),
  support: operatorAs("2", "grace"),
  viewer: operatorAs("3", "vera"),
  deliveries: operatorAs("4", "dan"),
};

export interface RunningConsole {
  readonly running: RunningService;
  readonly clock: TestClock;
  /** The address of the console. */
  readonly url: string;
  /** The service that it is beside now. */
  current(): RunningService;
  /** Puts it beside another service, as after a restart. */
  use(next: RunningService): void;
  /** A browser that is signed in to the console, at this path. */
  open(role?: OperatorRole, path?: string): Promise<Browser>;
  /** Fills in the sign-in that is open. */
  enter(browser: Browser, person: Pick<OperatorAccount, "username" | "password">): Promise<Browser>;
}

/**
 * Serves a console beside a service. It closes at the end of the test or of the file.
 * @param running the service, or what says which one it is now.
 * @returns its address.
 */
export async function serveConsole(
  running: RunningService | (() => RunningService),
  port: number = 0,
): Promise<string> {
  const server = createServer({ keepAliveTimeout: 0 });
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => void server.listen(port, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const application = new Koa();
  if (typeof running !== "function") application.use(running.service.administration({ url }));
  else application.use((ctx, next) => running().service.administration({ url })(ctx, next));
  const answer = application.callback();
  server.on("request", (request, response) => void answer(request, response));
  return url;
}

/** Starts a service with an operator of each role, who have an authenticator app, and its console. */
export async function openConsole({ config, ...options }: RunningOptions = {}): Promise<RunningConsole> {
  const clock = new TestClock();
  const roles = Object.entries(OPERATORS).map(([role, { sub }]) => [sub, role as OperatorRole]);
  const running = await startService({
    ...options,
    config: { operators: Object.fromEntries(roles), clock, ...config },
  });
  const { accounts } = running.service;
  for (const operator of Object.values(OPERATORS)) {
    await accounts.import({ ...operator, email_verified: true });
    await accounts.addApp(operator.sub, { secret: SECRET });
    // It is new.
    await running.service.operators.confirm(operator.sub);
  }
  // A first factor opens the console after a day.
  clock.advance(90_000);
  let current = running;
  const url = await serveConsole(() => current);
  const signIn: RunningConsole["enter"] = (browser, person) => {
    clock.advance(30);
    return enter(browser, person, clock.now());
  };
  return {
    running,
    clock,
    url,
    current: () => current,
    use: (next) => void (current = next),
    async open(role = "administrator", path = "/") {
      const browser = new Browser();
      await browser.get(url + path);
      return signIn(browser, OPERATORS[role]);
    },
    enter: signIn,
  };
}

/** Fills in the name and the password, and then the code of the app, if it is asked for. A code works once. */
export async function enter(
  browser: Browser,
  { username, password }: Pick<OperatorAccount, "username" | "password">,
  now: number,
): Promise<Browser> {
  await browser.submit(browser.form("password"), { username, password });
  const [form] = browser.forms();
  return browser.hasForm("code") ? browser.submit(form, { code: totpCode(SECRET, now) }) : browser;
}

/** Browsers that stay signed in, one for each role: signing in costs more than anything else here. */
export class SignedIn {
  readonly browsers = new Map<OperatorRole, Browser>();
  readonly #console: () => RunningConsole;
  constructor(console: () => RunningConsole) {
    this.#console = console;
  }

  /** The browser of this role, at this path. */
  async as(role: OperatorRole, path: string): Promise<Browser> {
    const known = this.browsers.get(role);
    const console = this.#console();
    if (known !== undefined) return known.get(console.url + path);
    const browser = await console.open(role, path);
    this.browsers.set(role, browser);
    return browser;
  }
}

/** The text of the page, without the frame. */
export const textOf = ({ html }: Pick<Browser, "html">): string =>
  html
    .replace(/^[\s\S]*<main/u, "")
    .replaceAll(/<[^>]+>/gu, " ")
    .replaceAll(/\s+/gu, " ");

/** Sends the form of the page of an operation. */
export const act = (browser: Browser, fields: Readonly<Record<string, string>> = {}): Promise<Browser> =>
  browser.submit(
    browser.forms().find(({ action }) => action.search.includes("do=")),
    fields,
  );

/** Somebody has entered so many wrong codes that the app takes no more. */
export async function stopApp({ storage }: RunningService, sub: string): Promise<void> {
  await storage.records.transact(async (tx) => {
    const app = await tx.get(AUTHENTICATOR_APP.ref(sub));
    if (app !== undefined) tx.put(AUTHENTICATOR_APP.record({ ...app, wrong_codes: 100 }));
  });
}
