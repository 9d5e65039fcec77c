import { beforeEach, describe, expect, it } from "@jest/globals";
import type { NotificationsInput } from "../../config/input.ts";
import type { SignInService } from "../../lib/service.ts";
import type { Inbox } from "../flows/inbox.ts";
import { type Notified, startNotified } from "./notified.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const SECRET = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

let stage: Notified;
let inbox: Inbox;
let service: SignInService;

async function start(notifications: NotificationsInput = {}): Promise<void> {
  stage = closing(await startNotified(notifications));
  ({ inbox, service } = stage);
}
beforeEach(() => start());

describe("service.notifications", () => {
  it("redrives parked deliveries: one at the head of its lane, or all in order [D-NOTIFY-17]", async () => {
    const sub = await stage.one("/a");
    inbox.react = () => 500;
    for (const name of ["one", "two", "three"]) await service.accounts.update(sub, { name });
    await stage.nothingWaits();
    const ids = (await storedDeliveries(service.notifications, { state: "parked" })).map(({ id }) => id);
    expect(ids).toHaveLength(3);
    inbox.arrived.length = 0;
    inbox.react = () => 200;
    const [first = "", second = "", third = ""] = ids;
    await expect(service.notifications.redrive(second)).resolves.toMatchObject({
      id: second,
      state: "waiting",
    });
    await stage.nothingWaits();
    await expect(service.notifications.redrive(first)).rejects.toMatchObject({ code: "superseded" });
    await expect(service.notifications.redriveAll({})).resolves.toMatchObject({ redriven: 1, superseded: 1 });
    await stage.nothingWaits();
    await expect(
      service.notifications.redriveAll({ receiver: "service:1", force: true }),
    ).resolves.toMatchObject({
      redriven: 1,
    });
    await stage.nothingWaits();
    expect(inbox.arrived.map(({ id }) => id)).toEqual([second, third, first]);
    await expect(service.notifications.redrive("none")).rejects.toMatchObject({ code: "not_found" });
  });

  it("lists everything by pages, and every delivery once [D-NOTIFY-21]", async () => {
    const sub = await stage.one("/a");
    await service.notifications.pause("service:1");
    for (let number = 0; number < 5; number += 1)
      await service.accounts.update(sub, { name: `Bob ${number}` });
    const all = (await storedDeliveries(service.notifications)).map(({ id }) => id);
    expect(all).toHaveLength(5);
    const paged: string[] = [];
    for (let after: string | undefined; ;) {
      const page = await service.notifications.list({ limit: 2, after });
      paged.push(...page.items.map(({ id }) => id));
      if (page.next === null) break;
      after = page.next;
    }
    expect(paged).toEqual(all.toReversed());
    await expect(service.notifications.list({ limit: 2, order: "oldest" })).resolves.toMatchObject({
      items: [{ id: all[0] }, { id: all[1] }],
      next: all[1],
    });
  });

  it("redrives many lanes, each in order [D-NOTIFY-21]", async () => {
    await stage.one("/a");
    inbox.react = () => 500;
    const subs: string[] = [];
    for (let number = 0; number < 60; number += 1) {
      const { sub } = await service.accounts.import({
        email: `n${number}@example.com`,
        services: { "1": number },
      });
      subs.push(sub);
    }
    for (const name of ["one", "two", "three"]) {
      await Promise.all(subs.map((sub) => service.accounts.update(sub, { name })));
    }
    // The circuit is open after five failures, so other deliveries wait.
    await service.notifications.pause("service:1");
    for (const { id } of await storedDeliveries(service.notifications, { state: "waiting" })) {
      await service.notifications.discard(id);
    }
    const discarded = await storedDeliveries(service.notifications, { state: "discarded" });
    const parked = await storedDeliveries(service.notifications, { state: "parked" });
    expect(discarded.length + parked.length).toBe(180);
    for (const { id } of discarded) await service.notifications.redrive(id);
    await service.notifications.redriveAll();
    inbox.react = () => 200;
    await service.notifications.resume("service:1");
    await stage.nothingWaits();
    for (const sub of subs) {
      const own = inbox.arrived.filter(({ body }) => body.includes(sub)).map(({ id }) => id);
      const stored = (await storedDeliveries(service.notifications, { account: sub })).map(({ id }) => id);
      expect([...new Set(own)]).toEqual(stored);
      expect(own.slice(-3)).toEqual(stored);
    }
  });

  it("pauses and resumes a receiver, and reports it [D-NOTIFY-5, D-HEALTH-7]", async () => {
    const sub = await stage.one("/a");
    const emitted: unknown[] = [];
    service.events.on("receiver.paused", (argument) => void emitted.push(argument));
    service.events.on("receiver.resumed", (argument) => void emitted.push(argument));
    const paused = { receiver: "service:1", paused: true, reason: "moving house", url: inbox.url("/a") };
    await expect(service.notifications.pause("service:1", { reason: "moving house" })).resolves.toMatchObject(
      paused,
    );
    await expect(service.notifications.pause("service:1")).resolves.toMatchObject(paused);
    await service.accounts.update(sub, { name: "Bob" });
    await expect(service.notifications.receivers()).resolves.toMatchObject({
      items: [{ ...paused, waiting: 1 }],
    });
    await expect(service.notifications.receiver("service:1")).resolves.toMatchObject({
      ...paused,
      waiting: 1,
    });
    await expect(service.notifications.receiver("service:9")).resolves.toBeUndefined();
    await expect(service.health()).resolves.toMatchObject({
      ok: true,
      parts: { notifications: { ok: true, detail: "1 waiting, 0 parked; paused: service:1" } },
    });
    expect(await service.metrics()).toContain('sign_in_deliveries{receiver="service:1",state="waiting"} 1');
    expect(inbox.arrived).toEqual([]);
    await expect(service.notifications.resume("service:1")).resolves.toMatchObject({
      paused: false,
      reason: null,
    });
    await stage.nothingWaits();
    expect(inbox.arrived).toHaveLength(1);
    expect(emitted).toEqual([
      { receiver: "service:1", reason: "moving house", by_operator: true },
      { receiver: "service:1" },
    ]);
    expect(stage.log.join("")).not.toContain("moving house");
    expect(await service.metrics()).toContain(
      'sign_in_delivery_attempts_total{receiver="service:1",result="success"} 1',
    );
  });

  it("says of a waiting delivery why it waits, and when it is tried again", async () => {
    await stage.close();
    await start({ retryDelays: [600, 600], breaker: { failures: 2, probe: 60 } });
    const { notifications, accounts, events } = service;
    const sub = await stage.one("/a");
    const other = await accounts.import({ email: "eve@example.com", services: { "1": 6 } });
    const next = (event: "delivery.failed" | "receiver.circuit_opened"): Promise<unknown> =>
      new Promise((resolve) => void events.once(event, resolve));
    const shown = async (id: string) =>
      (await storedDeliveries(notifications)).find((each) => each.id === id);
    inbox.react = () => 503;
    let failed = next("delivery.failed");
    await accounts.update(sub, { name: "Bob" });
    await accounts.update(sub, { name: "Bobby" });
    await failed;
    const [first, second] = await storedDeliveries(notifications);
    expect(first).toMatchObject({ reason: "attempt_failed", last_error: "HTTP 503", attempts: 1 });
    expect(Math.abs((first?.next_attempt_at ?? 0) - Date.now() / 1000 - 600)).toBeLessThan(180);
    expect(second).toMatchObject({ reason: "behind", last_error: null, next_attempt_at: null });
    failed = next("receiver.circuit_opened");
    await accounts.update(other.sub, { name: "Eve" });
    await failed;
    const report = await notifications.receiver("service:1");
    expect(report).toMatchObject({
      failures: 2,
      last_error: "HTTP 503",
      circuit_open_until: expect.any(Number),
    });
    expect(report?.failing_since).toBeLessThan(report?.circuit_open_until ?? 0);
    const third = await accounts.import({ email: "zoe@example.com", services: { "1": 7 } });
    await accounts.update(third.sub, { name: "Zoe" });
    const [probe] = await storedDeliveries(notifications, { account: third.sub });
    expect(probe).toMatchObject({
      reason: "circuit_open",
      attempts: 0,
      next_attempt_at: report?.circuit_open_until,
    });
    await notifications.pause("service:1");
    expect(await shown(first?.id ?? "")).toMatchObject({
      reason: "receiver_paused",
      last_error: "HTTP 503",
      next_attempt_at: null,
    });
    inbox.react = () => 200;
    await notifications.resume("service:1");
    await stage.nothingWaits();
    expect(await shown(first?.id ?? "")).toMatchObject({
      state: "delivered",
      reason: null,
      last_error: null,
    });
    expect(await notifications.receivers()).toMatchObject({
      items: [{ failures: 0, failing_since: null, last_error: null }],
    });
  });

  it("logs one line when a receiver begins to fail, one when its circuit opens, and one when it works again", async () => {
    await stage.close();
    await start({ retryDelays: Array.from({ length: 8 }, () => 0.01) });
    const sub = await stage.one("/a");
    const secret = "an answer of the receiver";
    const lines = (): object[] =>
      stage.log
        .map((line) => JSON.parse(line) as { receiver?: string; msg: string })
        .filter(({ receiver }) => receiver !== undefined);
    const fail = async (times: number): Promise<void> => {
      let left = times;
      inbox.react = () => (response) => response.writeHead(left-- > 0 ? 503 : 200).end(secret);
      const recovered = new Promise((resolve) => void service.events.once("receiver.recovered", resolve));
      await service.accounts.update(sub, { name: `Bob ${times} ${Math.random()}` });
      await recovered;
    };
    await fail(7);
    const receiver = "service:1";
    const begins = { level: 40, receiver, error: "HTTP 503", msg: expect.stringMatching(/fails/u) };
    const opens = { level: 40, receiver, until: expect.any(String), msg: expect.stringMatching(/circuit/u) };
    const ends = {
      level: 40,
      receiver,
      failures: 7,
      seconds: expect.any(Number),
      msg: expect.stringMatching(/works again/u),
    };
    expect(lines()).toMatchObject([begins, opens, ends]);
    // One that fails and works by turns does not fill the log.
    for (let time = 0; time < 3; time += 1) await fail(1);
    expect(lines()).toHaveLength(3);
    // One that is paused because nothing can be sent to it needs somebody.
    inbox.react = () => 410;
    const paused = new Promise((resolve) => void service.events.once("receiver.paused", resolve));
    await service.accounts.update(sub, { name: "Robert" });
    await paused;
    expect(lines().slice(3)).toMatchObject([
      { level: 40, receiver, reason: "it answered 410 Gone", msg: expect.stringMatching(/paused/u) },
    ]);
    expect(await service.notifications.receiver(receiver)).toMatchObject({
      paused: true,
      last_error: "HTTP 410",
    });
    inbox.react = () => 200;
    const works = new Promise((resolve) => void service.events.once("receiver.recovered", resolve));
    await service.notifications.resume(receiver);
    await works;
    expect(lines().slice(4)).toMatchObject([
      { level: 40, receiver, msg: expect.stringMatching(/works again/u) },
    ]);
    expect(stage.log.join("")).not.toContain(secret);
    expect(stage.log.join("")).not.toContain("bob@");
  });

  it("resumes what only waits for another attempt", async () => {
    await stage.close();
    await start({ retryDelays: [600] });
    const sub = await stage.one("/a");
    inbox.react = () => 503;
    const failed = new Promise((resolve) => void service.events.once("delivery.failed", resolve));
    await service.accounts.update(sub, { name: "Bob" });
    await failed;
    inbox.react = () => 200;
    await expect(service.notifications.resume("service:1")).resolves.toMatchObject({ paused: false });
    await stage.nothingWaits();
    expect(inbox.arrived).toHaveLength(2);
  });

  it("keeps the delivery of a receiver with a refused address, and reports why it is paused [D-NOTIFY-18]", async () => {
    await stage.close();
    await start({ allowedReceivers: [] });
    const sub = await stage.one("/a");
    const paused = new Promise((resolve) => service.events.once("receiver.paused", resolve));
    await service.accounts.delete(sub);
    await expect(paused).resolves.toMatchObject({ receiver: "service:1", reason: expect.any(String) });
    await expect(storedDeliveries(service.notifications)).resolves.toMatchObject([
      { state: "waiting", failures: 0 },
    ]);
    expect(inbox.arrived).toEqual([]);
  });

  it("tests a receiver with a notification about no account, without a delivery", async () => {
    await stage.one("/a", { signing_secret: SECRET });
    inbox.react = () => (response) => response.writeHead(202).end("<b>noted</b>");
    const result = await service.notifications.test("service:1");
    expect(result).toMatchObject({
      ok: true,
      status: 202,
      error: null,
      answer: "<b>noted</b>",
      type: "PROFILE_CHANGED",
    });
    const [post] = inbox.arrived;
    expect(post?.id).toBe(result?.id);
    expect(JSON.parse(post?.body ?? "")).toEqual({
      notification_type: "PROFILE_CHANGED",
      data: {
        user_id: 0,
        user_uuid: "00000000-0000-0000-0000-000000000000",
        user_email: "nobody@invalid",
        timestamp: expect.any(Number),
        services: {},
      },
    });
    inbox.react = () => 500;
    await expect(service.notifications.test("service:1")).resolves.toMatchObject({ ok: false, status: 500 });
    await expect(service.notifications.test("service:9")).rejects.toMatchObject({ code: "not_found" });
    await expect(storedDeliveries(service.notifications)).resolves.toEqual([]);
  });

  it("explains which receivers would be notified and why, and sends nothing", async () => {
    const sub = await stage.everything();
    await service.directory.services.put("4", { name: "Silent" });
    await service.accounts.assign(sub, "4", 9);
    await service.notifications.pause("group:media");
    const data = { user_id: 1, user_uuid: sub, user_email: "ada@example.com", timestamp: expect.any(Number) };
    const services = { "1": 1_102_020_202, "2": null };
    await expect(service.notifications.explain({ account: sub, type: "PROFILE_CHANGED" })).resolves.toEqual([
      {
        receiver: "group:media",
        reason: "notified",
        services: ["1", "2"],
        paused: true,
        body: { notification_type: "PROFILE_CHANGED", data: { ...data, services } },
      },
      expect.objectContaining({ receiver: "service:3", reason: "notified", services: ["3"], paused: false }),
      { receiver: "service:4", reason: "no_receiver", services: ["4"], body: null, paused: false },
      {
        receiver: "portal:main",
        reason: "type_not_taken",
        services: ["1", "2", "3", "4"],
        body: null,
        paused: false,
      },
    ]);
    const unassign = { account: sub, type: "UNASSINGED_FROM_SERVICE", services: ["2", "9"] } as const;
    await expect(service.notifications.explain(unassign)).resolves.toMatchObject([
      { receiver: "group:media", body: { data: { services: { "2": null } } } },
      { receiver: "portal:main", reason: "type_not_taken" },
    ]);
    await expect(service.notifications.explain({ ...unassign, services: ["9"] })).resolves.toEqual([]);
    await expect(
      service.notifications.explain({ account: "none", type: "DELETE_ACCOUNT" }),
    ).rejects.toMatchObject({ code: "not_found" });
    expect(inbox.arrived).toEqual([]);
  });

  it("lists the acknowledgements of a deleted account", async () => {
    const sub = await stage.everything();
    inbox.react = ({ path }) => (path === "/portal" ? 500 : 200);
    await service.accounts.delete(sub);
    await stage.nothingWaits();
    await expect(service.notifications.acknowledgements(sub)).resolves.toMatchObject([
      {
        receiver: "group:media",
        type: "DELETE_ACCOUNT",
        state: "delivered",
        acknowledged_at: expect.any(Number),
      },
      { receiver: "portal:main", type: "DELETE_ACCOUNT", state: "parked", acknowledged_at: null },
    ]);
    await expect(service.notifications.acknowledgements("none")).resolves.toEqual([]);
    // An acknowledgement remains after a redrive.
    const [group] = await service.notifications.acknowledgements(sub);
    inbox.react = () => 500;
    await service.notifications.redrive(group?.id ?? "");
    await stage.nothingWaits();
    const [again, portal] = await service.notifications.acknowledgements(sub);
    expect(again).toMatchObject({ id: group?.id, state: "parked" });
    // The storage may have a slightly later time.
    expect(Math.abs(Number(again?.acknowledged_at) - Number(group?.acknowledged_at))).toBeLessThan(60);
    expect(portal?.acknowledged_at).toBeNull();
  });

  it("refuses invalid arguments and names the option", async () => {
    const { notifications } = service;
    const wrong: [() => Promise<unknown>, string][] = [
      [() => notifications.list({ limit: 1_001 }), "filter.limit"],
      [() => notifications.list({ state: "gone" as never }), "filter.state"],
      [() => notifications.list({ reciever: "x" } as never), "did you mean receiver?"],
      [
        () => notifications.list({ type: "UNASSIGNED" as never }),
        "filter.type: must be one of DELETE_ACCOUNT",
      ],
      [() => notifications.list({ receiver: "news" }), "filter.receiver: must be service:KEY"],
      [() => notifications.list({ account: "ada@example.com" }), "filter.account: "],
      [() => notifications.receivers({ limit: 0 }), "filter.limit"],
      [() => notifications.find(1 as never), "id"],
      [() => notifications.redrive("x", { force: 1 as never }), "delivery.force"],
      [() => notifications.pause("service:x", { reason: "" }), "receiver.reason"],
      [() => notifications.pause("x"), "receiver: must be service:KEY"],
      [() => notifications.explain({ account: "x", type: "UNASSIGNED" as never }), "delivery.type"],
      [() => notifications.redriveAll({ state: "waiting" } as never), "state"],
    ];
    for (const [call, text] of wrong) await expect(call()).rejects.toThrow(text);
  });
});
