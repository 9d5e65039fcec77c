/**
 * The sign-in methods that a person looks at after a reset: who sees them, who can't skip them, and what a removal there does.
 * Each time somebody has less than the owner: only the mailbox, the old password, a passkey, or a browser left open.
 */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import type { MethodsService } from "../flows/methods-party.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { LATER, NEW, ResetParty } from "../flows/reset-party.ts";
import { ADA, BOB, CALLBACK, type KnownClient, UNLIMITED } from "../flows/running-service.ts";
import { type JsonAnswer, JsonVisitor, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, linkIn } from "../interactions/self-service.ts";

const [, MFA] = KNOWN_ACRS;
const VAULT: KnownClient = {
  client_id: "vault",
  client_secret: "the secret of the vault, of 32 and more",
  name: "Vault",
  service: "2",
  redirect_uris: [CALLBACK],
  second_factor: "required",
};

let party: ResetParty;
let running: MethodsService;
let news: TestClient;

/** Ada has an app and a passkey. */
async function open(config?: Partial<SignInServiceConfig>): Promise<void> {
  party = await ResetParty.open(config);
  ({ running, news } = party);
}
beforeEach(() => open());

type Step = JsonAnswer["body"];

const kinds = ({ methods = [] }: Step): readonly string[] => methods.map(({ kind }) => kind);
const idOf = ({ methods = [] }: Step, kind: string): string =>
  methods.find((each) => each.kind === kind)?.id ?? "";
const remove = ({ visitor, step }: Waiting, kind: string): Promise<JsonAnswer> =>
  visitor.act(step, "remove", { method: idOf(step, kind) });
const codesOf = ({ status, body }: JsonAnswer) => [status, body.problems.map(({ code }) => code)];

const hasSession = ({ browser }: JsonVisitor): boolean =>
  browser.jar.all().some(({ name }) => /_session/.test(name));

async function claimsOf({ visitor, step }: Waiting) {
  expect(step.done).toBe(true);
  return visitor.claims(news, step.location);
}

/** Goes on from the list. */
async function goesOn({ visitor, step }: Waiting): Promise<Waiting> {
  const { body } = await visitor.act(step, "submit");
  return { visitor, step: body };
}

const silently = ({ visitor }: Waiting): Promise<string | null | undefined> => news.silently(visitor.browser);

async function actions(): Promise<readonly string[]> {
  const { items: records } = await running.service.audit.list({ account: running.ada.sub, limit: 100 });
  return records.map(({ action }) => action);
}
const count = async (action: string): Promise<number> =>
  (await actions()).filter((each) => each === action).length;
const looks = (): Promise<number> => count("account.factors_reviewed");

async function factors() {
  const found = await running.service.accounts.factors(running.ada.sub);
  return { app: found?.app !== null, passkeys: found?.passkeys.length };
}
const BOTH = { app: true, passkeys: 1 };

