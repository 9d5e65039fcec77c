/** The contents of the audit log. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { createHash } from "node:crypto";
import type { AuditQuery } from "../../accounts/operations/audit.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import type { ServiceEvents } from "../../core/events.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { Holdings } from "./holdings.ts";
import { basic, readTokens, type TestVisitor } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { untilReplay } from "./token-answers.ts";
import { ADA, BOB, NEWS, PARTNER, SHOP, startService, storageIn, useService } from "./running-service.ts";
import { newFolder } from "../closing.ts";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0";
const HEADERS = { "user-agent": FIREFOX, "x-forwarded-for": "203.0.113.77" };
/** Everything from one browser at one address. */
const FROM = { address: "203.0.113.0/24", browser: "Firefox" };
const emitted: [string, object][] = [];

const running = useService({ config: { proxy: 1, rateLimits: {} } });
const news = clientAt(running, "oauth2", NEWS);
const openid = clientAt(running, "openid", NEWS);
const holdings = new Holdings(running);

beforeAll(() => {
  for (const name of ["family.revoked", "session.ended"] as const)
    running.service.events.on(
      name,
      (argument: ServiceEvents[typeof name]) => void emitted.push([name, argument]),
    );
});
beforeEach(() => {
  emitted.length = 0;
});

async function audit(query: AuditQuery): Promise<readonly AuditRecord[]> {
  return (await running.service.audit.list(query)).items;
}

/** The records of an account after its creation, oldest first. */
async function about(account: string): Promise<Partial<AuditRecord>[]> {
  const records = await audit({ account });
  return records
    .filter(({ action }) => action !== "account.created" && action !== "account.assigned")
    .toReversed()
    .map(({ id: _id, at: _at, request: _request, ...rest }) => rest);
}

const PLAIN = { outcome: "success", reason: null, count: 1, detail: {} };
const wrong = (username: string) => ({ username, password: "not this password" });

async function submit(person: TestVisitor, browser = news.browser({ headers: HEADERS })): Promise<number> {
  await browser.get(news.authorizeUrl());
  await signIn(browser, person);
  return browser.visits[0]?.status ?? 0;
}

