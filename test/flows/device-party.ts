/** A device as its authors would write it, and the person who connects it. */
import { beforeAll } from "@jest/globals";
import { Browser, type BrowserOptions } from "../../testing/browser/browser.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import { beforeTests, newFolder } from "../closing.ts";
import { TestClock } from "../../testing/test-clock.ts";
import {
  type Answer,
  type Deployments,
  type FormParameters,
  Party,
  type Person,
  signIn,
} from "./relying-party.ts";
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

export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** What a device is told (RFC 8628 section 3.2). */
export interface Codes {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  readonly expires_in: number;
  readonly interval: number;
}

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

export class DeviceParty extends Party<KnownDevice> {
  constructor(at: Deployments, kind: DeploymentKind, client: KnownDevice = TELEVISION) {
    super(at, kind, client);
  }

  request(parameters: FormParameters = {}, headers: HeadersInit = {}): Promise<Answer> {
    return this.post("/oauth2/device", parameters, headers);
  }

  async codes(parameters: FormParameters = {}, headers: HeadersInit = {}): Promise<Codes> {
    const { status, body } = await this.request(parameters, headers);
    if (status !== 200) throw new Error(`no codes: ${status} ${JSON.stringify(body)}`);
    return body as unknown as Codes;
  }

  poll(
    { device_code }: Pick<Codes, "device_code">,
    parameters: FormParameters = {},
    headers: HeadersInit = {},
  ): Promise<Answer> {
    return this.post("/oauth2/token", { grant_type: DEVICE_GRANT, device_code, ...parameters }, headers);
  }

  refresh(refresh_token: unknown, parameters: FormParameters = {}): Promise<Answer> {
    const form = { grant_type: "refresh_token", refresh_token: String(refresh_token), ...parameters };
    return this.post("/oauth2/token", form);
  }

  /** A browser of the person, at the page that the device names. */
  async visit(codes: Codes, person: Person = ADA, options: BrowserOptions = {}): Promise<Browser> {
    const browser = await new Browser(options).get(codes.verification_uri);
    return browser.hasForm("password") ? signIn(browser, person) : browser;
  }

  /** A browser that has typed the code, and shows what is asked. */
  async compare(codes: Codes, person: Person = ADA, options: BrowserOptions = {}): Promise<Browser> {
    const browser = await this.visit(codes, person, options);
    return enter(browser, codes.user_code);
  }

  async connect(codes: Codes, person: Person = ADA): Promise<Browser> {
    return decide(await this.compare(codes, person), "connect");
  }
}

/** Types a code. */
export const enter = (browser: Browser, user_code: string): Promise<Browser> =>
  browser.submit(browser.form("user_code"), { user_code });

/** Answers the question. */
export const decide = (browser: Browser, action: "connect" | "refuse"): Promise<Browser> =>
  browser.submit(browser.form("action"), { action });