describe("the next sign-in after a reset", () => {
  it("shows what signs in, once everything is shown, and goes on when the person does [D-FACTOR-41]", async () => {
    await party.reset();
    const { visitor, step } = await party.looking();
    const at = Math.floor(running.clock.now() / 1_000);
    expect(step.methods).toEqual([
      expect.objectContaining({ id: "app", kind: "app", label: "Authenticator app", last_used_at: at }),
      expect.objectContaining({ kind: "passkey", label: "Phone", last_used_at: null }),
    ]);
    expect(step.methods?.[1]?.text).toMatch(/^Passkey · Added .* UTC · Never used$/);
    expect(step.fields).toMatchObject([{ name: "method", type: "select", required: false }]);
    expect(step.fields[0]?.options?.map(({ value }) => value)).toEqual(step.methods?.map(({ id }) => id));
    // No credential id of an authenticator.
    expect(JSON.stringify(step)).not.toContain(party.phone.ids[0]);
    expect(hasSession(visitor)).toBe(false);
    expect((await visitor.get()).body).toEqual({
      ...step,
      again: expect.any(String),
      expires_in: expect.any(Number),
    });
    const claims = await claimsOf(await goesOn({ visitor, step }));
    expect(claims).toMatchObject({ amr: ["pwd", "otp", "mfa"], acr: MFA });
    expect(await silently({ visitor, step })).toBe("code");
    expect((await party.shown()).step.done).toBe(true);
    expect(await looks()).toBe(1);
  });

  it("shows the browser that this very sign-in has remembered, which spares nobody the list", async () => {
    await party.reset();
    const { visitor, step } = await party.entered();
    const { body } = await visitor.act(step, "submit", { code: party.appCode(), remember: "1" });
    expect(kinds(body)).toEqual(["app", "passkey", "browser"]);
    expect(body.methods?.[2]).toMatchObject({ label: "Unknown browser", expires_at: expect.any(Number) });
    // Abandoned: the browser is remembered, but is still asked for everything.
    const again = await party.entered(NEW, news, new JsonVisitor(visitor.browser));
    expect(again.step.step).toBe("second-factor");
    const { body: list } = await again.visitor.act(again.step, "submit", { code: party.appCode() });
    const forgotten = await remove({ ...again, step: list }, "browser");
    expect([forgotten.body.notice?.code, kinds(forgotten.body)]).toEqual([
      "browser-forgotten",
      ["app", "passkey"],
    ]);
    await claimsOf(await goesOn({ ...again, step: forgotten.body }));
    expect(await count("account.factor_removed")).toBe(0);
  });

  it("shows it by the link of a reset in another browser, and after an undone change of address [D-FACTOR-41]", async () => {
    const { sub } = running.ada;
    const owner = await party.shown(ADA);
    await claimsOf(owner);
    const { browser } = owner.visitor;
    await browser.get(`${running.openid}/account/email/new`);
    await browser.submit(browser.form("email"), { email: "thief@example.com" });
    const theirs = codeIn(await running.mailTo("thief@example.com"));
    const form = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "code"));
    await browser.submit(form, { code: theirs });
    await expect(running.service.accounts.find(sub)).resolves.toMatchObject({ email: "thief@example.com" });
    const link = linkIn(await party.mailWith(({ text }) => text.includes("restores this address")));
    const visitor = new JsonVisitor();
    const { body: undo } = await visitor.open(link);
    const { body: choose } = await visitor.act(undo, "submit");
    const { body: done } = await visitor.act(choose, "submit", { password: NEW.password });
    expect(done.done).toBe(true);
    await goesOn(await party.looking());
    expect((await party.shown()).step.done).toBe(true);
  });

  it("of an account without a second factor shows nothing", async () => {
    await running.service.accounts.removeFactors(running.ada.sub);
    await party.reset();
    expect((await party.entered()).step.done).toBe(true);
  });

  it("shows it after a passkey alone; that does not use it up for the owner of the new password", async () => {
    await party.reset();
    const thief = await party.byPasskey();
    expect(kinds(thief.step)).toEqual(["app", "passkey"]);
    await claimsOf(await goesOn(thief));
    expect((await party.byPasskey()).step.done).toBe(true);
    const owner = await party.looking();
    expect((await goesOn(owner)).step.done).toBe(true);
    expect((await party.shown()).step.done).toBe(true);
    expect(await looks()).toBe(2);
  });

  it("is asked again after one that was abandoned, in the same sign-in too", async () => {
    await party.reset();
    const { visitor, step } = await party.looking();
    const { body: login } = await visitor.get(step.actions[0]!.href.replace("review-methods", "login"));
    expect(login.step).toBe("login");
    const { body: factor } = await visitor.act(login, "submit", { ...NEW });
    const { body: again } = await visitor.act(factor, "submit", { code: party.appCode() });
    expect(again.step).toBe("review-methods");
    expect(await news.silently(visitor.browser)).toBe("login_required");
    await goesOn(await party.looking());
    expect(await looks()).toBe(1);
  });
});