describe("the audit log records", () => {
  it("sign-ins and grants: who, through which client, from where [D-AUDIT-1]", async () => {
    const { account, person } = await holdings.newcomer();
    const { sub } = account;
    await news.signIn({ ...person, browser: news.browser({ headers: HEADERS }) });
    const actor = { kind: "account", id: sub };
    const common = { actor, subject: sub, client: NEWS.client_id, ...FROM, ...PLAIN };
    expect(await about(sub)).toEqual([
      { ...common, action: "sign_in", detail: { amr: "pwd" } },
      { ...common, action: "grant.created" },
    ]);
    const [record] = await audit({ account: sub, action: "sign_in" });
    expect(Math.abs((record?.at ?? 0) - Date.now() / 1000)).toBeLessThan(30);
    const [assigned] = await audit({ account: sub, action: "account.assigned" });
    expect(assigned).toMatchObject({ actor, client: NEWS.client_id, ...FROM, detail: { service: "1" } });
  });

  it("the password grant, by its client", async () => {
    const { account, person } = await holdings.newcomer();
    const { sub } = account;
    expect((await news.password(person)).status).toBe(200);
    expect((await news.password({ ...person, password: "wrong" })).status).toBe(400);
    const actor = { kind: "client", id: NEWS.client_id };
    expect(await audit({ account: sub, action: "password_grant" })).toMatchObject([
      { actor, subject: sub, outcome: "failure", reason: "credentials" },
      { actor, subject: sub, outcome: "success", reason: null },
    ]);
  });

  it("failed sign-ins as anonymous, without unknown names [D-AUDIT-2]", async () => {
    const { account, person } = await holdings.newcomer();
    const typed = "somebody-else@example.com";
    const since = Math.floor(Date.now() / 1000);
    expect(await submit(wrong(person.username))).toBe(400);
    expect(await submit(wrong(typed))).toBe(400);
    const failed = { ...PLAIN, outcome: "failure", reason: "credentials" };
    const common = {
      action: "sign_in",
      actor: { kind: "anonymous" },
      client: NEWS.client_id,
      ...FROM,
      ...failed,
    };
    expect(await about(account.sub)).toEqual([{ ...common, subject: account.sub }]);
    const [newest] = await audit({ action: "sign_in", since });
    expect(newest).toMatchObject({ ...common, subject: null });
    expect(JSON.stringify(await audit({ since, limit: 1000 }))).not.toMatch(
      /somebody-else|not this password/,
    );
  });

  it("refusals by a rate limit as one record with a count [D-AUDIT-4]", async () => {
    const { account, person } = await holdings.newcomer();
    const browser = news.browser({ headers: { ...HEADERS, "x-forwarded-for": "198.51.100.9" } });
    const statuses: number[] = [];
    await browser.get(news.authorizeUrl());
    for (let times = 0; times < 16; times += 1) {
      await browser.submit(browser.form("password"), { ...wrong(person.username) });
      statuses.push(browser.visits[0]?.status ?? 0);
    }
    expect(statuses.filter((status) => status === 429)).toHaveLength(6);
    const records = await audit({ account: account.sub, action: "sign_in" });
    expect(records.filter(({ reason }) => reason === "credentials")).toHaveLength(10);
    // The name is not looked up before the limit, so a refusal has no account.
    const signIns = await audit({ action: "sign_in" });
    const limited = signIns.filter(
      ({ reason, address }) => reason === "limited" && address === "198.51.100.0/24",
    );
    expect(limited.reduce((all, { count }) => all + count, 0)).toBe(6);
    // A window may end during the test.
    expect(limited.length).toBeLessThanOrEqual(2);
    expect(limited[0]).toMatchObject({
      actor: { kind: "anonymous" },
      address: "198.51.100.0/24",
      browser: null,
      outcome: "failure",
      detail: { limit: "signIn.accountAndAddress", seconds: 900 },
    });
  });

  it("wrong secrets of a client", async () => {
    const authorization = basic({ ...SHOP, client_secret: "a wrong secret of the shop, long enough" });
    await news.token({ grant_type: "refresh_token", refresh_token: "x" }, { authorization });
    const [newest] = await audit({ client: SHOP.client_id });
    expect(newest).toMatchObject({
      action: "client.authentication",
      actor: { kind: "anonymous" },
      subject: SHOP.client_id,
      client: SHOP.client_id,
      outcome: "failure",
      reason: "credentials",
    });
  });

  it("a code replay, once for the whole family, with an event [D-AUDIT-5]", async () => {
    const { account, person } = await holdings.newcomer();
    const { sub } = account;
    const code = await news.code(person);
    await news.exchange(code);
    await untilReplay();
    expect((await news.exchange(code)).status).toBe(400);
    expect((await news.exchange(code)).status).toBe(400);
    const client_id = NEWS.client_id;
    const records = await audit({ account: sub, action: "code.replayed" });
    expect(records).toMatchObject([
      { actor: { kind: "client", id: client_id }, subject: sub, client: client_id, outcome: "failure" },
    ]);
    expect(emitted).toEqual([["family.revoked", { sub, client_id, reason: "code_replayed" }]]);
  });

  it("nothing for concurrent exchanges of one code", async () => {
    const { account, person } = await holdings.newcomer();
    const code = await news.code(person);
    await Promise.all(Array.from({ length: 10 }, () => news.exchange(code)));
    expect(await audit({ account: account.sub, action: "code.replayed" })).toEqual([]);
    expect(emitted).toEqual([]);
  });

  it("reuse of a rotated refresh token after its window [D-AUDIT-5]", async () => {
    const client = { ...NEWS, client_id: "rotating", refresh_tokens: { rotate: true, reuseWindow: 0 } };
    await running.service.clients.register(client);
    const party = clientAt(running, "openid", client);
    const { account, person } = await holdings.newcomer();
    const first = await party.signIn(person);
    await party.refresh(first.refresh_token);
    // A window of 0 seconds ends after a millisecond.
    await new Promise((resolve) => void setTimeout(resolve, 20));
    expect((await party.refresh(first.refresh_token)).status).toBe(400);
    const { sub } = account;
    const records = await audit({ account: sub, action: "refresh_token.reused" });
    expect(records).toMatchObject([
      { actor: { kind: "client", id: "rotating" }, subject: sub, client: "rotating", outcome: "failure" },
    ]);
    expect(emitted).toEqual([
      ["family.revoked", { sub, client_id: "rotating", reason: "refresh_token_reused" }],
    ]);
  });

  it("a family that its client revokes [D-AUDIT-5]", async () => {
    const { account, person } = await holdings.newcomer();
    const { sub } = account;
    const { refresh_token } = await openid.signIn(person);
    for (const token of [refresh_token, refresh_token, "unknown"]) {
      await clientAt(running, "openid", NEWS).post("/oauth2/revoke", { token });
    }
    const client_id = NEWS.client_id;
    expect(await audit({ account: sub, action: "family.revoked" })).toMatchObject([
      { actor: { kind: "client", id: client_id }, subject: sub, client: client_id, outcome: "success" },
    ]);
    expect(emitted).toEqual([["family.revoked", { sub, client_id, reason: "revoked" }]]);
  });

  it("a sign-out, and nothing for users who stay [D-AUDIT-5]", async () => {
    const { account, person } = await holdings.newcomer();
    const { sub } = account;
    const browser = openid.browser({ headers: HEADERS });
    await openid.code({ ...person, browser });
    await browser.get(`${running.openid}/oauth2/logout`);
    await browser.submit(browser.form("xsrf"));
    expect(emitted).toEqual([]);
    await browser.get(`${running.openid}/oauth2/logout`);
    await browser.submit(browser.form("xsrf"), { logout: "yes" });
    expect(emitted).toEqual([["session.ended", { sub, reason: "signed_out" }]]);
    expect(await audit({ account: sub, action: "session.ended" })).toMatchObject([
      { actor: { kind: "account", id: sub }, subject: sub, reason: "signed_out", ...FROM },
    ]);
  });

  it("the consent of a user", async () => {
    const { account, person } = await holdings.newcomer();
    const partner = clientAt(running, "openid", PARTNER);
    const browser = partner.browser({ headers: HEADERS });
    await browser.get(partner.authorizeUrl());
    await signIn(browser, person);
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const { sub } = account;
    expect(await audit({ account: sub, action: "account.consented" })).toMatchObject([
      { actor: { kind: "account", id: sub }, client: PARTNER.client_id, ...FROM },
    ]);
  });

  it("changes of the account, with one event for each thing they end", async () => {
    const { accounts } = running.service;
    const { sub } = (await holdings.everything()).account;
    const actor = { kind: "operator", id: "support" } as const;
    await accounts.revokeTokens(sub, NEWS.client_id, { actor });
    await accounts.unassign(sub, SHOP.service, { actor });
    await accounts.endSessions(sub, { actor });
    await accounts.setPassword(sub, "another password", { actor });
    await accounts.delete(sub, { actor });
    expect(emitted).toEqual([
      ["family.revoked", { sub, reason: "ended", client_id: NEWS.client_id }],
      ["family.revoked", { sub, reason: "unassigned" }],
      ["session.ended", { sub, reason: "ended" }],
      ["family.revoked", { sub, reason: "password" }],
      ["session.ended", { sub, reason: "password" }],
      ["family.revoked", { sub, reason: "deleted" }],
      ["session.ended", { sub, reason: "deleted" }],
    ]);
    const changes = (await audit({ account: sub })).filter(({ actor: { kind } }) => kind === "operator");
    expect(changes.map(({ action }) => action)).toEqual([
      "account.deleted",
      "account.password_changed",
      "account.sessions_ended",
      "account.unassigned",
      "account.tokens_revoked",
    ]);
  });
});

