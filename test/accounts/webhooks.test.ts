/** Which events a change of an account stores, and what the audit collects. */
import { describe, expect, it } from "@jest/globals";
import { StorageUnavailable } from "../../core/errors.ts";
import { EVENT_TYPES } from "../../config/events.ts";
import { eventSchema, type EventBody } from "../../accounts/events/event-types.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { Records } from "../../records/records.ts";
import type { Storage } from "../../records/storage.ts";
import { withCalls } from "../servers/storage.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { type Domain, type Options, openDomain, START, withCommit } from "./open-domain.ts";

const SECRET = `whsec_${"A".repeat(32)}`;
const CRM = {
  url: "https://crm.example/events",
  signing_secret: SECRET,
  types: EVENT_TYPES,
  include: ["email", "name"],
};

const open = (options: Partial<Options> = {}): Promise<Domain> =>
  openDomain({ receivers: { crm: CRM }, ...options });

/** The events that are stored, in order, each checked against its schema. */
async function events(domain: Domain): Promise<readonly EventBody[]> {
  return (await domain.bodies()).map(({ body }) => {
    const event = body as unknown as EventBody;
    return eventSchema(event.type).parse(event);
  });
}

const typesOf = async (domain: Domain): Promise<readonly string[]> =>
  (await events(domain)).map(({ type }) => type);

const signIn = (domain: Domain, sub: string): void =>
  domain.webhooks.note({
    action: "sign_in",
    actor: { kind: "account", id: sub },
    subject: sub,
    client: { client_id: "news", services: ["1"] },
  });

describe("the events of an account", () => {
  it("of a registration are account.registered only, with the values after it [D-EVENT-4]", async () => {
    const domain = await open();
    const sub = "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f";
    await domain.storage.records.transact((tx) =>
      domain.accounts.register(tx, { sub, email: "ada@example.com", name: "Ada" }, SYSTEM),
    );
    expect(await events(domain)).toEqual([
      {
        type: "account.registered",
        timestamp: new Date(START * 1000).toISOString(),
        data: { sub, user_id: 1, services: [], profile: { email: "ada@example.com", name: "Ada" } },
      },
    ]);
  });

  it("of a registration say by which invitation [D-EVENT-4]", async () => {
    const domain = await open();
    const invited = {
      sub: "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f",
      email: "ada@example.com",
      invitation: "inv_1",
    };
    await domain.storage.records.transact((tx) => domain.accounts.register(tx, invited, SYSTEM));
    expect((await events(domain))[0]?.data).toMatchObject({ services: [], invitation: "inv_1" });
  });

  it("of an import are sent only when it asks, also those of what it changes [D-EVENT-3]", async () => {
    const domain = await open();
    const { sub } = await domain.accounts.import({ email: "ada@example.com" });
    const after = (await domain.accounts.record(sub))!;
    const before = { ...after, name: "Ada" };
    const typesWith = (step: object) =>
      domain.webhooks
        .ofChange({ before: undefined, after, action: "account.imported", ...step }, START)
        .map(({ type }) => type);
    expect([typesWith({}), typesWith({ before })]).toEqual([[], []]);
    expect(typesWith({ isAnnounced: true })).toEqual(["account.created"]);
    expect(typesWith({ isAnnounced: true, before })).toEqual(["account.updated"]);
    expect(await typesOf(domain)).toEqual([]);
  });

  it("are none if the change is not committed, and none twice after a conflict [D-EVENT-1]", async () => {
    let tries = 0;
    const failing = await open({
      storage: (storage) =>
        withCommit(storage, async () => {
          tries += 1;
          throw new StorageUnavailable("planted");
        }),
    });
    await expect(failing.accounts.create({ email: "ada@example.com" })).rejects.toThrow("planted");
    expect([tries, await typesOf(failing)]).toEqual([1, []]);

    const domain = await open();
    const { sub } = await domain.accounts.create({ email: "ada@example.com" });
    let conflicts = 1;
    const other = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async () => {
          if (conflicts-- > 0) await domain.accounts.update(sub, { surname: "Byron" });
        }),
    });
    await other.accounts.update(sub, { name: "Ada" });
    expect(await typesOf(domain)).toEqual(["account.created", "account.updated", "account.updated"]);
    expect((await events(domain)).at(-1)?.data).toMatchObject({ fields: ["name"], profile: { name: "Ada" } });
  });

  it("of an invitation have a lane of their own, and no account [D-EVENT-13]", async () => {
    const domain = await open();
    await domain.storage.records.transact(async (tx) => {
      await domain.webhooks.invited(tx, { invitation: "inv_1", email: "eve@example.com", at: START });
    });
    expect(await events(domain)).toEqual([
      {
        type: "account.invited",
        timestamp: new Date(START * 1000).toISOString(),
        data: { invitation: "inv_1", profile: { email: "eve@example.com", name: null } },
      },
    ]);
    expect(domain.notified).toMatchObject([{ sub: "invitation:inv_1", receiver: "events:crm" }]);
    await expect(
      domain.storage.records.transact(async (tx) => {
        await domain.webhooks.invited(tx, { invitation: "inv_2", email: "eve@example.com", at: START });
        throw new Error("planted");
      }),
    ).rejects.toThrow("planted");
    expect(await events(domain)).toHaveLength(1);
  });
});

