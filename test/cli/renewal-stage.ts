/** Everything that can be valid in a storage, and whether it still is. */
import { expect } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TELEVISION } from "../flows/devices.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import {
  type TestClient,
  basic,
  type DeviceCodes,
  send,
  type TestTokens,
} from "../../testing/test-client.ts";
import { ADA, BOB, NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { API, ARTICLES, READER, registerReader, RIGHTS } from "../flows/sample-apis.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { codeIn, linkIn } from "../interactions/self-service.ts";
import type { MailMessage } from "../../config/mail.ts";

const JOB = { client_id: "job", client_secret: "the secret of a machine, of 32 and more" };

/** A person without factors, and one with an app. */
export const EVE = { email: "eve@example.com", username: "eve", password: "the password of eve" };
const MAY = { email: "may@example.com", username: "may", password: "the password of may" };
const NEW_ADDRESS = "eve@new.example.com";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

/** Mail that arrives, while there is a mail server. */
export class Mails {
  readonly sent: MailMessage[] = [];
  isDown = false;

  async send(message: MailMessage): Promise<void> {
    if (this.isDown) throw new Error("no mail server");
    this.sent.push(message);
  }

  /** The newest that is wanted. */
  async until(isWanted: (mail: MailMessage) => boolean): Promise<MailMessage> {
    for (;;) {
      const found = this.sent.findLast(isWanted);
      if (found !== undefined) return found;
      await new Promise((resolve) => void setTimeout(resolve, 10));
    }
  }

  /** What the newest to an address has. */
  async to(address: string, has: (mail: MailMessage) => string): Promise<string> {
    return has(await this.until((mail) => mail.to === address && has(mail) !== ""));
  }
}

export type Config = Omit<SignInServiceConfig, "deployments"> & { readonly storage: string };

export interface Stage {
  readonly running: RunningService;
  readonly mails: Mails;
  /** The `sub` of the person with an app. */
  readonly may: string;
}

export async function startStage(config: Config, mails: Mails, port?: number): Promise<Stage> {
  const running = await startService({
    logsErrors: true,
    config: {
      rateLimits: UNLIMITED,
      mail: mails,
      secondFactor: { remember: 30 },
      notifications: { poll: 0.05, allowedReceivers: ["127.0.0.1"] },
      ...config,
    },
    ...(port !== undefined && { port }),
  });
  const known = await running.service.accounts.findByLogin(MAY.email);
  return { running, mails, may: known?.sub ?? (await prepare({ running })) };
}

/** What the service of the tests needs besides its seed. */
async function prepare({ running }: Pick<Stage, "running">): Promise<string> {
  const { clients, directory, accounts } = running.service;
  await registerReader(running);
  await directory.apis.put(ARTICLES, API);
  await clients.register({
    ...JOB,
    kind: "machine",
    name: "Job",
    service: "2",
    apis: { [ARTICLES]: RIGHTS },
  });
  await clients.register(TELEVISION);
  await accounts.create({ ...EVE, email_verified: true });
  const may = await accounts.create({ ...MAY, email_verified: true });
  await accounts.addApp(may.sub, { secret: SECRET });
  return may.sub;
}

/** Everything that was valid at one moment. */
export interface Held {
  /** Of ada, signed in. */
  readonly session: Browser;
  /** At the sign-in form. */
  readonly running: Browser;
  readonly code: string;
  readonly tokens: TestTokens;
  readonly machine: string;
  readonly device: DeviceCodes;
  readonly pushed: string;
  /** Of may, spared her second factor. */
  readonly remembered: JsonVisitor;
  readonly recoveryCode: string;
  /** Of the next step, which an app with a fast clock shows already. */
  readonly appCode: string;
  readonly resetLink: string;
  /** Of eve's change of address. */
  readonly undoLink: string;
}

const form = (parameters: Record<string, string>) => ({
  method: "POST",
  body: new URLSearchParams(parameters),
});

const ofNews = ({ running }: Stage): TestClient => clientAt(running, "openid", NEWS);

/** Signs may in. @returns the step after the password. */
async function passwordOfMay(stage: Stage, visitor: JsonVisitor) {
  const { body: login } = await visitor.open(
    ofNews(stage).authorizeUrl({ scope: "openid", prompt: "consent" }),
  );
  const { username, password } = MAY;
  return (await visitor.act(login, "submit", { username, password })).body;
}

/** May ticks the box, and signs out. */
async function remember(stage: Stage): Promise<JsonVisitor> {
  const visitor = new JsonVisitor(ofNews(stage).browser());
  const step = await passwordOfMay(stage, visitor);
  const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, Date.now()), remember: "1" });
  await visitor.browser.get(body.location ?? "");
  await visitor.browser.get(`${stage.running.openid}/oauth2/logout`);
  await visitor.browser.submit(visitor.browser.form("logout"), { logout: "yes" });
  return visitor;
}

