/**
 * The offer of a passkey after an ordinary sign-in: who gets it, what declining means, and what nobody can
 * skip.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { AccountInternals } from "../../accounts/account.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { createAuthenticator } from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { type JsonAnswer, JsonVisitor, atLogin, type Waiting } from "../interactions/json-visitor.ts";
import { startSelfService, TERMS } from "../interactions/self-service.ts";
import { MethodsParty, type MethodsService, startMethodsService } from "./methods-party.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { type KnownClient, NEWS, onLocalhost, startService, storageIn, VAULT } from "./running-service.ts";

const [, MFA = "", PASSKEY = ""] = KNOWN_ACRS;
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const DAY = 86_400;

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

type Config = Partial<SignInServiceConfig>;

async function start(config: Config = {}): Promise<MethodsService> {
  const running = await startMethodsService(config);
  open.unshift(running);
  return running;
}

/** A new person at a new service. */
async function person(config: Config = {}): Promise<MethodsParty> {
  return MethodsParty.create(await start(config));
}

interface At {
  readonly running?: MethodsService;
  readonly client?: KnownClient;
  readonly parameters?: RequestParameters;
  readonly visitor?: JsonVisitor;
  /** What the device says about itself. */
  readonly device?: Readonly<Record<string, string | boolean>>;
  /** Sent with the code of the app. */
  readonly factor?: Readonly<Record<string, string | boolean>>;
}

const newsAt = (running: MethodsService, client = NEWS): TestClient => clientAt(running, "openid", client);

/** Enters the password, and the code of the app, if there is one, on a device that can make a passkey. */
async function entered(
  party: MethodsParty,
  { running = party.running, client = NEWS, parameters = {}, ...at }: At = {},
): Promise<Waiting> {
  const { device = { can_add_passkey: true }, factor = {} } = at;
  const news = newsAt(running, client);
  const visitor = at.visitor ?? new JsonVisitor(news.browser());
  const { body: login } = await visitor.open(news.authorizeUrl({ scope: "openid", ...parameters }));
  const { username, password } = party.person;
  const { body: step } = await visitor.act(login, "submit", { username, password, ...device });
  if (step.step !== "second-factor" || party.secret === "") return { visitor, step };
  const { body } = await visitor.act(step, "submit", { code: party.appCode(), ...factor });
  return { visitor, step: body };
}

async function offered(party: MethodsParty, at?: At): Promise<Waiting> {
  const waiting = await entered(party, at);
  expect([waiting.step.step, waiting.step.actions.map(({ name }) => name)]).toEqual([
    "offer-passkey",
    ["submit", "later", "never"],
  ]);
  expect(hasSession(waiting.visitor)).toBe(false);
  return waiting;
}

const hasSession = ({ browser }: JsonVisitor): boolean =>
  browser.jar.all().some(({ name }) => /_session|_device/.test(name));

const act = async ({ visitor, step }: Waiting, name: string, values = {}): Promise<Waiting> => ({
  visitor,
  step: (await visitor.act(step, name, values)).body,
});

/** At the step that accepting leads to. */
async function accepted(party: MethodsParty, to: "enrol-confirm" | "enrol", at?: At): Promise<Waiting> {
  let waiting = await act(await offered(party, at), "submit");
  expect([waiting.step.step, waiting.step.title]).toEqual(["enrol-confirm", "Add a passkey"]);
  if (to === "enrol") waiting = await act(waiting, "submit", { code: await party.mailedCode() });
  expect(waiting.step.step).toBe(to);
  return waiting;
}

function post({ visitor, step }: Waiting, name: string, values: object): Promise<JsonAnswer> {
  const { href = "" } = step.actions.find((each) => each.name === name) ?? {};
  return visitor.post(href, { csrf: step.csrf, ...values });
}

async function addPasskey(waiting: Waiting, { openid }: MethodsService): Promise<Waiting> {
  const { passkey } = waiting.step;
  if (passkey === undefined) throw new Error("no passkey is asked for");
  const credential = createAuthenticator({ origin: new URL(openid).origin }).create(passkey.publicKey);
  const { body: step } = await post(waiting, "passkey", { credential, name: "Phone" });
  return { ...waiting, step };
}

