/** Mail to people, over a real mail server. */
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../../config/input.ts";
import {
  createNotificationWorker,
  createSignInService,
  type NotificationWorker,
} from "../../../lib/index.ts";
import { inSeconds } from "../../../core/clock.ts";
import { type NewMail, openMail, sealMail } from "../../../records/people/mail-kinds.ts";
import { createSealer } from "../../../core/sealing.ts";
import { createSignInServiceOver, type SignInService } from "../../../lib/service.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { newFolder, type Running, start } from "../../examples/processes.ts";
import { bodyParts, header, openSmtp, type ReceivedMail, type SmtpServer } from "../../servers/smtp.ts";
import { newStorage } from "../../servers/storage.ts";
import { beforeTests } from "../../closing.ts";

const PASSWORD = "the password of ada";
const BASES = {
  oauth2: { url: "http://127.0.0.1:3999" },
  openid: { url: "http://login.localhost:3999/openid" },
} as const;

const SECRET = randomBytes(32).toString("base64");

let smtp: SmtpServer;
let storage: Storage;
let service: SignInService;
let clock: TestClock;
let log: string[];
let events: unknown[];
const opened: (() => Promise<unknown>)[] = [];

/** One for all tests: each sees what came since its start. */
const server = beforeTests(() => openSmtp());
beforeEach(() => {
  const before = server.received().length;
  smtp = {
    ...server,
    received: () => server.received().slice(before),
    until: async (count) => (await server.until(before + count)).slice(before),
  };
});
afterAll(() => server.close());
afterEach(async () => {
  await Promise.all(opened.splice(0).map((close) => close()));
});

async function openService(
  mail: SignInServiceConfig["mail"],
  more: Partial<SignInServiceConfig> = {},
): Promise<SignInService> {
  log = [];
  events = [];
  clock = new TestClock();
  const config: SignInServiceConfig = {
    deployments: BASES,
    ...(await newStorage()),
    keys: { secrets: [SECRET] },
    ...(mail && { mail }),
    clock,
    logger: pino({}, { write: (line: string) => void log.push(line) }),
    notifications: { poll: 0.02 },
    ...more,
  };
  service = await createSignInServiceOver(config, async (configuration) => {
    storage = await openStorage(configuration);
    return storage;
  });
  opened.push(() => service.close());
  service.events.on("mail.sent", (event) => events.push(event));
  service.events.on("mail.failed", (event) => events.push(event));
  return service;
}

/** An account whose password was just changed, so that its owner gets a mail. */
async function changed(email: string): Promise<string> {
  const { sub } = await service.accounts.create({ email, password: PASSWORD });
  await service.accounts.setPassword(sub, "another password");
  return sub;
}

/** Stores a mail with a code, as somebody asked for who forgot the password. */
async function asked(to: string): Promise<void> {
  const expiresAt = clock.now() + 3_600_000;
  const params = { at: String(clock.now()), code: "K7QM2XTV", link: "a-link-of-a-reset" };
  const mail: NewMail = { kind: "reset-password", to, deployment: "openid", params, expiresAt };
  await storage.outbox.add(sealMail(createSealer([SECRET]), mail, clock.now()));
}

async function eventually(check: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await check()); tries += 1) {
    if (tries > 500) throw new Error(`not within 10 s: ${JSON.stringify(events)}\n${smtp.output()}`);
    await pause(20);
  }
}

const waiting = async (): Promise<string | undefined> =>
  /^sign_in_mail_outbox (\d+)$/m.exec(await service.metrics())?.[1];

/** The metric of the same is read once a second at most. */
const nothingWaits = async (): Promise<boolean> => (await storage.outbox.waiting()).count === 0;

const ids = (mails: readonly ReceivedMail[]): string[] =>
  mails.map((mail) => header(mail, "Message-ID") ?? "none");

/** What nobody else may read: addresses, and what mail says. */
async function revealed(...secrets: readonly string[]): Promise<string[]> {
  const text = `${log.join("\n")}${JSON.stringify(events)}${await service.metrics()}${JSON.stringify(await service.health())}`;
  return secrets.filter((secret) => text.includes(secret));
}