describe("what the audit collects", () => {
  it("is stored together with the account as it is then, to be sent for an hour [D-EVENT-9, D-EVENT-10]", async () => {
    const domain = await open();
    const { sub, user_id } = await domain.accounts.create({ email: "ada@example.com" });
    signIn(domain, sub);
    signIn(domain, sub);
    domain.webhooks.note({ action: "sign_in", actor: SYSTEM.actor, subject: sub, outcome: "failure" });
    domain.webhooks.note({ action: "grant.created", actor: SYSTEM.actor, subject: sub });
    domain.webhooks.note({ action: "sign_in", actor: SYSTEM.actor, subject: "nobody" });
    expect(await typesOf(domain)).toEqual(["account.created"]);
    await domain.webhooks.flush();
    const [, ...signedIn] = await events(domain);
    const profile = { email: "ada@example.com", name: null };
    const expected = { type: "account.signed_in", data: { sub, user_id, client_id: "news", profile } };
    expect(signedIn).toMatchObject([expected, expected]);
    expect(domain.notified.slice(1)).toMatchObject([
      { until: START * 1000 + 3_600_000 },
      { until: START * 1000 + 3_600_000 },
    ]);
  });

  it("is not stored for an account that is deleted by then [D-EVENT-14]", async () => {
    const domain = await open();
    const { sub } = await domain.accounts.create({ email: "ada@example.com" });
    signIn(domain, sub);
    await domain.accounts.delete(sub);
    await domain.webhooks.close();
    expect(await typesOf(domain)).toEqual(["account.created", "account.deleted"]);
  });

  it("is dropped and counted while too many wait for its receiver; changes of accounts are not [D-EVENT-11]", async () => {
    const domain = await open();
    const { sub } = await domain.accounts.create({ email: "ada@example.com" });
    await domain.accounts.update(sub, { name: "Ada" });
    const webhooks = domain.webhooksWith(1);
    const note = (client: string): void =>
      webhooks.note({
        action: "sign_in",
        actor: SYSTEM.actor,
        subject: sub,
        client: { client_id: client, services: [] },
      });
    note("one");
    note("two");
    await webhooks.flush();
    expect(domain.dropped).toEqual([{ receiver: "events:crm", reason: "too_many_waiting", number: 2 }]);
    await domain.accounts.update(sub, { name: "Augusta" });
    expect(await typesOf(domain)).toEqual(["account.created", "account.updated", "account.updated"]);
    const roomy = domain.webhooksWith(3);
    roomy.note({
      action: "sign_in",
      actor: SYSTEM.actor,
      subject: sub,
      client: { client_id: "news", services: [] },
    });
    await roomy.flush();
    expect(await typesOf(domain)).toHaveLength(4);
  });

  it("waits while the storage is unavailable [D-EVENT-9]", async () => {
    let isDown = true;
    const domain = await open({
      storage: (storage) =>
        withCommit(
          storage,
          async () => {
            if (isDown) throw new StorageUnavailable("planted");
          },
          { name: "payload" },
        ),
    });
    isDown = false;
    const { sub } = await domain.accounts.create({ email: "ada@example.com" });
    isDown = true;
    signIn(domain, sub);
    await domain.webhooks.flush();
    expect(await typesOf(domain)).toEqual(["account.created"]);
    isDown = false;
    await domain.webhooks.flush();
    expect(await typesOf(domain)).toEqual(["account.created", "account.signed_in"]);
  });
});

/** What each call asks of the storage: round trips of reads, commits, and the records that they write, by kind. */
function counting() {
  const counts = { reads: 0, commits: 0, written: [] as string[] };
  const storage = (opened: Storage): Storage => {
    const { store, clock } = opened.records;
    const counted = withCalls(store, {
      get(...given) {
        counts.reads += 1;
        return store.get(...given);
      },
      commit(change) {
        counts.commits += 1;
        counts.written.push(...(change.put ?? []).map(({ kind }) => kind));
        return store.commit(change);
      },
    });
    return { ...opened, records: new Records(counted, clock, KINDS) };
  };
  return { counts, storage };
}

describe("what events cost", () => {
  it("is one read and three records for each receiver in the same commit, and for a sign-in nothing until it is collected [D-EVENT-17]", async () => {
    const costs = await Promise.all(
      [undefined, { crm: CRM }, { crm: CRM, erp: CRM }].map(async (receivers) => {
        const { counts, storage } = counting();
        const domain = await openDomain({ ...(receivers && { receivers }), storage });
        const { sub } = await domain.accounts.create({ email: "ada@example.com" });
        Object.assign(counts, { reads: 0, commits: 0, written: [] });
        await domain.accounts.update(sub, { name: "Ada" });
        const change = { ...counts, written: counts.written.length };
        Object.assign(counts, { reads: 0, commits: 0, written: [] });
        signIn(domain, sub);
        const request = { ...counts, written: counts.written.length };
        signIn(domain, sub);
        await domain.webhooks.flush();
        return { change, request, collected: { ...counts, written: counts.written.length } };
      }),
    );
    const [none, one, two] = costs;
    const nothing = { reads: 0, commits: 0, written: 0 };
    expect(none).toEqual({
      change: { reads: expect.any(Number), commits: 1, written: expect.any(Number) },
      request: nothing,
      collected: nothing,
    });
    const { reads = 0, written = 0 } = none?.change ?? {};
    expect(one?.change).toEqual({ reads: reads + 1, commits: 1, written: written + 3 });
    expect(two?.change).toEqual({ reads: reads + 1, commits: 1, written: written + 6 });
    expect([one?.request, two?.request]).toEqual([nothing, nothing]);
    // Two sign-ins of one account share its lane.
    expect(one?.collected).toEqual({ reads: 2, commits: 1, written: 5 });
    expect(two?.collected).toEqual({ reads: 2, commits: 1, written: 10 });
  });
});

describe("without receivers of events", () => {
  it("nothing is stored, read or collected [D-EVENT-17]", async () => {
    const domain = await openDomain();
    const { sub } = await domain.accounts.create({ email: "ada@example.com" });
    signIn(domain, sub);
    await domain.webhooks.close();
    expect(domain.notified).toEqual([]);
    expect(await domain.storage.deliveries.counts()).toEqual([]);
  });
});
