/** A service with mail and passkeys, and a person who uses the page "Sign-in methods" over HTTP. */
import { expect } from "@jest/globals";
import type { Factors } from "../../accounts/ways/ways.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import {
  type AnswerOverrides,
  createAuthenticator,
  type TestAuthenticator,
} from "../../testing/authenticator.ts";
import { Browser } from "../../testing/browser/browser.ts";
import type { Form } from "../../testing/browser/forms.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { newStorage } from "../servers/storage.ts";
import type { TestVisitor } from "../../testing/test-client.ts";
import { signIn } from "./clients.ts";
import type { RunningOptions } from "./running-service.ts";
import type { MailMessage } from "../../config/mail.ts";

export const METHODS = "/account/sign-in-methods";

export type FactorKind = "app" | "passkey";

/** Where each factor is added. */
export const NEW: Readonly<Record<FactorKind, string>> = {
  app: "/account/sign-in-methods/new-app",
  passkey: "/account/sign-in-methods/new-passkey",
};

export interface MethodsService extends SelfService {
  readonly clock: TestClock;
}

export async function startMethodsService(
  config: Partial<SignInServiceConfig> = {},
  host?: RunningOptions["host"],
): Promise<MethodsService> {
  const clock = new TestClock();
  const running = await startSelfService(undefined, {
    config: { ...(await newStorage()), clock, secondFactor: { remember: 30 }, ...config },
    ...(host && { host }),
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  });
  return { ...running, clock };
}

/** The text of the page. */
export const textOf = ({ html }: Browser): string =>
  html
    .replace(/^[\s\S]*<main>/, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

/** The form that sends this action. */
export function formOf(browser: Browser, action: string): Form {
  const found = browser
    .forms()
    .find(({ fields }) => fields.some(([name, value]) => name === "action" && value === action));
  if (found === undefined)
    throw new Error(`${browser.url.pathname} (${browser.status}) has no form ${action}`);
  return found;
}

/** What the page asks the browser to make a passkey with. */
function creationOf(browser: Browser): Parameters<TestAuthenticator["create"]>[0] {
  const form = tagsNamed(browser.html, "form").find(({ attributes }) => attributes.has("data-passkey"));
  return JSON.parse(form?.attributes.get("data-passkey") ?? "") as never;
}

let people = 0;

export class MethodsParty {
  readonly running: MethodsService;
  readonly person: TestVisitor & { readonly sub: string; readonly email: string };
  /** Another one for each passkey. */
  readonly #origin: string;
  /** Of the app. */
  secret = "";
  recoveryCodes: readonly string[] = [];

  private constructor(running: MethodsService, person: MethodsParty["person"]) {
    this.running = running;
    this.person = person;
    this.#origin = new URL(running.openid).origin;
  }

  static async create(running: MethodsService): Promise<MethodsParty> {
    people += 1;
    const username = `person${people}`;
    const password = `a password of ${people} own`;
    const email = `${username}@example.com`;
    const created = await running.service.accounts.create({
      email,
      username,
      password,
      email_verified: true,
    });
    return new MethodsParty(running, { username, password, email, sub: created.sub });
  }

  /** A browser that has signed in to the account pages just now, by the password and, if there is one, the app. */
  async browser(path: string = METHODS, base: "openid" | "oauth2" = "openid"): Promise<Browser> {
    const browser = await new Browser().get(this.running[base] + path);
    return this.signIn(browser);
  }

  async signIn(browser: Browser): Promise<Browser> {
    await signIn(browser, this.person);
    if (browser.hasForm("code") && browser.title === "Confirm that it’s you")
      await (this.secret === ""
        ? browser.submit(formOf(browser, "recovery"), { code: this.recoveryCodes.at(-1) ?? "" })
        : browser.submit(browser.forms()[0], { code: this.appCode() }));
    return browser;
  }

  /** A code that was not used yet. */
  appCode(): string {
    this.running.clock.advance(30);
    return totpCode(this.secret, this.running.clock.now());
  }

  mail(to: string = this.person.email): Promise<MailMessage> {
    return this.running.mailTo(to);
  }

  /** The code in the newest mail that has one. Others, such as about a new browser, may come in between. */
  async mailedCode(): Promise<string> {
    for (;;) {
      const code = codeIn(await this.mail());
      if (code !== "") return code;
    }
  }

  /** Opens the page for a new factor, and shows the code from the mail, if it asks for one. */
  async begin(browser: Browser, kind: FactorKind): Promise<Browser> {
    await browser.get(`${this.running.openid}${NEW[kind]}`);
    if (browser.hasForm("set-up")) return browser;
    await browser.submit(formOf(browser, "send"));
    return browser.submit(formOf(browser, "code"), { code: await this.mailedCode() });
  }

  /** Sends what the page for a new factor asks for. */
  async finish(browser: Browser, kind: FactorKind, name = "Phone"): Promise<Browser> {
    if (kind === "app") {
      const secret = /<code class="app-key">([^<]*)/.exec(browser.html)?.[1]?.replaceAll(" ", "") ?? "";
      const code = totpCode(secret, this.running.clock.now());
      await browser.submit(formOf(browser, "app"), { code });
      if (browser.status === 200) this.secret = secret;
    } else {
      const credential = this.newPasskey(browser);
      await browser.submit(formOf(browser, "passkey"), { credential, name });
    }
    const codes = [...browser.html.matchAll(/<li><code>([^<]+)/g)].map(([, code = ""]) => code);
    if (codes.length > 0) this.recoveryCodes = codes;
    return browser;
  }

  /** A new passkey for the page, as its script sends it. */
  newPasskey(browser: Browser, overrides?: AnswerOverrides): string {
    const authenticator = createAuthenticator({ origin: this.#origin });
    return JSON.stringify(authenticator.create(creationOf(browser), overrides));
  }

  async add(browser: Browser, kind: FactorKind, name?: string): Promise<Browser> {
    return this.finish(await this.begin(browser, kind), kind, name);
  }

  async factors(): Promise<Factors> {
    const found = await this.running.service.accounts.factors(this.person.sub);
    expect(found).toBeDefined();
    return found!;
  }

  async actions(): Promise<readonly string[]> {
    const { items: records } = await this.running.service.audit.list({ account: this.person.sub });
    return records.map(({ action }) => action);
  }
}