describe("a change of an account", () => {
  it("of the password tells its owner, in text and HTML, with the address of the deployment [D-MAIL-1, D-MAIL-2]", async () => {
    await openService(smtp.url);
    await changed("ada@example.com");
    const [mail] = await smtp.until(1);
    expect(mail).toMatchObject({ from: "no-reply@localhost", to: ["ada@example.com"] });
    expect(header(mail!, "Subject")).toBe("Your password was changed");
    expect(header(mail!, "To")).toBe("ada@example.com");
    expect(header(mail!, "Auto-Submitted")).toBe("auto-generated");
    expect(header(mail!, "Message-ID")).toMatch(/^<[\da-f-]{36}@localhost>$/);
    const parts = bodyParts(mail!);
    expect(Object.keys(parts)).toEqual(["text/plain", "text/html"]);
    for (const part of Object.values(parts)) {
      expect(part).toContain("The password of your account was changed on");
      expect(part).toContain("http://login.localhost:3999/openid/account");
    }
    // Nothing is loaded from anywhere.
    expect(parts["text/html"]).not.toMatch(/<img|<link|<script|src=|url\(|@import/i);
    const urls = [...raw(parts).matchAll(/https?:\/\/[^\s"<]+/g)].map(([url]) => url);
    expect(new Set(urls)).toEqual(new Set(["http://login.localhost:3999/openid/account"]));
    await eventually(async () => (await waiting()) === "0");
    expect(events).toEqual([{ kind: "password-changed" }]);
    await expect(revealed("ada@", "Your password", PASSWORD)).resolves.toEqual([]);
  });

  it("of the address tells both in their language, without the other address or any name [D-MAIL-1, D-LOCALE-1]", async () => {
    await openService(
      { url: smtp.url, from: "Konto <konto@example.org>" },
      { interactions: { locales: ["en", "pl"] } },
    );
    const names = {
      name: "Win a prize at https://spam.example",
      surname: "\u200fevil",
      username: "cheap-pills",
    };
    const { sub } = await service.accounts.create({ email: "old@example.com", locale: "pl", ...names });
    await service.accounts.update(sub, { email: "new@example.com" });
    const mails = await smtp.until(2);
    const [toNew, toOld] = mails.toSorted((one, other) => (one.to[0]! < other.to[0]! ? -1 : 1));
    expect([toNew?.to, toOld?.to]).toEqual([["new@example.com"], ["old@example.com"]]);
    for (const mail of mails) {
      expect(header(mail, "From")).toBe("Konto <konto@example.org>");
      const text = raw(bodyParts(mail));
      expect(text).toContain("Adres e-mail Twojego konta został zmieniony");
      for (const typed of [...Object.values(names), "old@", "new@", "spam"])
        expect(text).not.toContain(typed);
    }
    expect(bodyParts(toOld!)["text/plain"]).toContain("Ten adres nie należy już do konta");
    expect(bodyParts(toNew!)["text/plain"]).toContain("Od teraz do logowania służy ten adres");
    expect(new Set(ids(mails)).size).toBe(2);
  });

  it("sends nothing when it is rolled back, changes nothing of these, or creates the account", async () => {
    await openService(smtp.url);
    const { accounts } = service;
    const { sub } = await accounts.create({ email: "ada@example.com", password: PASSWORD });
    await accounts.import({ email: "eve@example.com" });
    await expect(accounts.update(sub, { email: "eve@example.com" })).rejects.toMatchObject({
      code: "name_taken",
    });
    await expect(accounts.setPassword(sub, "short")).rejects.toMatchObject({ code: "invalid_password" });
    await accounts.update(sub, { email: "ADA@example.com" });
    await accounts.update(sub, { name: "Ada" });
    await accounts.delete(sub);
    await expect(waiting()).resolves.toBe("0");
    await changed("last@example.com");
    await expect(smtp.until(1)).resolves.toMatchObject([{ to: ["last@example.com"] }]);
  });

  it("waits in the order of who waits for it, one for each recipient in turn [D-MAIL-6, D-MAILLIMIT-2]", async () => {
    await openService(smtp.url, { notifications: { worker: false } });
    const sub = await changed("flood@example.com");
    for (let count = 0; count < 12; count += 1)
      await service.accounts.setPassword(sub, `${PASSWORD} ${count}`);
    await changed("ada@example.com");
    for (let count = 0; count < 12; count += 1) await asked("flood@example.com");
    await asked("ada@example.com");
    const sealer = createSealer([SECRET]);
    const claimed = await storage.outbox.claim(100, 1_000, (mail) => openMail(sealer, mail).to);
    const order = claimed.map((mail) => `${mail.kind} ${openMail(sealer, mail).to.split("@")[0]}`);
    expect(order.slice(0, 3)).toEqual(["reset-password flood", "reset-password ada", "reset-password flood"]);
    expect(order.slice(13)).toEqual([
      "password-changed flood",
      "password-changed ada",
      ...Array.from({ length: 9 }, () => "password-changed flood"),
    ]);
  });

  it("stores no mail when none is configured", async () => {
    await openService(undefined);
    await changed("ada@example.com");
    await expect(waiting()).resolves.toBe("0");
  });
});

const raw = (parts: Readonly<Record<string, string>>): string => Object.values(parts).join("\n");

describe("a mail server that does not accept a mail", () => {
  it("for good ends it, and says why without the address", async () => {
    await openService(smtp.url);
    await changed("refused@example.com");
    await eventually(async () => events.length > 0 && (await nothingWaits()));
    expect(events).toEqual([{ kind: "password-changed", reason: "refused", retry_at: null }]);
    await expect(revealed("refused@", "no such person")).resolves.toEqual([]);
    expect(await service.metrics()).toContain(
      'sign_in_mails_total{kind="password-changed",result="failed"} 1',
    );
  });

  it("for now gets it again, after growing pauses [D-MAIL-3]", async () => {
    await openService(smtp.url);
    const first = clock.now();
    await changed("later@example.com");
    await eventually(() => events.length === 1);
    expect(events).toEqual([
      { kind: "password-changed", reason: "delayed", retry_at: inSeconds(first + 10_000) },
    ]);
    clock.advance(9);
    await pause(100);
    expect(events).toHaveLength(1);
    clock.advance(1);
    await eventually(() => events.length === 2);
    expect(events[1]).toMatchObject({ reason: "delayed", retry_at: inSeconds(first + 70_000) });
    clock.advance(60);
    const [mail] = await smtp.until(1);
    expect(mail?.to).toEqual(["later@example.com"]);
    await eventually(nothingWaits);
    await expect(revealed("later@", "greylisted")).resolves.toEqual([]);
  });

  it("because it is down or dies gets it when it is back", async () => {
    const dies = await openSmtp("dies");
    await openService(dies.url);
    await changed("ada@example.com");
    await eventually(() => events.length === 1);
    expect(events).toMatchObject([{ reason: "connection" }]);
    for (const seconds of [10, 60, 300]) {
      clock.advance(seconds);
      const before = events.length;
      await eventually(() => events.length > before);
    }
    const back = await openSmtp("usual", dies.port);
    opened.push(
      () => back.close(),
      () => dies.close(),
    );
    clock.advance(900);
    await back.until(1);
    await eventually(nothingWaits);
    expect(log.filter((line) => line.includes("works again"))).toHaveLength(1);
  });

  it("until it is out of date never gets it", async () => {
    const down = await openSmtp("dies");
    await down.close();
    await openService(down.url);
    await changed("ada@example.com");
    await eventually(() => events.length === 1);
    clock.advance(3 * 86_400 - 30);
    await eventually(() => events.length === 2);
    expect(events[1]).toMatchObject({ reason: "connection", retry_at: null });
    await expect(waiting()).resolves.toBe("0");
    await changed("bob@example.com");
    await eventually(() => events.length === 3);
    clock.advance(3 * 86_400);
    const back = await openSmtp("usual", down.port);
    opened.push(() => back.close());
    await changed("last@example.com");
    await expect(back.until(1)).resolves.toMatchObject([{ to: ["last@example.com"] }]);
  });

  it("for an hour loses nothing, and gets nothing that has expired by then [D-MAIL-3]", async () => {
    const down = await openSmtp("dies");
    await down.close();
    await openService(down.url);
    await asked("late@example.com");
    await changed("ada@example.com");
    await eventually(() => events.length === 2);
    for (const [seconds, failures] of [
      [10, 4],
      [60, 6],
      [300, 8],
      [900, 10],
    ] as const) {
      clock.advance(seconds);
      await eventually(() => events.length === failures);
    }
    const back = await openSmtp("usual", down.port);
    opened.push(() => back.close());
    clock.advance(3_600 - 1_270);
    await asked("new@example.com");
    await back.until(2);
    await pause(200);
    await expect(storage.outbox.nextDue()).resolves.toBeUndefined();
    expect(new Set(back.received().flatMap(({ to }) => to))).toEqual(
      new Set(["ada@example.com", "new@example.com"]),
    );
  });

  it("and never answers holds up nothing else", async () => {
    const silent = await openSmtp("silent");
    opened.push(() => silent.close());
    await openService(`${silent.url}?greetingTimeout=300`);
    await changed("ada@example.com");
    await eventually(() => events.length === 1);
    expect(events).toMatchObject([{ reason: "timeout" }]);
  });
});

describe("mail with a code", () => {
  it("is the same in text and HTML, leads to the deployment, and is told to nobody else [D-REGISTER-6]", async () => {
    await openService(smtp.url);
    await asked("ada@example.com");
    const [mail] = await smtp.until(1);
    const parts = bodyParts(mail!);
    expect(parts["text/plain"]?.replaceAll("\r\n", "\n")).toContain("\n\nK7QM2XTV\n\n");
    for (const part of Object.values(parts)) {
      expect(part).toMatch(/K7QM ?2XTV/);
      expect(part).toContain("http://login.localhost:3999/openid/confirm?token=a-link-of-a-reset");
    }
    expect(header(mail!, "Subject")).toBe("Choose a new password");
    await eventually(nothingWaits);
    expect(events).toEqual([{ kind: "reset-password" }]);
    await expect(revealed("ada@", "K7QM2XTV", "a-link")).resolves.toEqual([]);
  });

  it("has the logo in the message, and names the service as its sender [D-MAIL-2]", async () => {
    const logo = join(import.meta.dirname, "../../../examples/theme/library.png");
    const name = 'Bücher "Ada" <eve@example.com>, \\ Co.';
    await openService(smtp.url, { interactions: { theme: { name, logo } } });
    await asked("ada@example.com");
    const [mail] = await smtp.until(1);
    expect(mail).toMatchObject({ from: "no-reply@localhost", to: ["ada@example.com"] });
    expect(header(mail!, "From")).toMatch(/<no-reply@localhost>$/);
    expect(header(mail!, "Content-Type")).toContain("multipart/alternative");
    expect(bodyParts(mail!)["text/html"]).toContain('src="cid:logo"');
    const image = /\r\nContent-Type: image\/png[^]*?\r\n\r\n([A-Za-z0-9+/=\r\n]+)/.exec(mail!.raw);
    expect(image?.[0]).toMatch(/^Content-Id: <logo>$/im);
    expect(image?.[0]).toMatch(/^Content-Disposition: inline; filename=logo\.png$/im);
    expect(Buffer.from(image?.[1] ?? "", "base64").equals(readFileSync(logo))).toBe(true);
  });

  it("to nobody is taken from the outbox like any other, and not sent", async () => {
    await openService(smtp.url);
    await asked("");
    await asked("last@example.com");
    await smtp.until(1);
    await eventually(nothingWaits);
    expect(smtp.received().map(({ to }) => to)).toEqual([["last@example.com"]]);
    expect(events).toEqual([{ kind: "reset-password" }]);
  });

  it.each([
    "a@example.com\r\nBcc: eve@example.com",
    "a@example.com, eve@example.com",
    "Win! <eve@example.com>",
    "\u202eevil@example.com",
    `${"x".repeat(10_000)}@example.com`,
  ])("to an address such as %j is given up", async (to) => {
    await openService(smtp.url);
    await asked(to);
    await eventually(() => events.length === 1);
    expect(events).toEqual([{ kind: "reset-password", reason: "address", retry_at: null }]);
    expect(smtp.received()).toEqual([]);
  });
});

describe("your own send", () => {
  it("gets the message, and again with the same id if it rejects", async () => {
    const messages: { readonly messageId: string }[] = [];
    await openService((message) => {
      messages.push(message);
      return messages.length === 1 ? Promise.reject(new Error("ada@example.com")) : Promise.resolve();
    });
    await changed("ada@example.com");
    await eventually(() => events.length === 1);
    clock.advance(10);
    await eventually(() => events.length === 2);
    expect(messages[1]).toEqual(messages[0]);
    expect(messages[0]).toEqual({
      messageId: expect.stringMatching(/^<.*@localhost>$/),
      from: "no-reply@localhost",
      to: "ada@example.com",
      subject: "Your password was changed",
      text: expect.stringContaining("was changed on"),
      html: expect.stringContaining("<!doctype html>"),
    });
    expect(events).toMatchObject([{ reason: "unexpected" }, { kind: "password-changed" }]);
    await expect(revealed("ada@")).resolves.toEqual([]);
  });
});

describe("processes", () => {
  let folder: string;
  const running: Running[] = [];
  beforeEach(() => {
    folder = newFolder();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((each) => each.stop("SIGKILL")));
    rmSync(folder, { recursive: true });
  });

  const configOf = (url: string, worker: boolean): SignInServiceConfig => ({
    deployments: BASES,
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    mail: url,
    notifications: { worker, poll: 0.05 },
  });

  async function startProcess(config: SignInServiceConfig, ahead: number, sub?: string): Promise<Running> {
    const args = [JSON.stringify(config), String(ahead), ...(sub === undefined ? [] : [sub])];
    const started = start("test/notifier/mail/mail-process.ts", { args, cwd: folder });
    running.push(started);
    await started.until(/ready/);
    return started;
  }

  async function newAccount(): Promise<string> {
    const app = await createSignInService({
      ...configOf(smtp.url, false),
      logger: pino({ level: "silent" }),
    });
    const { sub } = await app.accounts.create({ email: "ada@example.com", password: PASSWORD });
    await app.close();
    return sub;
  }

  it("that is killed between the commit and the sending sends it after the restart [D-MAIL-3]", async () => {
    const sub = await newAccount();
    const killed = await startProcess(configOf(smtp.url, false), 0, sub);
    await killed.until(/changed/);
    await killed.stop("SIGKILL");
    expect(smtp.received()).toEqual([]);
    await startProcess(configOf(smtp.url, true), 0);
    await expect(smtp.until(1)).resolves.toMatchObject([{ to: ["ada@example.com"] }]);
  });

  it("that is killed after the mail server has it sends it again, with one Message-ID [D-MAIL-3]", async () => {
    const slow = await openSmtp("slow");
    opened.push(() => slow.close());
    const killed = await startProcess(configOf(slow.url, true), 0, await newAccount());
    const [first] = await slow.until(1);
    await killed.stop("SIGKILL");
    const again = await startProcess(configOf(smtp.url, true), 180_000);
    await again.until(/sent/);
    const [second] = await smtp.until(1);
    expect(ids([second!])).toEqual(ids([first!]));
  });

  it("that only deliver send what the others stored, each mail once", async () => {
    const config = configOf(smtp.url, false);
    const logger = pino({ level: "silent" });
    const app = await createSignInService({ ...config, logger });
    const workers: NotificationWorker[] = [];
    for (let count = 0; count < 2; count += 1)
      workers.push(await createNotificationWorker({ ...config, logger }));
    opened.push(() => app.close(), ...workers.map((worker) => () => worker.close()));
    const emails = Array.from({ length: 25 }, (_, number) => `person${number}@example.com`);
    for (const email of emails) {
      const { sub } = await app.accounts.create({ email: `was-${email}` });
      await app.accounts.update(sub, { email });
    }
    const mails = await smtp.until(2 * emails.length);
    await pause(200);
    expect(smtp.received()).toHaveLength(2 * emails.length);
    expect(new Set(ids(mails)).size).toBe(2 * emails.length);
    expect(await app.metrics()).toContain("sign_in_mail_outbox 0");
  });
});
