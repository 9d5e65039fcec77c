/** A person with an app and a passkey whose password is reset by mail, over the JSON interface. */
import { expect } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { TestAuthenticator } from "../../testing/authenticator.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { JsonVisitor, publicKeyOf, atLogin, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn } from "../interactions/self-service.ts";
import { type MethodsService, startMethodsService } from "./methods-party.ts";
import type { TestClient, TestVisitor } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, NEWS, type RunningOptions } from "./running-service.ts";
import type { MailMessage } from "../../config/mail.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

/** Ada with the passwords that the tests choose. */
export const NEW = { username: ADA.username, password: "a lighthouse in the fog" };
export const LATER = { username: ADA.username, password: "a second lighthouse in the fog" };

export class ResetParty {
  readonly running: MethodsService;
  readonly news: TestClient;
  /** Has the passkey. */
  readonly phone: TestAuthenticator;

  private constructor(running: MethodsService, phone: TestAuthenticator) {
    this.running = running;
    this.news = clientAt(running, "openid", NEWS);
    this.phone = phone;
  }

  static async open(
    config?: Partial<SignInServiceConfig>,
    host?: RunningOptions["host"],
  ): Promise<ResetParty> {
    const running = await startMethodsService(config, host);
    const { sub } = running.ada;
    await running.service.accounts.addApp(sub, { secret: SECRET });
    return new ResetParty(running, await addPhone(running, sub, running.clock));
  }

  /** The newest mail to Ada that has something. */
  async mailWith(found: (mail: MailMessage) => boolean): Promise<MailMessage> {
    for (;;) {
      const mail = await this.running.mailTo(ADA.email);
      if (found(mail)) return mail;
    }
  }

  /** Somebody who reads the mail of Ada chooses a new password. They are back at `login`. */
  async reset({ password }: TestVisitor = NEW): Promise<Waiting> {
    const { visitor, step: login } = await atLogin(this.news, { scope: "openid" });
    const { body: asked } = await visitor.act(login, "forgot-password");
    const { body: fresh } = await visitor.act(asked, "submit", { username: ADA.username });
    const code = codeIn(await this.mailWith((mail) => codeIn(mail) !== ""));
    const { body: step } = await visitor.act(fresh, "submit", { code, password });
    expect([step.step, step.notice?.code]).toEqual(["login", "password-changed"]);
    return { visitor, step };
  }

  /** After the password. */
  async entered(
    { username, password }: TestVisitor = NEW,
    party: TestClient = this.news,
    visitor: JsonVisitor = new JsonVisitor(party.browser()),
  ): Promise<Waiting> {
    const { body: login } = await visitor.open(party.authorizeUrl({ scope: "openid" }));
    const { body: step } = await visitor.act(login, "submit", { username, password });
    return { visitor, step };
  }

  /** A code that was not used yet. */
  appCode(): string {
    const { clock } = this.running;
    clock.advance(30);
    return totpCode(SECRET, clock.now());
  }

  /** After the password and the code. */
  async shown(person?: TestVisitor, party?: TestClient): Promise<Waiting> {
    const { visitor, step } = await this.entered(person, party);
    expect(step.step).toBe("second-factor");
    const { body } = await visitor.act(step, "submit", { code: this.appCode() });
    return { visitor, step: body };
  }

  /** After a passkey alone. */
  async byPasskey(): Promise<Waiting> {
    const { visitor, step: login } = await atLogin(this.news, { scope: "openid" });
    const credential = this.phone.get(publicKeyOf(login));
    const { body: step } = await visitor.act(login, "passkey", { credential });
    return { visitor, step };
  }

  /** A person who looks at the methods, after a reset. */
  async looking(person?: TestVisitor, party?: TestClient): Promise<Waiting> {
    const found = await this.shown(person, party);
    expect(found.step.step).toBe("review-methods");
    return found;
  }
}
