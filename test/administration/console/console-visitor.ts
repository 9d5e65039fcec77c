/** A service with an administration console at an address of its own, and operators who are signed in to it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import type { OperatorRole } from "../../../config/operators.ts";
import { Browser } from "../../../testing/browser/browser.ts";
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

const person = (digit: string, username: string): OperatorAccount => ({
  sub: `${digit}f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f`,
  email: `${username}@example.com`,
  username,
  password: `the password of ${username}`,
  name: username,
});

export const OPERATORS: Readonly<Record<OperatorRole, OperatorAccount>> = {
  administrator: person("1", "zofia"),
  support: person("2", "grace"),
  viewer: person("3", "vera"),
  deliveries: person("4", "dan"),
};

export interface RunningConsole {
  readonly running: RunningService;
  /** The address of the console. */
  readonly url: string;
  /** A browser that is signed in to the console. */
  open(role?: OperatorRole, path?: string): Promise<Browser>;
}

/** Serves a console beside a service. It closes at the end of the test or of the file. @returns its address. */
export async function serveConsole(running: RunningService): Promise<string> {
  const server = createServer({ keepAliveTimeout: 0 });
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const application = new Koa();
  application.use(running.service.administration({ url }));
  const answer = application.callback();
  server.on("request", (request, response) => void answer(request, response));
  return url;
}

/** Starts a service with an operator of each role, who have an authenticator app, and its console. */
export async function openConsole(options: RunningOptions = {}): Promise<RunningConsole> {
  const running = await startService({
    ...options,
    config: {
      operators: Object.fromEntries(
        Object.entries(OPERATORS).map(([role, { sub }]) => [sub, role as OperatorRole]),
      ),
      ...options.config,
    },
  });
  const { accounts } = running.service;
  for (const operator of Object.values(OPERATORS)) {
    await accounts.import({ ...operator, email_verified: true });
    await accounts.addApp(operator.sub, { secret: SECRET });
    // It is new.
    await running.service.operators.confirm(operator.sub);
  }
  const url = await serveConsole(running);
  return {
    running,
    url,
    async open(role = "administrator", path = "/") {
      const browser = new Browser();
      await browser.get(url + path);
      return enter(browser, OPERATORS[role], running.service.configuration.clock.now());
    },
  };
}

/** Fills in the name and the password, and then the code of the app. */
export async function enter(
  browser: Browser,
  { username, password }: Pick<OperatorAccount, "username" | "password">,
  now: number,
): Promise<Browser> {
  await browser.submit(browser.form("password"), { username, password });
  return browser.submit(browser.forms()[0], { code: totpCode(SECRET, now) });
}