async function claimsOf({ visitor, step }: Waiting, running: MethodsService) {
  await visitor.browser.get(step.location ?? "");
  const code = visitor.browser.location?.searchParams.get("code") ?? "";
  return decodeJwt(String((await newsAt(running).exchange(code)).body["id_token"]));
}

const accountsOf = ({ service }: MethodsService) =>
  service.accounts as typeof service.accounts & AccountInternals;

describe("the offer of a passkey", () => {
  it("comes before the end of a sign-in, and accepting leads to a passkey", async () => {
    const party = await person();
    const waiting = await accepted(party, "enrol");
    // A passkey was offered, and nothing else.
    expect(waiting.step.app).toBeUndefined();
    expect(waiting.step.actions.map(({ name }) => name)).toEqual(["passkey", "later", "login"]);
    const codes = await addPasskey(waiting, party.running);
    expect([codes.step.step, codes.step.recovery_codes?.length]).toEqual(["recovery-codes", 10]);
    // Now there is a second factor, so its codes have to be kept.
    expect(codes.step.actions.map(({ name }) => name)).toEqual(["submit", "renew"]);
    expect(hasSession(codes.visitor)).toBe(false);
    const { body: step } = await post(codes, "submit", { kept: true });
    await expect(claimsOf({ ...codes, step }, party.running)).resolves.toMatchObject({ acr: PASSKEY });
    expect((await party.factors()).passkeys).toHaveLength(1);
    // A person who has a passkey is asked for it.
    expect((await entered(party)).step.step).toBe("second-factor");
    expect(await party.actions()).toEqual(
      expect.arrayContaining(["account.passkey_added", "account.passkey_offered"]),
    );
  });

  it("of an account with an app needs no mail, and the app stays", async () => {
    const party = await person();
    await party.running.service.accounts.addApp(party.person.sub, { secret: SECRET });
    party.secret = SECRET;
    const mails = party.running.sent.length;
    const waiting = await act(await offered(party), "submit");
    expect(waiting.step.step).toBe("enrol");
    const done = await addPasskey(waiting, party.running);
    expect(done.step.done).toBe(true);
    await expect(claimsOf(done, party.running)).resolves.toMatchObject({ acr: PASSKEY });
    await expect(party.factors()).resolves.toMatchObject({ app: {}, passkeys: [{ name: "Phone" }] });
    expect(party.running.sent.slice(mails).map(({ text }) => /^[0-9A-Z]{8}$/m.test(text))).not.toContain(
      true,
    );
  });

  it.each(["offer-passkey", "enrol-confirm", "enrol"] as const)(
    "is declined at %s: the sign-in ends",
    async (at) => {
      const party = await person();
      const waiting = at === "offer-passkey" ? await offered(party) : await accepted(party, at);
      const done = await act(waiting, "later");
      expect(done.step.done).toBe(true);
      await expect(claimsOf(done, party.running)).resolves.toMatchObject({ amr: ["pwd"] });
      expect((await party.factors()).passkeys).toEqual([]);
    },
  );

  it.each([
    ["later", 1],
    ["never", 0],
  ] as const)("that was answered by %s comes again after 30 days so often: %i", async (answer, times) => {
    const folder = mkdtempSync(join(tmpdir(), "offer-passkey-"));
    open.push({ close: async () => rmSync(folder, { recursive: true }) });
    const storage = await storageIn(folder);
    const party = await person(storage);
    const { clock } = party.running;
    const other = await start({ ...storage, clock });
    expect((await act(await offered(party), answer)).step.done).toBe(true);
    // At another process, on another device.
    clock.advance(30 * DAY - 60);
    expect((await entered(party, { running: other })).step.done).toBe(true);
    clock.advance(120);
    expect((await entered(party, { running: other })).step.step).toBe(
      times === 1 ? "offer-passkey" : undefined,
    );
    expect((await entered(party)).step.done).toBe(true);
  });

  it("that nobody answered is not repeated at the next sign-in", async () => {
    const party = await person();
    const { visitor } = await offered(party);
    expect((await entered(party)).step.done).toBe(true);
    // Where it was shown, it waits.
    expect((await visitor.get()).body.step).toBe("offer-passkey");
  });
});

