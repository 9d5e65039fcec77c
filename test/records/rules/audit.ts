/** The audit log: filters, order, pages and retention. */
import {
  type AuditEvent,
  type AuditFilter,
  type AuditRecord,
  type CollectedEvent,
  SYSTEM,
} from "../../../records/audit/audit-event.ts";
import type { Stage } from "./stage.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;

/** Clients of one service. */
const NEWS = { client_id: "news", services: ["media"] };
const SHOP = { client_id: "shop", services: ["market"] };
/** A client, while it belongs to these services. */
const moving = (services: readonly string[]) => ({ client_id: "news", services });

function signIn(sub: string, more: Partial<AuditEvent> = {}): AuditEvent {
  return { actor: { kind: "account", id: sub }, client: NEWS, action: "sign_in", subject: sub, ...more };
}

type Filter = AuditFilter & { readonly service?: string };

/** All matching records, read in pages of this size. Checks page sizes and duplicates. */
async function all({ storage }: Stage, filter: Filter, limit = 1_000): Promise<AuditRecord[]> {
  const found: AuditRecord[] = [];
  for (let after: string | undefined; ;) {
    const page = await storage.audit.list({ ...filter, limit, ...(after === undefined ? {} : { after }) });
    if (page.items.length > limit) throw new Error(`a page of ${page.items.length}`);
    found.push(...page.items);
    if (page.next === null) break;
    after = page.next;
  }
  if (new Set(found.map(({ id }) => id)).size < found.length) throw new Error("a record came twice");
  return found;
}