describe("somebody without everything", () => {
  it("with only the mailbox reaches the second factor, and gets no further [D-FACTOR-40]", async () => {
    const { visitor, step: login } = await party.reset();
    const { body: step } = await visitor.act(login, "submit", { ...NEW });
    expect(step.step).toBe("second-factor");
    const base = step.actions[0]!.href.replace(/\/second-factor.*$/, "");
    for (const [path, values] of [
      ["/review-methods", {}],
      ["/review-methods?action=remove", { method: "app" }],
      ["/terms", { terms: "1" }],
      ["/recovery-codes", { kept: true }],
    ] as const) {
      const answer = await visitor.post(`${base}${path}`, { csrf: step.csrf, ...values });
      expect([path, answer.body.step, answer.body.methods]).toEqual([path, "second-factor", undefined]);
      expect((await visitor.get(`${base}${path}`)).body.methods).toBeUndefined();
    }
    expect([await factors(), hasSession(visitor), await looks()]).toEqual([BOTH, false, 0]);
  });

  it("with the old password in a running sign-in begins anew", async () => {
    const password = await party.entered(ADA);
    const passkey = await party.byPasskey();
    expect([password.step.step, passkey.step.done]).toEqual(["second-factor", true]);
    await party.reset();
    const { body } = await password.visitor.act(password.step, "submit", { code: party.appCode() });
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    const wrong = await password.visitor.act(body, "submit", {
      username: ADA.username,
      password: ADA.password,
    });
    expect(codesOf(wrong)).toEqual([400, ["wrong"]]);
    expect(hasSession(password.visitor)).toBe(false);
  });

  it("with a session or a remembered browser from before has neither any more", async () => {
    const { visitor, step } = await party.entered(ADA);
    const { body } = await visitor.act(step, "submit", { code: party.appCode(), remember: "1" });
    const before = { visitor, step: body };
    await claimsOf(before);
    expect(await silently(before)).toBe("code");
    await party.reset();
    expect(await silently(before)).toBe("login_required");
    const again = await party.entered(NEW, news, new JsonVisitor(visitor.browser));
    expect(again.step.step).toBe("second-factor");
    expect(await looks()).toBe(0);
  });

  it("with the password at the password grant gets nothing, and uses nothing up", async () => {
    await party.reset();
    const refused = await news.password(NEW);
    expect(refused.body["error"]).toBe("invalid_grant");
    await party.looking();
  });
});

/** What a program posts instead of going on from the list. */
const SHORT_CUTS: readonly [string, string, Readonly<Record<string, unknown>>][] = [
  ["the bare address", "", {}],
  ["terms", "/terms", { terms: "1" }],
  ["consent", "/consent?action=allow", {}],
  ["continue", "/continue", {}],
  ["second-factor", "/second-factor", { code: "000000" }],
  ["enrol", "/enrol?action=app", { code: "000000" }],
  ["recovery-codes", "/recovery-codes", { kept: true }],
  ["confirm-email", "/confirm-email", { code: "00000000" }],
  ["an action of another step", "/review-methods?action=recovery", { code: "00000-00000" }],
];