const ESSENTIAL: RequestParameters = {
  claims: JSON.stringify({ id_token: { acr: { essential: true, value: MFA } } }),
};

describe("nobody is offered a passkey", () => {
  it.each<[string, At, string]>([
    ["whose device says nothing", { device: {} }, "done"],
    ["without a script", { device: { can_add_passkey: "" } }, "done"],
    ["whose device can't", { device: { can_add_passkey: false } }, "done"],
    ["who says something else", { device: { can_add_passkey: "1" } }, "done"],
    ["with prompt=login", { parameters: { prompt: "login" } }, "done"],
    ["with max_age", { parameters: { max_age: "3600" } }, "done"],
    ["with acr_values", { parameters: { acr_values: MFA } }, "done"],
    ["with an essential acr", { parameters: ESSENTIAL }, "enrol-confirm"],
    ["at a client that needs a second factor", { client: VAULT }, "enrol-confirm"],
  ])("%s", async (_who, at, next) => {
    const party = await person();
    await party.running.service.clients.register(VAULT);
    const { step } = await entered(party, at);
    expect(step.done ? "done" : step.step).toBe(next);
    expect(step.actions?.map(({ name }) => name) ?? []).not.toContain("later");
    expect(await party.actions()).not.toContain("account.passkey_offered");
  });

  it("where it is turned off", async () => {
    const party = await person({ secondFactor: { offer: false } });
    expect((await entered(party)).step.done).toBe(true);
  });

  it.each([
    ["no mail is sent", () => startService({ deployments: onLocalhost })],
    ["passkeys are off, because the host is an IP address", () => startSelfService()],
  ])("where %s", async (_why, begin) => {
    const running = await begin();
    open.unshift(running);
    const party = await MethodsParty.create({ ...running, clock: new TestClock() } as MethodsService);
    expect((await entered(party)).step.done).toBe(true);
  });

  it("who has to accept terms: not in the same sign-in", async () => {
    const party = await person({ interactions: { registration: { terms: TERMS } } });
    const terms = await entered(party);
    expect(terms.step.step).toBe("terms");
    const { body } = await post(terms, "submit", { terms: TERMS.version, can_add_passkey: true });
    expect(body.done).toBe(true);
    expect((await entered(party)).step.step).toBe("offer-passkey");
  });

  it("who has a passkey, or is not asked for the app in this browser", async () => {
    const party = await person();
    const { accounts } = party.running.service;
    await accounts.addApp(party.person.sub, { secret: SECRET });
    party.secret = SECRET;
    const visitor = new JsonVisitor(newsAt(party.running).browser());
    const remembered = await entered(party, { visitor, device: {}, factor: { remember: "1" } });
    await visitor.browser.get(remembered.step.location ?? "");
    await visitor.browser.get(`${party.running.openid}/oauth2/logout`);
    await visitor.browser.submit(visitor.browser.form("logout"), { logout: "yes" });
    const again = await entered(party, { visitor });
    // A password alone adds nothing.
    expect(again.step.done).toBe(true);
    await addPasskey(await act(await offered(party), "submit"), party.running);
    expect((await entered(party)).step.done).toBe(true);
  });

  it("who says it at another step, or has just used a recovery code", async () => {
    const party = await person();
    const { accounts } = party.running.service;
    const { recovery_codes } = await accounts.addApp(party.person.sub, { secret: SECRET });
    const lost = await entered(party);
    const [code = ""] = recovery_codes;
    expect((await post(lost, "recovery", { code, can_add_passkey: true })).body.done).toBe(true);
    party.secret = SECRET;
    const late = await entered(party, { device: {}, factor: { can_add_passkey: true } });
    expect(late.step.done).toBe(true);
    expect(await party.actions()).not.toContain("account.passkey_offered");
  });

  it("on the way to the account pages, and where they ask for the password again", async () => {
    const party = await person();
    const visitor = new JsonVisitor();
    const { username, password } = party.person;
    for (const step of ["login", "reauthenticate"]) {
      const { body } = await visitor.open(`${party.running.openid}/account/password`);
      expect(body.step).toBe(step);
      const { body: next } = await visitor.act(body, "submit", { username, password, can_add_passkey: true });
      expect(next.done).toBe(true);
      await visitor.browser.get(next.location ?? "");
      party.running.clock.advance(600);
    }
  });
});

