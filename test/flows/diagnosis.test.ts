/** What support asks and does about one account: why somebody can't sign in, where they are signed in, and a reset by mail. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import type { Diagnosis, SignInCheckCode } from "../../accounts/operations/support.ts";
import type { MailMessage } from "../../config/mail.ts";
import { AUTHENTICATOR_APP } from "../../records/factors/factor-kinds.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { beforeTests } from "../closing.ts";
import { linkIn } from "../interactions/self-service.ts";
import { newStorage } from "../servers/storage.ts";
import { clientAt, signIn } from "./clients.ts";
import { API } from "./sample-apis.ts";
import {
  ADA,
  BOB,
  NEWS,
  onLocalhost,
  PARTNER,
  type RunningService,
  startService,
  UNLIMITED,
  VAULT,
} from "./running-service.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const OPERATOR = { kind: "operator", id: "of-support" } as const;
const BY = { actor: OPERATOR };
const CORP = { issuer: "https://login.corp.example", client_id: "1", name: "Corp ID", trustsEmail: true };

const clock = new TestClock();
const sent: MailMessage[] = [];

const running = beforeTests(async (): Promise<RunningService> => {
  const service = await startService({
    deployments: onLocalhost,
    config: {
      ...(await newStorage()),
      clock,
      rateLimits: {
        ...UNLIMITED,
        signIn: { ...UNLIMITED.signIn, account: { points: 3, seconds: 900 } },
      },
      providers: { corp: { ...CORP, domains: ["corp.example"], only: true } },
      mail: {
        async send(message) {
          if (message.to.startsWith("refused"))
            throw Object.assign(new Error("no such user"), { responseCode: 550, command: "RCPT TO" });
          sent.push(message);
        },
      },
    },
  });
  await service.service.clients.register({ ...VAULT, service: "2" });
  return service;
});

let people = 0;

/** Somebody who can sign in. */
async function somebody(more: object = {}) {
  people += 1;
  const person = { username: `person${people}`, password: `the password of ${people}` };
  const email = `person${people}@example.com`;
  const account = { ...person, email, email_verified: true, ...more };
  const { sub } = await running.service.accounts.create(account);
  return { ...account, sub };
}

async function diagnose(sub: string): Promise<Diagnosis> {
  const found = await running.service.accounts.diagnose(sub);
  if (found === undefined) throw new Error(`there is no account ${sub}`);
  return found;
}

/** The checks that hold. */
const holding = ({ checks }: Diagnosis): readonly string[] =>
  checks.flatMap(({ code, holds }) => (holds ? [code] : []));

const newsOf = () => clientAt(running, "openid", NEWS);

/** Enters a name and a password at the sign-in, and waits for the answer. */
async function enter(name: string, password: string): Promise<Browser> {
  const news = newsOf();
  const browser = await news.browser().get(news.authorizeUrl());
  return signIn(browser, { username: name, password });
}

/** Until the outbox has been emptied. */
async function mailed(): Promise<void> {
  while ((await running.storage.outbox.waiting()).count > 0) await pause(10);
}

/** What stops somebody, and what the check says about it. */
type Case = readonly [
  code: SignInCheckCode,
  arrange: () => Promise<{ readonly sub: string }>,
  expected: object,
  canSignIn: boolean,
];

const now = (): number => Math.floor(clock.now() / 1000);