it("the audit log contains no secret, token, code, password, cookie, name or address [D-AUDIT-2]", async () => {
  const browser = openid.browser({ headers: HEADERS });
  const code = await openid.code({ ...ADA, browser }, { scope: "openid email profile" });
  const tokens = readTokens(await openid.exchange(code));
  await submit(wrong(BOB.email));
  await openid.exchange(code);
  const records: AuditRecord[] = [];
  for (let after: string | undefined; ;) {
    const page = await running.service.audit.list({ limit: 1000, ...(after === undefined ? {} : { after }) });
    records.push(...page.items);
    if (page.next === null) break;
    after = page.next;
  }
  const text = JSON.stringify(records);
  const secrets = [
    code,
    ...Object.values(tokens).map(String),
    ...browser.jar.all().map(({ value }) => value),
    ADA.password,
    ADA.email,
    BOB.email,
    "Lovelace",
    NEWS.client_secret,
    "203.0.113.77",
    FIREFOX,
  ].filter((secret) => secret.length > 6);
  for (const secret of secrets) {
    expect(text).not.toContain(secret);
    expect(text).not.toContain(createHash("sha256").update(secret).digest("base64url"));
  }
});

it("each record through a client is one of the service that the client belongs to [D-ADM-341]", async () => {
  const { items } = await running.service.audit.list({ limit: 1000 });
  const through = items.filter(({ client }) => client !== null);
  expect(new Set(through.map(({ action }) => action)).size).toBeGreaterThan(10);
  for (const { id, action, client } of through) {
    const { service } = (await running.service.clients.find(client!)) ?? {};
    // Those of the pages have no service.
    if (service === undefined) continue;
    const found = [service, `${service}0`].map((each) => running.storage.audit.find(id, each));
    expect([action, (await Promise.all(found)).map((each) => each?.id)]).toEqual([action, [id, undefined]]);
  }
});