describe("the list", () => {
  beforeEach(async () => void (await party.reset()));

  it.each(SHORT_CUTS)("is not skipped by %s", async (_what, path, values) => {
    const { visitor, step } = await party.looking();
    const base = step.actions[0]!.href.replace(/\/review-methods$/, "");
    const answer = await visitor.post(`${base}${path}`, { csrf: step.csrf, ...values });
    expect(answer.body.done).toBeUndefined();
    expect((await visitor.get(`${base}/review-methods`)).body.step).toBe("review-methods");
    expect([hasSession(visitor), await silently({ visitor, step })]).toEqual([false, "login_required"]);
    expect([await factors(), await looks()]).toEqual([BOTH, 0]);
  });

  it("belongs to one sign-in, one browser and one account", async () => {
    const { visitor, step } = await party.looking();
    const stranger = await party.entered(BOB);
    const other = await party.looking();
    for (const { href } of step.actions) {
      const values = { csrf: step.csrf, method: "app" };
      expect((await stranger.visitor.post(href, values)).status).toBe(410);
      expect((await other.visitor.post(href, values)).status).toBe(410);
      expect((await visitor.post(href, { ...values, csrf: other.step.csrf })).status).toBe(403);
      const headers = { origin: "https://evil.example" };
      expect((await visitor.post(href, values, { headers })).status).toBe(403);
    }
    expect([await factors(), await looks()]).toEqual([BOTH, 0]);
  });

  it("is left once by two tabs at the same moment, and by two browsers each for itself", async () => {
    const { visitor, step } = await party.looking();
    const tabs = await Promise.all([visitor.act(step, "submit"), visitor.act(step, "submit")]);
    // Both may learn where the one sign-in continues.
    const told = tabs.flatMap(({ body }) => (body.done ? [body.location] : []));
    expect([new Set(told).size, await looks()]).toEqual([1, 1]);
    await party.reset(LATER);
    const browsers = [await party.looking(LATER), await party.looking(LATER), await party.looking(LATER)];
    const ends = await Promise.all(browsers.map(goesOn));
    expect(ends.map(({ step: { done } }) => done)).toEqual([true, true, true]);
    expect(await looks()).toBe(2);
  });

  it("ends with another reset, which makes it due again", async () => {
    const going = await party.looking();
    const removing = await party.looking();
    await party.reset(LATER);
    const { body } = await going.visitor.act(going.step, "submit");
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(codesOf(await remove(removing, "app"))).toEqual([400, ["begin-anew"]]);
    expect((await removing.visitor.get()).body).toMatchObject({ step: "login" });
    expect([await factors(), hasSession(going.visitor), await looks()]).toEqual([BOTH, false, 0]);
    expect((await goesOn(await party.looking(LATER))).step.done).toBe(true);
  });

  it.each<[string, () => Promise<unknown>]>([
    ["disabled", () => running.service.accounts.disable(running.ada.sub)],
    ["deleted", () => running.service.accounts.delete(running.ada.sub)],
    ["signed out everywhere", () => running.service.accounts.endSessions(running.ada.sub)],
  ])("ends with an account that is %s", async (what, act) => {
    const { visitor, step } = await party.looking();
    await act();
    const { body } = await visitor.act(step, "submit");
    // The sign-in of a deleted account is gone, too.
    const next = what === "deleted" ? undefined : "login";
    expect([body.step, body.methods, hasSession(visitor)]).toEqual([next, undefined, false]);
  });
});