function describeReading(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("returns a record as it was appended, with null for unknown parts", async () => {
    const { audit } = stage.storage;
    const at = Math.floor(stage.clock.now() / 1000);
    await audit.append({ ...SYSTEM, action: "interaction" });
    await audit.append(
      signIn("ada", {
        address: "192.0.2.0/24",
        browser: "Firefox",
        outcome: "failure",
        reason: "credentials",
        detail: { n: 1, ok: true, no: null },
      }),
    );
    const [full, empty] = (await audit.list({ limit: 9 })).items;
    expect(full).toEqual({
      id: full?.id,
      at,
      action: "sign_in",
      actor: { kind: "account", id: "ada" },
      subject: "ada",
      client: "news",
      request: null,
      address: "192.0.2.0/24",
      browser: "Firefox",
      outcome: "failure",
      reason: "credentials",
      count: 1,
      detail: { n: 1, ok: true, no: null },
    });
    expect(empty).toMatchObject({ actor: { kind: "system" }, subject: null, client: null, address: null });
    expect(empty).toMatchObject({ outcome: "success", reason: null, count: 1, detail: {} });
  });

  it("filters by account, client, action, time and all of them, newest first [D-AUDIT-1]", async () => {
    const { audit } = stage.storage;
    const appended: { readonly at: number; readonly event: AuditEvent }[] = [];
    const people = ["ada", "bob", "__proto__", "a~b", "x".repeat(300)];
    for (let number = 0; number < 60; number += 1) {
      const sub = people[number % people.length] ?? "";
      const action = number % 3 === 0 ? "grant.created" : "sign_in";
      const event = signIn(sub, { action, client: number % 2 === 0 ? NEWS : SHOP });
      appended.push({ at: Math.floor(stage.clock.now() / 1000), event });
      await audit.append(event);
      // Records span several hours and days.
      stage.clock.advance(number % 4 === 0 ? 0 : 2_000_000);
    }
    const [first, last] = [appended[10]!.at, appended[50]!.at];
    const filters: AuditFilter[] = [
      {},
      ...people.map((account) => ({ account })),
      { client: "news" },
      { action: "sign_in" },
      { since: first, until: last },
      { account: "ada", client: "shop", action: "sign_in", since: first, until: last },
      { client: "news", action: "grant.created", until: last },
      { action: "grant.created", since: first },
      { account: "nobody" },
      { action: "constructor" },
      { since: last, until: first },
    ];
    for (const filter of filters) {
      const { account, client, action, since = 0, until = Infinity } = filter;
      const expected = appended
        .filter(({ at, event }) => {
          const fits = [
            account === undefined || event.subject === account,
            client === undefined || event.client?.client_id === client,
            action === undefined || event.action === action,
          ];
          return at >= since && at < until && fits.every(Boolean);
        })
        .map(({ at, event }) => [at, event.subject, event.client?.client_id, event.action])
        .toReversed();
      for (const limit of [1, 7, 1_000]) {
        const found = await all(stage, filter, limit);
        const rows = found.map(({ at, subject, client: through, action: done }) => [
          at,
          subject,
          through,
          done,
        ]);
        expect(rows).toEqual(expected);
      }
    }
  });

  it("finds an account and a client as actors too", async () => {
    const { audit } = stage.storage;
    await audit.append({
      actor: { kind: "operator", id: "ada" },
      action: "receiver.pause_requested",
      subject: "service:1",
    });
    await audit.append({ actor: { kind: "client", id: "news" }, action: "family.revoked", subject: "bob" });
    await audit.append({ ...SYSTEM, action: "client.updated", subject: "news" });
    // Ids of other kinds do not match.
    await audit.append({
      actor: { kind: "system", id: "bob" },
      action: "receiver.test_requested",
      subject: "news",
    });
    const actions = async (filter: AuditFilter): Promise<string[]> =>
      (await all(stage, filter)).map(({ action }) => action);
    expect(await actions({ account: "ada" })).toEqual(["receiver.pause_requested"]);
    expect(await actions({ account: "bob" })).toEqual(["family.revoked"]);
    expect(await actions({ client: "news" })).toEqual(["client.updated", "family.revoked"]);
  });

  it("finds what is about a service, by the service that the client had then, and reads nothing else [D-ADM-341]", async () => {
    const { audit } = stage.storage;
    const note = (number: number, event: Partial<AuditEvent>): Promise<void> => {
      stage.clock.advance(DAY * 250);
      return audit.append(signIn("ada", { ...event, detail: { number } }));
    };
    await note(1, {});
    await note(2, { client: SHOP });
    await note(3, { client: moving(["media", "market"]), action: "client.updated", subject: "news" });
    await note(4, { client: moving(["market"]) });
    await note(5, { client: moving([]) });
    for (const [number, event] of [
      [6, { action: "service.updated", subject: "media" }],
      [7, { action: "receiver.resume_requested", subject: "service:media" }],
      [8, { action: "receiver.resume_requested", subject: "group:media" }],
      [9, { action: "group.updated", subject: "media" }],
      [10, { action: "account.updated", subject: "media" }],
    ] as const)
      await audit.append({ ...SYSTEM, ...event, detail: { number } });
    const numbers = async (filter: Filter, limit?: number): Promise<unknown[]> =>
      (await all(stage, filter, limit)).map(({ detail }) => detail["number"]);
    for (const limit of [1, 2, 1_000]) {
      expect(await numbers({ service: "media" }, limit)).toEqual([7, 6, 3, 1]);
      expect(await numbers({ service: "market" }, limit)).toEqual([4, 3, 2]);
    }
    expect(await numbers({ service: "media", client: "news" })).toEqual([3, 1]);
    expect(await numbers({ service: "market", client: "news", action: "sign_in" })).toEqual([4]);
    expect(await numbers({ service: "media", account: "ada", action: "sign_in" })).toEqual([1]);
    for (const service of ["medi", "media~", "news", "", "__proto__", "service:media", "x".repeat(300)])
      expect(await numbers({ service })).toEqual([]);
    for (const { id, detail } of await all(stage, {})) {
      const found = await Promise.all(["media", "market"].map((service) => audit.find(id, service)));
      const seen = [
        [1, 3, 6, 7],
        [2, 3, 4],
      ].map((own) => own.includes(Number(detail["number"])));
      expect(found.map((each) => each !== undefined)).toEqual(seen);
    }
  });

  it("returns each of many simultaneous records once, page by page", async () => {
    const { audit } = stage.storage;
    const order = audit.position();
    const events = Array.from({ length: 299 }, (_, number): CollectedEvent => {
      return { event: signIn("ada", { detail: { number } }), order, count: 1 };
    });
    await audit.appendCollected(events);
    await audit.append(signIn("ada"));
    for (const limit of [7, 200, 298, 299, 300])
      expect(await all(stage, { account: "ada" }, limit)).toHaveLength(300);
    expect(await all(stage, {}, 100)).toHaveLength(300);
  });

  it("continues after a page, whatever is added meanwhile", async () => {
    const { audit } = stage.storage;
    for (let number = 0; number < 6; number += 1) {
      await audit.append(signIn("ada", { detail: { number } }));
      stage.clock.advance(HOUR * 1000);
    }
    const page = await audit.list({ limit: 3 });
    await audit.append(signIn("ada"));
    const rest = await audit.list({ limit: 9, after: page.next ?? "" });
    expect(rest.items.map(({ detail }) => detail["number"])).toEqual([2, 1, 0]);
  });

  it("refuses cursors that no page returned", async () => {
    for (const after of [
      "",
      "x",
      "1e9",
      "-1",
      "1.",
      `1.${"x".repeat(201)}`,
      "99999999999999999",
      "1.a b",
      "1\n",
    ])
      await expect(stage.storage.audit.list({ after, limit: 1 })).rejects.toMatchObject({
        code: "invalid_argument",
      });
  });
}

