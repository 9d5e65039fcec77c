/** What a token that is limited to a service reads of the past: of clients that have moved, and of people who have left. */
import { describe, expect, it } from "@jest/globals";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send } from "./stage.ts";

const nobody = "0e02b2c3-0000-4000-8000-000000000000";
const MOVING = {
  client_id: "shop-3",
  name: "shop-3",
  service: "shop",
  redirect_uris: ["https://shop.example/callback"],
};

const stage = beforeTests(async () => {
  const opened = await openAdministration();
  for (const key of ["news", "shop"])
    await opened.directory.services.put(key, {
      name: key,
      receiver: {
        url: `http://127.0.0.1:9/${key}`,
        client_id: "sign-in",
        client_secret: "the-password-of-the-receiver",
        types: ["PROFILE_CHANGED"],
      },
    });
  await opened.clients.register(MOVING);
  return opened;
});

/** With a token that is limited to a service. */
const of = (service: string, role: "viewer" | "administrator" = "viewer"): Send =>
  stage.as({ role, service, actor: { kind: "token", id: service } });
const limited: Send = (...args) => of("news", "administrator")(...args);

describe("a token that is limited to a service", () => {
  it("reads what a client did while it was the service's: a client that moves takes nothing along, and leaves nothing open [D-ADM-342]", async () => {
    const { sub } = await stage.accounts.create({ email: "mover@example.com" });
    for (const service of ["news", "shop"]) await stage.accounts.assign(sub, service);
    const revoke = (): Promise<unknown> => stage.accounts.revokeTokens(sub, "shop-3");
    const seen = async (service: string): Promise<readonly string[]> => {
      const found: string[] = [];
      for (let query = "limit=1&client=shop-3"; query !== "";) {
        const { items, next } = (await of(service)("GET", `/v1/audit?${query}`)).body;
        // Every page but the last is full, whatever there is about others in between.
        expect(items.length).toBe(next === null ? items.length : 1);
        for (const { id, action } of items) {
          found.push(String(action));
          expect(await of(service)("GET", `/v1/audit/${String(id)}`)).toMatchObject({ status: 200 });
        }
        query = next === null ? "" : `limit=1&client=shop-3&after=${encodeURIComponent(next)}`;
      }
      return found.toReversed();
    };
    await revoke();
    const before = await stage.calls.audit.list({ client: "shop-3", limit: 1 });
    await stage.clients.update("shop-3", { service: "news", name: "Moved" });
    await revoke();
    await stage.clients.update("shop-3", { name: "Moved again" });
    const after = await stage.calls.audit.list({ client: "shop-3", limit: 1 });
    expect(await seen("shop")).toEqual(["client.registered", "account.tokens_revoked", "client.updated"]);
    expect(await seen("news")).toEqual(["client.updated", "account.tokens_revoked", "client.updated"]);
    for (const [service, { items }] of [
      ["news", before],
      ["shop", after],
    ] as const) {
      const path = (id: string): Promise<unknown> => of(service)("GET", `/v1/audit/${id}`);
      expect(await path(items[0]!.id)).toMatchObject({ status: 404 });
    }
    // A position is of one token and one question.
    const { next } = (await of("shop")("GET", "/v1/audit?limit=1")).body;
    for (const [service, query] of [
      ["news", "limit=1"],
      ["shop", "limit=1&client=shop-3"],
    ] as const)
      expect(await of(service)("GET", `/v1/audit?${query}&after=${encodeURIComponent(next!)}`)).toMatchObject(
        { status: 422 },
      );
    await stage.clients.update("shop-3", { service: "shop" });
    await stage.clients.remove("shop-3");
    expect((await seen("shop")).slice(-2)).toEqual(["client.updated", "client.removed"]);
    expect((await seen("news")).at(-1)).toBe("client.updated");
  });

  it("reads a full page of its own audit, however much there is about others [D-ADM-343]", async () => {
    const order = stage.storage.audit.position();
    const event = { action: "sign_in", actor: { kind: "anonymous" }, outcome: "failure" } as const;
    const client = { client_id: "shop", services: ["shop"] };
    const own = { client_id: "news", services: ["news"] };
    const many = Array.from({ length: 6_000 }, () => ({ event: { ...event, client }, order, count: 1 }));
    await stage.storage.audit.append({ ...event, client: own, detail: { first: true } });
    for (let at = 0; at < many.length; at += 500)
      await stage.storage.audit.appendCollected(many.slice(at, at + 500));
    await stage.storage.audit.append({ ...event, client: own });
    const { items, next } = (await of("news")("GET", "/v1/audit?limit=2&action=sign_in")).body;
    expect([items.length, items[1]!["detail"]]).toEqual([2, { first: true }]);
    expect(next).not.toBeNull();
  });

  it("does not learn who is not assigned, or no longer, from the audit and from deliveries [D-ADM-344]", async () => {
    const { sub } = await stage.accounts.create({ email: "leaver@example.com" });
    await stage.accounts.assign(sub, "news");
    await stage.accounts.update(sub, { surname: "Left" });
    const client = { client_id: "news", services: ["news"] };
    const actor = { kind: "account", id: sub } as const;
    await stage.storage.audit.append({ action: "sign_in", actor, subject: sub, client });
    await stage.calls.notifications.redriveAll({ receiver: "service:news", account: sub });
    const all = async (): Promise<string> =>
      JSON.stringify([
        (await limited("GET", "/v1/audit?limit=200")).body,
        (await limited("GET", "/v1/deliveries?limit=200")).body,
      ]);
    const path = { account: `account=${sub}`, none: `account=${nobody}` };
    const { items: deliveries } = (await limited("GET", `/v1/deliveries?${path.account}`)).body;
    const { items: records } = (await limited("GET", `/v1/audit?${path.account}`)).body;
    expect([deliveries.length > 0, records.length]).toEqual([true, 1]);
    expect(await all()).toContain(sub);
    const send = { body: { receiver: "service:news", account: sub } };
    expect(await limited("POST", "/v1/deliveries/redrive-all", send)).toMatchObject({ status: 200 });
    await stage.accounts.unassign(sub, "news");
    expect(await all()).not.toContain(sub);
    for (const noun of ["audit", "deliveries"])
      expect((await limited("GET", `/v1/${noun}?${path.account}`)).body).toEqual(
        (await limited("GET", `/v1/${noun}?${path.none}`)).body,
      );
    for (const { id } of records)
      expect((await limited("GET", `/v1/audit/${String(id)}`)).body).toMatchObject({
        actor: { kind: "account" },
        subject: null,
      });
    for (const { id } of deliveries) {
      for (const answer of [
        await limited("GET", `/v1/deliveries/${String(id)}`),
        await limited("POST", `/v1/deliveries/${String(id)}/send-now`),
      ])
        expect(JSON.stringify(answer.body)).not.toContain(sub);
      expect(await limited("GET", `/v1/deliveries/${String(id)}`)).toMatchObject({
        status: 200,
        body: { sub: "unassigned" },
      });
    }
    expect(await limited("POST", "/v1/deliveries/redrive-all", send)).toMatchObject({ status: 404 });
    // What is left can still be sent, so that the service gets to know who has left.
    const rest = { body: { receiver: "service:news" } };
    expect(await limited("POST", "/v1/deliveries/redrive-all", rest)).toMatchObject({ status: 200 });
    await stage.accounts.assign(sub, "news");
    expect(await all()).toContain(sub);
  });
});