describe("a removal", () => {
  beforeEach(async () => void (await party.reset()));

  it("is as on the account pages, and this sign-in goes on", async () => {
    const other = await goesOn(await party.looking());
    await claimsOf(other);
    expect(await silently(other)).toBe("code");
    await party.reset(LATER);
    const here = await party.looking(LATER);
    const elsewhere = await party.looking(LATER);
    const { body } = await remove(here, "passkey");
    expect([body.step, kinds(body), body.notice?.code]).toEqual([
      "review-methods",
      ["app"],
      "method-removed",
    ]);
    expect(await factors()).toEqual({ app: true, passkeys: 0 });
    await party.mailWith(({ text }) => text.includes("A passkey of your account was removed"));
    expect((await actions())[0]).toBe("account.factor_removed");
    // The list that the other one saw is outdated.
    expect((await goesOn(elsewhere)).step.step).toBe("login");
    const end = await goesOn({ ...here, step: body });
    await expect(claimsOf(end)).resolves.toMatchObject({ acr: MFA });
    expect(await silently(end)).toBe("code");
    expect((await party.shown(LATER)).step.done).toBe(true);
  });

  it("ends the sessions that others have", async () => {
    const there = await party.looking();
    const session = await goesOn(await party.looking());
    await claimsOf(session);
    expect(await silently(session)).toBe("code");
    await remove(there, "passkey");
    expect(await silently(session)).toBe("login_required");
  });

  it("of the last one leaves the password, unless the client needs a second factor", async () => {
    await running.service.clients.register(VAULT);
    const vault = clientAt(running, "openid", VAULT);
    const { visitor, step } = await party.looking(NEW, vault);
    const { body: one } = await remove({ visitor, step }, "passkey");
    const needed = await remove({ visitor, step: one }, "app");
    expect(codesOf(needed)).toEqual([400, ["last-factor"]]);
    expect(kinds(needed.body)).toEqual(["app"]);
    expect(await factors()).toEqual({ app: true, passkeys: 0 });
    // Ada does not use the vault yet: elsewhere it is not needed.
    const free = await party.looking();
    const { body: none } = await remove(free, "app");
    expect([none.step, kinds(none)]).toEqual(["review-methods", []]);
    await claimsOf(await goesOn({ ...free, step: none }));
    const { step: next } = await party.entered();
    expect(next.done).toBe(true);
    // A person who was at the list of the vault adds a new one first.
    expect((await goesOn({ visitor, step: needed.body })).step.step).toBe("login");
  });

  it("in two tabs at the same moment is one after the other, or one is refused; this sign-in goes on", async () => {
    const { visitor, step } = await party.looking();
    const tabs = await Promise.all([
      visitor.act(step, "remove", { method: "app" }),
      visitor.act(step, "remove", { method: idOf(step, "passkey") }),
    ]);
    const refused = tabs.filter(({ status }) => status !== 200);
    expect(refused.map(codesOf)).toEqual(refused.length === 0 ? [] : [[400, ["begin-anew"]]]);
    const { body } = await visitor.get();
    expect([body.step, body.methods?.length]).toEqual(["review-methods", refused.length]);
    expect(await count("account.factor_removed")).toBe(2 - refused.length);
    await claimsOf(await goesOn({ visitor, step: body }));
  });

  it.each([
    [
      "another account",
      async () => {
        await addPhone(running, running.bob.sub, running.clock);
        const { passkeys = [] } = (await running.service.accounts.factors(running.bob.sub)) ?? {};
        return passkeys[0]?.id ?? "";
      },
    ],
    ["this account, by its credential id", async () => party.phone.ids[0] ?? ""],
    ["nobody", async () => "__proto__"],
    ["nothing", async () => ""],
    ["too much", async () => "x".repeat(10_000)],
  ])("of a passkey of %s does nothing", async (whose, methodOf) => {
    const { visitor, step } = await party.looking();
    const method = await methodOf();
    expect(codesOf(await visitor.act(step, "remove", { method }))).toEqual([400, ["no-method"]]);
    const found = await running.service.accounts.factors(running.bob.sub);
    expect([await factors(), found?.passkeys.length]).toEqual([BOTH, whose === "another account" ? 1 : 0]);
  });

  it("needs a recent sign-in: after five minutes it asks for everything again, and going on does not", async () => {
    const { visitor, step } = await party.looking();
    const going = await party.looking();
    running.clock.advance(300);
    const { body } = await remove({ visitor, step }, "app");
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(await factors()).toEqual(BOTH);
    expect((await goesOn(going)).step.done).toBe(true);
  });

  it("counts as a change of the account", async () => {
    await running.close();
    await open({ rateLimits: { ...UNLIMITED, changes: { points: 1, seconds: 3_600 } } });
    await party.reset();
    const found = await party.looking();
    const { body } = await remove(found, "passkey");
    const limited = await remove({ ...found, step: body }, "app");
    expect(codesOf(limited)).toEqual([429, ["limited"]]);
    expect([kinds(limited.body), await factors()]).toEqual([["app"], { app: true, passkeys: 0 }]);
  });
});