function describeKeeping(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("keeps a record for exactly 400 days [D-AUDIT-6]", async () => {
    const { audit } = stage.storage;
    await audit.append(signIn("ada", { action: "account.updated" }));
    stage.clock.advance(400 * DAY * 1000 - 1);
    expect(await all(stage, { account: "ada" })).toHaveLength(1);
    // A call reads a part of the 9,600 hours and returns a cursor.
    expect(await all(stage, {})).toHaveLength(1);
    stage.clock.advance(1);
    for (const filter of [{}, { account: "ada" }, { client: "news" }, { action: "account.updated" }])
      expect(await all(stage, filter)).toEqual([]);
  });

  it("counts the refusals of one bucket in one window over all processes [D-AUDIT-4]", async () => {
    const { audit } = stage.storage;
    const refusal = { limit: "signIn.account", bucket: "b", seconds: 900 };
    const event = signIn("ada", { outcome: "failure", reason: "limited" });
    // At the beginning of a window.
    stage.clock.advance(900_000 - (stage.clock.now() % 900_000));
    const tell = (count: number, bucket = "b"): Promise<void> =>
      audit.appendCollected([{ event, refusal: { ...refusal, bucket }, order: audit.position(), count }]);
    await Promise.all([tell(1), tell(2), tell(3), tell(4), tell(5), tell(1, "other")]);
    stage.clock.advance(899_000);
    await tell(10);
    stage.clock.advance(2_000);
    await tell(7);
    const counts = (await all(stage, { account: "ada" })).map(({ count }) => count);
    expect(counts.toSorted((one, other) => one - other)).toEqual([1, 7, 25]);
    // A client moves within the window: the service that it has left does not see the count grow.
    await audit.appendCollected([
      {
        event: { ...event, client: { ...NEWS, services: ["market"] } },
        refusal,
        order: audit.position(),
        count: 100,
      },
    ]);
    const of = async (service: string) => (await all(stage, { service })).map(({ count }) => count);
    expect([(await of("media")).length, await of("market")]).toEqual([3, [100]]);
  });

  it("keeps 300 records an hour of one account over all processes, and counts the rest [D-OWN-7]", async () => {
    const { audit } = stage.storage;
    stage.clock.advance(HOUR * 1000 - (stage.clock.now() % (HOUR * 1000)));
    const many = (account: string, count: number): CollectedEvent[] =>
      Array.from({ length: count }, () => ({ event: signIn(account), order: audit.position(), count: 1 }));
    const processes = [250, 250, 250].map((count) => audit.appendCollected(many("ada", count)));
    await Promise.all([...processes, audit.appendCollected(many("bob", 250))]);
    await audit.appendCollected([...many("ada", 3), ...many("bob", 51)]);
    const counts = async (account: string): Promise<number[]> =>
      (await all(stage, { account })).map(({ count }) => count).toSorted((one, other) => other - one);
    expect(await counts("ada")).toEqual([453, ...Array<number>(300).fill(1)]);
    expect(await counts("bob")).toEqual([1, ...Array<number>(300).fill(1)]);
    expect((await all(stage, { account: "ada" })).find(({ count }) => count === 453)).toMatchObject({
      action: "sign_in",
      detail: { limit: "audit", seconds: HOUR },
    });
    stage.clock.advance(HOUR * 1000);
    await audit.appendCollected(many("ada", 2));
    expect(await counts("ada")).toEqual([453, ...Array<number>(302).fill(1)]);
  });

  it("stores collected events and their counts together, or nothing", async () => {
    const { audit } = stage.storage;
    const order = audit.position();
    const wrong = { event: signIn("ada", { detail: { n: Number.NaN } }), order: Number.NaN, count: 1 };
    await expect(
      audit.appendCollected([{ event: signIn("ada"), order, count: 1 }, wrong]),
    ).rejects.toMatchObject({ name: "TypeError" });
    expect(await all(stage, {})).toEqual([]);
  });
}

export function describeAudit(stage: Stage, runner: TestRunner): void {
  describeReading(stage, runner);
  describeKeeping(stage, runner);
}