const CASES: readonly Case[] = [
  [
    "disabled",
    async () => {
      const { sub } = await somebody();
      await running.service.accounts.disable(sub, BY);
      return { sub };
    },
    { since: expect.any(Number), by: OPERATOR, detail: {} },
    false,
  ],
  [
    "no_way_in",
    () => running.service.accounts.create({ email: `none@example.com`, email_verified: true }),
    { since: null, by: null, detail: {} },
    false,
  ],
  [
    "provider_only",
    () => somebody({ email: "grace@corp.example" }),
    { detail: { provider: "corp", domain: "corp.example" } },
    true,
  ],
  [
    "app_stopped",
    async () => {
      const person = await somebody();
      await running.service.accounts.addApp(person.sub, { secret: SECRET });
      const { records } = running.storage;
      await records.transact(async (tx) => {
        const app = await tx.get(AUTHENTICATOR_APP.ref(person.sub));
        tx.put(AUTHENTICATOR_APP.record({ ...app!, wrong_codes: 99 }));
      });
      const browser = await enter(person.username, person.password);
      const right = totpCode(SECRET, clock.now());
      await browser.submit(browser.forms()[0], { code: right.startsWith("0") ? "111111" : "000000" });
      return person;
    },
    { since: expect.any(Number), detail: {} },
    // Recovery codes are left.
    true,
  ],
  [
    "many_failures",
    async () => {
      const person = await somebody();
      const tries = Array.from({ length: 100 }, () =>
        newsOf().password({ username: person.username, password: "wrong" }),
      );
      await Promise.all(tries);
      return person;
    },
    { detail: { failures: 100 } },
    true,
  ],
  [
    "limited",
    async () => {
      const person = await somebody();
      for (let tries = 0; tries < 3; tries += 1) await enter(person.email, "wrong");
      return person;
    },
    { detail: { limit: "signIn.account", until: expect.any(Number) } },
    false,
  ],
  [
    "factor_required",
    async () => {
      const person = await somebody();
      await running.service.accounts.assign(person.sub, "2", null, BY);
      return person;
    },
    { detail: { client: "vault", service: "2" } },
    true,
  ],
  [
    "factor_required",
    async () => {
      const person = await somebody();
      const demanding = { ...API, service: "4", introspection: [], second_factor: "required" } as const;
      await running.service.directory.services.put("4", { name: "Archive" }, BY);
      await running.service.directory.apis.put("https://archive.example", demanding, BY);
      await running.service.accounts.assign(person.sub, "4", null, BY);
      return person;
    },
    { detail: { api: "https://archive.example", service: "4" } },
    true,
  ],
  ["address_unconfirmed", () => somebody({ email_verified: false }), { detail: {} }, true],
  [
    "mail_refused",
    async () => {
      const person = await somebody({ email: "refused@example.com" });
      await running.service.accounts.sendReset(person.sub, BY);
      await mailed();
      return person;
    },
    { since: expect.any(Number), detail: { reason: "refused" } },
    true,
  ],
  [
    "client_disabled",
    async () => {
      const person = await somebody();
      await running.service.accounts.assign(person.sub, "3", null, BY);
      await running.service.clients.disable(PARTNER.client_id, BY);
      return person;
    },
    { since: expect.any(Number), by: OPERATOR, detail: { client: "partner", service: "3" } },
    true,
  ],
  [
    "clear",
    async () => {
      const person = await somebody();
      await enter(person.username, person.password);
      return person;
    },
    { since: expect.any(Number), detail: { client: "news" } },
    true,
  ],
];

describe("accounts.diagnose", () => {
  it.each(CASES)(
    "finds %s, and nothing before it [D-ADM-140, D-ADM-141]",
    async (code, arrange, expected, canSignIn) => {
      const { sub } = await arrange();
      const { headline, can_sign_in, checks } = await diagnose(sub);
      expect([headline, can_sign_in]).toEqual([code, canSignIn]);
      const found = checks.find((each) => each.code === code);
      expect(found).toMatchObject({ holds: true, ...expected });
      expect(checks).toHaveLength(11);
      expect(found?.since ?? now()).toBeLessThanOrEqual(now());
      // Neither a name nor an address.
      expect(JSON.stringify(checks)).not.toMatch(/person\d|@/u);
    },
  );

  it("says who is stopped for several reasons, the worst first, and is silent about other accounts [D-ADM-140, D-ADM-142]", async () => {
    const person = await somebody({ email_verified: false });
    const other = await somebody();
    for (let tries = 0; tries < 3; tries += 1) await enter(person.username, "wrong");
    await running.service.accounts.disable(person.sub, BY);

    expect(holding(await diagnose(person.sub))).toEqual(["disabled", "limited", "address_unconfirmed"]);
    expect(holding(await diagnose(other.sub))).toEqual(["clear"]);
    // Reading consumes no point, and forgets no failure.
    expect((await diagnose(person.sub)).checks.find(({ code }) => code === "limited")?.holds).toBe(true);
    clock.advance(901);
    await running.service.accounts.enable(person.sub, BY);
    expect(holding(await diagnose(person.sub))).toEqual(["address_unconfirmed"]);
  });

  it("forgets a refusal with the next mail that is accepted, and with another address [D-ADM-143]", async () => {
    const person = await somebody({ email: "refused-later@example.com" });
    const { accounts } = running.service;
    await accounts.sendReset(person.sub, BY);
    await mailed();
    expect((await diagnose(person.sub)).headline).toBe("mail_refused");
    await accounts.update(person.sub, { email: "fine@example.com", email_verified: true }, BY);
    expect((await diagnose(person.sub)).headline).toBe("clear");
  });

  it("knows nothing of an account that is not there", async () => {
    const { accounts } = running.service;
    await expect(accounts.diagnose("nobody")).resolves.toBeUndefined();
    await expect(accounts.sessions("nobody")).resolves.toEqual([]);
    await expect(accounts.consents("nobody")).resolves.toEqual([]);
    await expect(accounts.sendReset("nobody", BY)).rejects.toMatchObject({ code: "not_found" });
  });
});

