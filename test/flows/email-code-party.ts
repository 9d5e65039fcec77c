/** A service with codes by mail, and people who sign in with them. */
import type { SignInServiceConfig } from "../../config/input.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { beforeTests } from "../closing.ts";
import { atLogin, type JsonAnswer, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { atBoth, clientAt } from "./clients.ts";
import { type KnownClient, NEWS, onLocalhost, SHOP } from "./running-service.ts";

export const PASSWORD = "grapefruit under the stairs";
export const OPERATOR = "0b0f6b3e-5a52-4f0e-9f0e-2f0b6a1f7d11";
/** Of every app. */
export const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
/** Needs a second factor. */
const VAULT: KnownClient = { ...SHOP, client_id: "vault", second_factor: "required" };

export interface Person {
  readonly sub: string;
  readonly email: string;
}

export const namesOf = ({ actions }: JsonAnswer["body"]): readonly string[] =>
  actions.map(({ name }) => name);

export class EmailCodeParty {
  readonly clock = new TestClock();
  readonly running: SelfService;
  readonly clients: Record<"openid" | "oauth2", TestClient>;
  readonly news: TestClient;
  readonly vault: TestClient;
  #people = 0;

  /** Starts before the tests of the file. */
  constructor(config: Partial<SignInServiceConfig> = {}) {
    const { clock } = this;
    const signIn = { emailCode: true };
    const all = {
      clock,
      signIn,
      operators: { [OPERATOR]: "administrator" as const },
      secondFactor: { remember: 30 },
      ...config,
    };
    this.running = beforeTests(async () => {
      const started = await startSelfService(
        { registration: { passwordless: true } },
        { config: all, deployments: onLocalhost },
      );
      await started.service.clients.register(VAULT);
      return started;
    });
    this.clients = atBoth(this.running, NEWS);
    this.news = this.clients.openid;
    this.vault = clientAt(this.running, "openid", VAULT);
  }

  newAddress(): string {
    return `person-${(this.#people += 1)}@example.org`;
  }

  /** Somebody with a password. */
  async person(more: object = {}): Promise<Person> {
    const email = this.newAddress();
    const fields = { email, email_verified: true, password: PASSWORD, ...more };
    const { sub } = await this.running.service.accounts.import(fields);
    return { sub, email };
  }

  /** Somebody with nothing but an address. */
  newcomer(more: object = {}): Promise<Person> {
    return this.person({ password: null, ...more });
  }

  /** Asks for a code. */
  async asking(
    username: string,
    parameters: RequestParameters = {},
    client: TestClient = this.news,
  ): Promise<Waiting> {
    const { visitor, step: login } = await atLogin(client, { scope: "openid", ...parameters });
    const { body: ask } = await visitor.act(login, "email-code");
    return { visitor, step: (await visitor.act(ask, "submit", { username })).body };
  }

  /** The code in the newest message that has one. */
  async mailedCode(to: string): Promise<string> {
    for (;;) {
      const code = codeIn(await this.running.mailTo(to));
      if (code !== "") return code;
    }
  }

  /** A code of an app that was not used yet. */
  appCode(): string {
    this.clock.advance(30);
    return totpCode(SECRET, this.clock.now());
  }

  /** Signs in to the account pages with a code. */
  async atAccount({ email }: Person, base: "openid" | "oauth2" = "openid"): Promise<Browser> {
    const browser = await new Browser().get(`${this.running[base]}/account`);
    await browser.get(`${browser.url.href}/email-code`);
    await browser.submit(browser.form("username"), { username: email });
    return browser.submit(browser.form("code"), { code: await this.mailedCode(email) });
  }
}

export const enter = ({ visitor, step }: Waiting, code: string, more: object = {}): Promise<JsonAnswer> =>
  visitor.act(step, "submit", { code, ...more });