describe("reading the audit log", () => {
  it.each([
    [{ limit: 0 }, "filter.limit"],
    [{ limit: 1001 }, "filter.limit"],
    [{ since: -1 }, "filter.since"],
    [{ until: 1.5 }, "filter.until"],
    [{ since: "yesterday" }, "filter.since"],
    [{ account: 7 }, "filter.account"],
    [{ acount: "x" }, "did you mean account"],
    [{ after: "x" }, "after"],
    [null, "filter"],
  ])("refuses %j", async (query, problem) => {
    const failed = running.service.audit.list(query as AuditQuery);
    await expect(failed).rejects.toThrow(TypeError);
    await expect(failed).rejects.toThrow(problem);
  });

  it("finds nothing for unknown names", async () => {
    for (const name of [
      "",
      "\0",
      "'; DROP TABLE records; --",
      "\ud800",
      "x".repeat(10_000),
      "__proto__",
      "a~1",
    ]) {
      for (const query of [{ account: name }, { client: name }])
        expect(await running.service.audit.list(query)).toEqual({ items: [], next: null });
      await expect(running.service.audit.list({ action: name })).rejects.toMatchObject({
        code: "invalid_argument",
      });
    }
  });
});

it("collected events are stored when the service closes [D-AUDIT-3]", async () => {
  const folder = newFolder();
  const config = await storageIn(folder);
  const first = await startService({ config });
  await clientAt(first, "oauth2", NEWS).code(ADA);
  await first.close();
  const second = await startService({ config });
  const { items: records } = await second.service.audit.list({ account: first.ada.sub });
  await second.close();
  expect(records.map(({ action }) => action)).toContain("sign_in");
});

it("audit records are kept for the configured time [D-AUDIT-6]", async () => {
  const clock = new TestClock();
  const short = await startService({ config: { clock, audit: { retention: 600, signIns: 100 } } });
  const party = clientAt(short, "oauth2", NEWS);
  await party.code(ADA);
  await party.password({ ...ADA, password: "wrong" });
  const kept = async (): Promise<string[]> =>
    (await short.service.audit.list()).items.map(({ action, outcome }) => `${action} ${outcome}`);
  const all = await kept();
  const routine = ["sign_in success", "grant.created success", "password_grant failure"];
  expect(all).toEqual(expect.arrayContaining([...routine, "account.imported success"]));
  clock.advance(101);
  expect(await kept()).toEqual(all.filter((each) => !routine.includes(each)));
  clock.advance(500);
  expect(await kept()).toEqual([]);
  expect((await short.service.audit.list({ account: short.ada.sub })).items).toEqual([]);
});
