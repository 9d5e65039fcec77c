/** Signing in with a code by mail: as a person, as a program, and as somebody who is not the person. */
import { describe, expect, it } from "@jest/globals";
import { TestClock } from "../../testing/test-clock.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { beforeTests } from "../closing.ts";
import { atLogin, type JsonAnswer, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, startSelfService } from "../interactions/self-service.ts";
import { atBoth } from "./clients.ts";
import { textOf } from "./methods-party.ts";
import { type KnownClient, NEWS, onLocalhost, SHOP } from "./running-service.ts";

const PASSWORD = "grapefruit under the stairs";
const OPERATOR = "0b0f6b3e-5a52-4f0e-9f0e-2f0b6a1f7d11";
const VAULT: KnownClient = { ...SHOP, client_id: "vault", second_factor: "required" };
const PASSWORD_ACR = "urn:sign-in-service:acr:password";

const clock = new TestClock();
const running = beforeTests(async () => {
  const started = await startSelfService(
    { registration: { passwordless: true } },
    {
      config: { clock, signIn: { emailCode: true }, operators: [OPERATOR], secondFactor: { remember: 30 } },
      deployments: onLocalhost,
    },
  );
  await started.service.clients.register(VAULT);
  return started;
});
const clients = atBoth(running, NEWS);
const news = clients.openid;

type Step = JsonAnswer["body"];
let people = 0;

interface Person {
  readonly sub: string;
  readonly email: string;
}

/** Somebody with a password. */
async function person(more: object = {}): Promise<Person> {
  const email = `person-${(people += 1)}@example.org`;
  const fields = { email, email_verified: true, password: PASSWORD, ...more };
  const { sub } = await running.service.accounts.import(fields);
  return { sub, email };
}

const namesOf = ({ actions }: Step): readonly string[] => actions.map(({ name }) => name);

/** Asks for a code. */
async function asking(
  username: string,
  { client = news, ...parameters }: RequestParameters & { readonly client?: typeof news } = {},
): Promise<Waiting> {
  const { visitor, step: login } = await atLogin(client, { scope: "openid", ...parameters });
  const { body: ask } = await visitor.act(login, "email-code");
  return { visitor, step: (await visitor.act(ask, "submit", { username })).body };
}

/** The code in the newest message that has one. */
async function mailedCode(to: string): Promise<string> {
  for (;;) {
    const code = codeIn(await running.mailTo(to));
    if (code !== "") return code;
  }
}

const enter = ({ visitor, step }: Waiting, code: string, more: object = {}) =>
  visitor.act(step, "submit", { code, ...more });

describe("a code by mail", () => {
  it.each(["openid", "oauth2"] as const)(
    "signs in at the deployment %s, on pages without a script [D-MAILCODE-1]",
    async (deployment) => {
      const { email } = await person();
      const client = clients[deployment];
      const browser = await client.browser().get(client.authorizeUrl({ scope: "openid" }));
      const [, link = ""] = /<a href="([^"]*\/email-code)">Email me a code instead</.exec(browser.html) ?? [];
      await browser.get(new URL(link, browser.url).href);
      expect([browser.title, browser.forms().length]).toEqual(["Sign in with a code", 1]);
      await browser.submit(browser.form("username"), { username: email });
      expect(browser.title).toBe("Enter your code");
      expect(textOf(browser)).toContain(
        "If there is an account with this name, a message with a code is on its way to its email address. The code works for ten minutes, and only in this browser.",
      );
      expect(browser.html).toContain('autocomplete="one-time-code"');
      // Reloading shows the same.
      await browser.get(browser.url.href);
      expect(browser.title).toBe("Enter your code");
      await browser.submit(browser.form("code"), { code: (await mailedCode(email)).toLowerCase() });
      await client.tokensOf(browser);
    },
  );

  it("is in the JSON interface, with the name as typed, and says amr and acr [D-MAILCODE-1, D-MAILCODE-8]", async () => {
    const { email, sub } = await person();
    const typed = ` ${email.toUpperCase()} `;
    const waiting = await asking(typed);
    expect(waiting.step).toMatchObject({
      step: "email-code",
      title: "Enter your code",
      username: typed.trim(),
      fields: [{ name: "code", autocomplete: "one-time-code" }],
    });
    expect(namesOf(waiting.step)).toEqual(["submit", "resend", "change", "login", "register"]);
    const { body: done } = await enter(waiting, await mailedCode(email));
    await expect(waiting.visitor.claims(news, done.location)).resolves.toMatchObject({
      sub,
      amr: ["email"],
      acr: PASSWORD_ACR,
    });
  });
});