describe("a client that needs a second factor by now", () => {
  const { second_factor } = VAULT;

  it.each([
    ["offer-passkey", "later"],
    ["offer-passkey", "never"],
    ["enrol-confirm", "later"],
    ["enrol", "later"],
  ] as const)("gets one, whatever is answered: %s, %s", async (at, answer) => {
    const party = await person();
    const { clients } = party.running.service;
    const { second_factor: _none, ...plain } = VAULT;
    await clients.register(plain);
    const news = { client: VAULT };
    const waiting = at === "offer-passkey" ? await offered(party, news) : await accepted(party, at, news);
    await clients.update(VAULT.client_id, { second_factor });
    const next = await act(waiting, answer);
    expect(next.step.step).toBe("enrol-confirm");
    expect(next.step.title).toBe("Secure your account");
    expect(next.step.actions.map(({ name }) => name)).toEqual(["submit", "resend", "login"]);
    const { href = "" } = next.step.actions[0] ?? {};
    for (const [path, status] of [
      [`${href}?action=later`, 400],
      [`${href}?action=never`, 400],
      [href.replace("enrol-confirm", "offer-passkey?action=later"), 200],
      [href.replace("enrol-confirm", "enrol?action=later"), 200],
      [href.replace("enrol-confirm", "recovery-codes"), 200],
    ] as const) {
      const answered = await next.visitor.post(path, { csrf: next.step.csrf, kept: true });
      expect([path, answered.status, answered.body.done]).toEqual([path, status, undefined]);
    }
    expect((await next.visitor.get()).body.step).toBe("enrol-confirm");
    expect(hasSession(next.visitor)).toBe(false);
  });
});