it("accounts.sessions lists the browsers in which somebody is signed in, and none that has ended [D-ADM-144]", async () => {
  const person = await somebody();
  await running.service.accounts.addApp(person.sub, { secret: SECRET });
  const news = newsOf();
  const browser = await news.browser().get(news.authorizeUrl());
  await signIn(browser, person);
  await browser.submit(browser.forms()[0], { code: totpCode(SECRET, clock.now()) });
  const { accounts } = running.service;
  await expect(accounts.sessions(person.sub)).resolves.toEqual([
    {
      first_used_at: now(),
      last_used_at: now(),
      address: "127.0.0.0/24",
      browser: "other",
      system: null,
      amr: expect.arrayContaining(["pwd", "otp"]),
    },
  ]);
  await accounts.endSessions(person.sub, BY);
  await expect(accounts.sessions(person.sub)).resolves.toEqual([]);
});

it("accounts.consents lists what somebody has allowed, since when, and when it was last used [D-ADM-145]", async () => {
  await running.service.clients.enable(PARTNER.client_id, BY);
  const person = await somebody();
  const partner = clientAt(running, "openid", PARTNER);
  const { accounts } = running.service;
  const browser = await partner.browser().get(partner.authorizeUrl({ scope: "openid email" }));
  await signIn(browser, person);
  await browser.submit(browser.form("decision"), { decision: "allow" });
  const code = browser.location?.searchParams.get("code") ?? "";
  const [given, ...others] = await accounts.consents(person.sub);
  expect([given, others]).toMatchObject([
    { client: "partner", name: "Partner", allowed_at: now(), last_used_at: null, apis: {} },
    [],
  ]);
  expect(given?.scopes).toEqual(expect.arrayContaining(["openid", "email"]));
  await partner.exchange(code);
  await expect(accounts.consents(person.sub)).resolves.toMatchObject([{ last_used_at: now() }]);
  await accounts.revokeTokens(person.sub, "partner", BY);
  await expect(accounts.consents(person.sub)).resolves.toEqual([]);
});

