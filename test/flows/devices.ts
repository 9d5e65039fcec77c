/** Devices, and the people who connect them. */
import { beforeAll } from "@jest/globals";
import { Browser, type BrowserOptions } from "../../testing/browser/browser.ts";
import { beforeTests, newFolder } from "../closing.ts";
import type { DeviceCodes, TestVisitor } from "../../testing/test-client.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { signIn } from "./clients.ts";
import { ADA, type RunningService, startService, storageIn, UNLIMITED } from "./running-service.ts";
import type { AnyNewClient, NewDeviceClient } from "../../accounts/clients/client-schema.ts";

/** A device with a known id. */
export type KnownDevice = NewDeviceClient & { readonly client_id: string };

/** First-party. */
export const TELEVISION: KnownDevice = {
  kind: "device",
  client_id: "television",
  name: "News on TV",
  service: "1",
};

/** A third party. */
export const FRAME: KnownDevice = {
  kind: "device",
  client_id: "frame",
  name: "Picture frame",
  service: "3",
  first_party: false,
};

/** A service whose time is that of `clock`, and which trusts one proxy. */
export interface DeviceStage {
  readonly clock: TestClock;
  /** Where the database is, on SQLite. */
  readonly folder: string;
  readonly running: RunningService;
}

export function useDevices(clients: readonly AnyNewClient[]): DeviceStage {
  const clock = new TestClock();
  const folder = newFolder();
  const running = beforeTests(async () =>
    startService({ config: { ...(await storageIn(folder)), clock, proxy: true, rateLimits: UNLIMITED } }),
  );
  beforeAll(async () => {
    for (const client of clients) await running.service.clients.register(client);
  });
  return { clock, folder, running };
}

/** A browser of the person, at the page that the device names. */
export async function visit(
  codes: DeviceCodes,
  person: TestVisitor = ADA,
  options: BrowserOptions = {},
): Promise<Browser> {
  const browser = await new Browser(options).get(codes.verification_uri);
  return browser.hasForm("password") ? signIn(browser, person) : browser;
}

/** A browser that has typed the code, and shows what is asked. */
export async function compare(
  codes: DeviceCodes,
  person: TestVisitor = ADA,
  options: BrowserOptions = {},
): Promise<Browser> {
  return enter(await visit(codes, person, options), codes.user_code);
}

export async function connect(codes: DeviceCodes, person: TestVisitor = ADA): Promise<Browser> {
  return decide(await compare(codes, person), "connect");
}

/** Types a code. */
export const enter = (browser: Browser, user_code: string): Promise<Browser> =>
  browser.submit(browser.form("user_code"), { user_code });

/** Answers the question. */
export const decide = (browser: Browser, action: "connect" | "refuse"): Promise<Browser> =>
  browser.submit(browser.form("action"), { action });