describe("somebody who has only the password", () => {
  it("adds nothing without the code from the mail, whatever is posted where", async () => {
    const party = await person();
    const waiting = await offered(party);
    const base = waiting.step.actions[0]?.href.split("/offer-passkey")[0] ?? "";
    for (const [path, values] of [
      ["/enrol?action=passkey", { credential: {}, name: "Evil" }],
      ["/enrol?action=later", {}],
      ["/enrol-confirm?action=later", {}],
      ["/enrol-confirm", { code: "00000000" }],
      ["/recovery-codes", { kept: true }],
      ["/second-factor", { code: "000000" }],
      ["/terms", { terms: "1" }],
    ] as const) {
      const { status, body } = await waiting.visitor.post(base + path, {
        csrf: waiting.step.csrf,
        ...values,
      });
      expect([path, status, body.step]).toEqual([path, 200, "offer-passkey"]);
    }
    const confirm = await act(waiting, "submit");
    const early = await confirm.visitor.post(`${base}/enrol?action=passkey`, { csrf: confirm.step.csrf });
    expect(early.body.step).toBe("enrol-confirm");
    expect((await party.factors()).passkeys).toEqual([]);
  });

  it("can't answer before the password, nor in the sign-in of somebody else", async () => {
    const party = await person();
    const news = newsAt(party.running);
    const { visitor: stranger, step: login } = await atLogin(news);
    for (const action of ["submit", "later", "never"]) {
      const { href = "" } = login.actions[0] ?? {};
      const { body } = await stranger.post(`${href}/offer-passkey?action=${action}`, { csrf: login.csrf });
      expect(body.step).toBe("login");
    }
    const { step } = await offered(party);
    const { href = "" } = step.actions.find(({ name }) => name === "later") ?? {};
    expect((await stranger.post(href, { csrf: step.csrf })).status).toBe(410);
    const bob = await offered(await MethodsParty.create(party.running));
    const { href: own = "" } = bob.step.actions.find(({ name }) => name === "never") ?? {};
    expect((await bob.visitor.post(own, { csrf: step.csrf })).status).toBe(403);
  });

  it.each([
    ["submit", "login", "nothing else"],
    ["submit", "login", "an app"],
    ["later", undefined, "nothing else"],
    ["never", undefined, "nothing else"],
  ] as const)(
    "has five minutes to say yes, and the rest of the sign-in to say no: %s %s, with %s",
    async (answer, next, factor) => {
      const party = await person();
      if (factor === "an app") {
        await party.running.service.accounts.addApp(party.person.sub, { secret: SECRET });
        party.secret = SECRET;
      }
      const waiting = await offered(party);
      party.running.clock.advance(301);
      const { step } = await act(waiting, answer);
      expect([step.step, step.notice?.code]).toEqual([next, next && "begin-anew"]);
      if (next === undefined) expect(step.done).toBe(true);
    },
  );

  it.each(["submit", "later", "never"])("begins anew after the end of all sessions: %s", async (answer) => {
    const party = await person();
    const waiting = await offered(party);
    await party.running.service.accounts.endSessions(party.person.sub);
    const { step, visitor } = await act(waiting, answer);
    expect([step.step, step.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(hasSession(visitor)).toBe(false);
    expect(await party.actions()).not.toContain("account.passkey_offer_declined");
  });
});

describe("at the same moment", () => {
  it("one of two sign-ins asks, at two processes", async () => {
    const folder = mkdtempSync(join(tmpdir(), "offer-passkey-"));
    open.push({ close: async () => rmSync(folder, { recursive: true }) });
    const storage = await storageIn(folder);
    const first = await start(storage);
    const second = await start({ ...storage, clock: first.clock });
    for (let round = 0; round < 3; round += 1) {
      const party = await MethodsParty.create(first);
      const both = await Promise.all([first, second].map((running) => entered(party, { running })));
      expect(both.map(({ step }) => step.step ?? "done").toSorted()).toEqual(["done", "offer-passkey"]);
      const actions = await party.actions();
      expect(actions.filter((action) => action === "account.passkey_offered")).toHaveLength(1);
    }
  });

  it("several answers end the sign-in once", async () => {
    const party = await person();
    const { visitor, step } = await offered(party);
    const answers = await Promise.all(["later", "never", "later"].map((name) => visitor.act(step, name)));
    // Those that came before the first one was stored lead to the same end, which can be reached once.
    const ends = new Set(answers.flatMap(({ body }) => (body.done === true ? [body.location] : [])));
    expect(ends.size).toBe(1);
    await visitor.browser.get([...ends][0] ?? "");
    expect((await visitor.act(step, "later")).status).toBe(410);
  });

  it("a refusal and another change of the account are both kept", async () => {
    const party = await person();
    const accounts = accountsOf(party.running);
    const { sub } = party.person;
    const declined = Promise.all([
      accounts.update(sub, { name: "Ada" }),
      accounts.offerPasskey(sub, SYSTEM),
      accounts.declinePasskeyOffer(sub, SYSTEM),
      accounts.update(sub, { surname: "Byron" }),
    ]);
    await declined;
    await expect(accounts.record(sub)).resolves.toMatchObject({
      name: "Ada",
      surname: "Byron",
      ways: { passkey_offer: { declined: true } },
    });
    party.running.clock.advance(400 * DAY);
    await expect(accounts.offerPasskey(sub, SYSTEM)).resolves.toBe(false);
    await expect(accounts.offerPasskey("nobody", SYSTEM)).resolves.toBe(false);
    await expect(accounts.declinePasskeyOffer("nobody", SYSTEM)).resolves.toBe(false);
    expect(await accounts.find(sub)).not.toHaveProperty("ways");
  });
});