describe("accounts.sendReset", () => {
  it("mails a link that works once, and that the operator never sees [D-ADM-146]", async () => {
    const person = await somebody();
    const { accounts, audit } = running.service;
    const result = await accounts.sendReset(person.sub, BY);
    expect(result).toEqual({ sent_at: now(), expires_at: now() + 3600 });
    await mailed();
    const mail = sent.find(({ to }) => to === person.email);
    expect(mail?.text).toContain("The support of");
    // Nobody waits for a code.
    expect(mail?.text).not.toMatch(/^[0-9A-Z]{8}$/mu);
    const [record] = (await audit.list({ account: person.sub, action: "account.reset_sent" })).items;
    expect(record).toMatchObject({ actor: OPERATOR, subject: person.sub, detail: {} });
    const token = new URL(linkIn(mail!)).searchParams.get("token") ?? "";
    expect(JSON.stringify([result, record])).not.toContain(token);
    // The password stays until the link is used.
    await expect(accounts.verifyPassword(person.sub, person.password)).resolves.toBe(true);
    const browser = await new Browser().get(linkIn(mail!));
    await browser.submit(browser.form("password"), { password: "a lighthouse in the fog" });
    await expect(accounts.verifyPassword(person.sub, "a lighthouse in the fog")).resolves.toBe(true);
    await browser.get(linkIn(mail!));
    expect(browser.hasForm("password")).toBe(false);
  });

  it("replaces an earlier link, and works even after a stranger has used up the mail of the address [D-ADM-146]", async () => {
    const person = await somebody();
    const { accounts } = running.service;
    await accounts.sendReset(person.sub, BY);
    await accounts.sendReset(person.sub, BY);
    await mailed();
    const [first, second] = sent.filter(({ to }) => to === person.email).map(linkIn);
    const browser = await new Browser().get(first ?? "");
    expect(browser.hasForm("password")).toBe(false);
    await browser.get(second ?? "");
    expect(browser.hasForm("password")).toBe(true);
  });

  it.each([
    [
      "a disabled account",
      async () => {
        const person = await somebody();
        await running.service.accounts.disable(person.sub, BY);
        return person;
      },
    ],
    ["an account that signs in with its provider only", () => somebody({ email: "alan@corp.example" })],
  ])("is not applicable to %s, and mails nobody [D-ADM-147]", async (_which, arrange) => {
    const { sub, email } = await arrange();
    await expect(running.service.accounts.sendReset(sub, BY)).rejects.toMatchObject({
      code: "not_applicable",
    });
    await mailed();
    expect(sent.filter(({ to }) => to === email)).toEqual([]);
  });
});

it("is not applicable without mail [D-ADM-147]", async () => {
  const silent = await startService();
  await expect(silent.service.accounts.sendReset(silent.ada.sub)).rejects.toMatchObject({
    code: "not_applicable",
  });
  expect((await silent.service.accounts.diagnose(silent.bob.sub))?.headline).toBe("address_unconfirmed");
  expect([ADA.email_verified, BOB.email_verified]).toEqual([true, undefined]);
});

describe("the removal of a factor", () => {
  it.each(["in_person", "called_back", "vouched"] as const)(
    "records how it was checked who asks: %s [D-ADM-148]",
    async (verified_by) => {
      const { sub } = await somebody();
      const { accounts, audit } = running.service;
      await accounts.addApp(sub, { secret: SECRET });
      await addPhone(running, sub, clock);
      await accounts.removeFactor(sub, "app", { verified_by }, BY);
      await accounts.removeFactors(sub, { verified_by }, BY);
      const [all, one] = (await audit.list({ account: sub })).items;
      expect([all, one]).toMatchObject([
        { action: "account.factors_removed", actor: OPERATOR, detail: { verified_by } },
        { action: "account.factor_removed", actor: OPERATOR, detail: { factor: "app", verified_by } },
      ]);
    },
  );

  it("takes no other word", async () => {
    const { sub } = await somebody();
    const { accounts } = running.service;
    await accounts.addApp(sub, { secret: SECRET });
    for (const verified_by of ["by_phone", "<b>", "", null])
      await expect(accounts.removeFactor(sub, "app", { verified_by } as never, BY)).rejects.toMatchObject({
        code: "invalid_argument",
      });
    await expect(accounts.factors(sub)).resolves.toMatchObject({ app: { stopped: false } });
  });
});

it("audit.find shows one record, and none for anything else [D-ADM-149]", async () => {
  const { sub } = await somebody();
  const { audit } = running.service;
  const [record] = (await audit.list({ account: sub })).items;
  await expect(audit.find(record!.id)).resolves.toEqual(record);
  for (const id of ["", "nothing", `${record!.id}0`, "__proto__", "\u0000", "x".repeat(10_000)])
    await expect(audit.find(id)).resolves.toBeUndefined();
});