async function resetLinkOf({ running, mails }: Stage, { username, email }: typeof BOB): Promise<string> {
  const visitor = new JsonVisitor();
  const { body: login } = await visitor.open(clientAt(running, "openid", NEWS).authorizeUrl());
  const { body: asked } = await visitor.act(login, "forgot-password");
  await visitor.act(asked, "submit", { username });
  return mails.to(email, linkIn);
}

/** Eve changes her address. @returns the link to undo it. */
async function moveEve({ running, mails }: Stage): Promise<string> {
  const browser = await new Browser().get(`${running.openid}/account/email`);
  await signIn(browser, EVE);
  await browser.click("Change email address");
  await browser.submit(browser.form("email"), { email: NEW_ADDRESS });
  const code = await mails.to(NEW_ADDRESS, codeIn);
  const typing = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "code"));
  await browser.submit(typing, { code });
  expect(await running.service.accounts.findByLogin(NEW_ADDRESS)).toBeDefined();
  return mails.to(EVE.email, linkIn);
}

/** Gets everything that can be valid. */
export async function holdEverything(stage: Stage): Promise<Held> {
  const { running } = stage;
  const news = ofNews(stage);
  const session = news.browser();
  const { recovery_codes } = await running.service.accounts.resetRecoveryCodes(stage.may);
  const undoLink = await moveEve(stage);
  const held: Held = {
    session,
    tokens: await news.signIn({ ...ADA, browser: session }, { scope: "openid" }),
    code: await news.code({ ...ADA, browser: session }),
    running: await news.browser().get(news.authorizeUrl()),
    machine: String(
      (
        await send(`${running.openid}/oauth2/token`, {
          ...form({ grant_type: "client_credentials", resource: ARTICLES }),
          headers: { authorization: basic(JOB) },
        })
      ).body["access_token"],
    ),
    device: await clientAt(running, "openid", TELEVISION).deviceCodes(),
    pushed: String(
      (
        await send(`${running.openid}/oauth2/par`, {
          ...form({
            client_id: NEWS.client_id,
            response_type: "code",
            redirect_uri: news.redirect_uri,
            scope: "openid",
          }),
          headers: { authorization: basic(NEWS) },
        })
      ).body["request_uri"],
    ),
    remembered: await remember(stage),
    recoveryCode: recovery_codes[0] ?? "",
    appCode: totpCode(SECRET, Date.now() + 30_000),
    resetLink: await resetLinkOf(stage, BOB),
    undoLink,
  };
  return held;
}

/** What of it is still valid, by the kind of record that it depends on. Uses most of it up. */
export async function whatIsValid(stage: Stage, held: Held): Promise<Readonly<Record<string, boolean>>> {
  const { running } = stage;
  const news = ofNews(stage);
  const pushed = new URLSearchParams({ client_id: NEWS.client_id, request_uri: held.pushed });
  const device = await clientAt(running, "openid", TELEVISION).poll(held.device);
  const introspected = await send(`${running.openid}/oauth2/introspect`, {
    ...form({ token: held.machine }),
    headers: { authorization: basic(READER) },
  });
  const fresh = new JsonVisitor(news.browser());
  const asked = await passwordOfMay(stage, fresh);
  const byRecovery = await fresh.act(asked, "recovery", { code: held.recoveryCode });
  const guessing = new JsonVisitor(news.browser());
  const byApp = await guessing.act(await passwordOfMay(stage, guessing), "submit", {
    code: held.appCode,
  });
  const known = await passwordOfMay(stage, held.remembered);
  await held.running.submit(held.running.form("password"), {
    username: ADA.username,
    password: ADA.password,
  });
  const reset = await new Browser().get(held.resetLink);
  const undo = await new Browser().get(held.undoLink);
  return {
    session: (await news.silently(held.session)) === "code",
    interaction: held.running.location?.searchParams.has("code") === true,
    "authorization-code": (await news.exchange(held.code)).status === 200,
    "access-token": (await news.userinfo(held.tokens.access_token)).status === 200,
    "refresh-token": (await news.refresh(held.tokens.refresh_token)).status === 200,
    "client-credentials": introspected.body["active"] === true,
    "device-code": device.body["error"] === "authorization_pending",
    "pushed-authorization-request":
      (await news.browser().get(`${running.openid}/oauth2/authorize?${pushed}`)).status === 200,
    "remembered-browser": known.done === true,
    "recovery-codes": byRecovery.body.done === true,
    "authenticator-app": byApp.body.done === true,
    confirmation: reset.status === 200,
    "undo of a change": undo.status === 200,
  };
}

/** The address that a code for Eve's first factor goes to. */
export async function guardOfEve({ running, mails }: Stage): Promise<string> {
  const browser = await new Browser().get(`${running.openid}/account/sign-in-methods/new-app`);
  await signIn(browser, EVE);
  const before = mails.sent.length;
  await browser.submit(browser.form("action"));
  const sent = await mails.until((mail) => mails.sent.indexOf(mail) >= before && codeIn(mail) !== "");
  return sent.to;
}
