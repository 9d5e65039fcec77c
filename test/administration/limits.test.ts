/** What viewers and support may do in an hour, by tokens and in the console alike. */
import { createSecretKey } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import type { Administrator } from "../../administration/administrator.ts";
import { createHourlyLimits, type HourlyLimits } from "../../administration/limits.ts";
import type { ServiceEvents } from "../../core/events.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { beforeTests } from "../closing.ts";
import { startAdministered } from "./listener-stage.ts";

const HOUR = 3_600;
const KEY = createSecretKey(Buffer.alloc(32, 7));
const clock = new TestClock();
const running = beforeTests(() =>
  startAdministered({
    config: { clock, notifications: { worker: false, allowedReceivers: ["127.0.0.1"] } },
  }),
);

let number = 0;
const somebody = (role: Administrator["role"], kind: "token" | "operator" = "token"): Administrator => ({
  actor: { kind, id: `${kind}-${(number += 1)}` },
  role,
});

/** The limits of another process with the same storage. */
function ofProcess(): HourlyLimits {
  const { service, storage } = running;
  return createHourlyLimits({
    configuration: service.configuration,
    storage,
    keys: { administration: KEY },
    events: service.events,
  });
}

/** How many of the calls were allowed; the others have reached the limit. */
async function allowed(calls: readonly Promise<void>[]): Promise<number> {
  const settled = await Promise.allSettled(calls);
  for (const each of settled)
    if (each.status === "rejected") expect(each.reason).toMatchObject({ code: "limit_reached" });
  return settled.filter(({ status }) => status === "fulfilled").length;
}

const people = (count: number): string[] => Array.from({ length: count }, () => crypto.randomUUID());

describe.each(["token", "operator"] as const)("an hour of a %s", (kind) => {
  it("has 600 accounts, 60 changes and the factors of 10 people, across processes [D-ADM-91]", async () => {
    const [one, other] = [ofProcess(), ofProcess()];
    const limits = (index: number): HourlyLimits => (index % 2 === 0 ? one : other);
    for (const role of ["viewer", "support"] as const) {
      const who = somebody(role, kind);
      const reads = Array.from({ length: 31 }, (_, index) => limits(index).take(who, "accounts", 20));
      await expect(allowed(reads)).resolves.toBe(30);
      const changes = Array.from({ length: 65 }, (_, index) => limits(index).take(who, "changes", 1));
      await expect(allowed(changes)).resolves.toBe(60);
      const removals = people(12).map((sub, index) => limits(index).take(who, "people", sub));
      await expect(allowed(removals)).resolves.toBe(10);
      // Another one has an hour of its own.
      await expect(allowed([one.take(somebody(role, kind), "accounts", 600)])).resolves.toBe(1);
      clock.advance(HOUR);
      await expect(allowed([one.take(who, "accounts", 600), one.take(who, "changes", 1)])).resolves.toBe(2);
    }
  });
});

const MANY = { receiver: "service:many" };

describe("an hour", () => {
  it("counts a page that is too much as nothing, so that a smaller one fits", async () => {
    const limits = ofProcess();
    const who = somebody("viewer");
    await limits.take(who, "accounts", 590);
    await expect(limits.take(who, "accounts", 11)).rejects.toMatchObject({ code: "limit_reached" });
    await expect(limits.take(who, "accounts", 10)).resolves.toBeUndefined();
    await expect(limits.take(who, "accounts", 0)).resolves.toBeUndefined();
  });

  it("counts a person once, however many factors they lose", async () => {
    const limits = ofProcess();
    const who = somebody("support");
    const ten = people(10);
    await expect(allowed(ten.map((sub) => limits.take(who, "people", sub)))).resolves.toBe(10);
    await expect(allowed(ten.map((sub) => limits.take(who, "people", sub)))).resolves.toBe(10);
    await expect(allowed(people(1).map((sub) => limits.take(who, "people", sub)))).resolves.toBe(0);
  });

  it("has no end for administrators, and for those of deliveries, who see no account", async () => {
    const limits = ofProcess();
    for (const role of ["administrator", "deliveries"] as const) {
      const who = somebody(role);
      await expect(allowed(Array.from({ length: 100 }, () => limits.take(who, "changes", 1)))).resolves.toBe(
        100,
      );
      await expect(allowed([limits.take(who, "accounts", 5_000)])).resolves.toBe(1);
    }
  });

  it("ends with 429, the time when there is room again, an event and a metric [D-ADM-92]", async () => {
    const { service, admin } = running;
    const { id, token } = await service.tokens.create({ role: "support", expires: HOUR });
    const limited: ServiceEvents["administration.limited"][] = [];
    service.events.on("administration.limited", (event) => limited.push(event));
    const { sub } = await service.accounts.create({ email: "limits@example.org" });
    const change = async (): Promise<Response> =>
      fetch(`${admin}/v1/accounts/${sub}/end-sessions`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: "{}",
      });
    for (let done = 0; done < 60; done += 1) expect((await change()).status).toBeLessThan(300);
    const answer = await change();
    expect([answer.status, answer.headers.get("retry-after"), await answer.json()]).toEqual([
      429,
      String(HOUR),
      expect.objectContaining({ code: "limit_reached" }),
    ]);
    expect(limited).toEqual([{ kind: "token", id, limit: "administration.changes", retry_after: HOUR }]);
    expect(await service.metrics()).toMatch(/limit="administration\.changes"\} [1-9]/u);
  });

  it("counts each delivery that is sent again with all others, or sends none [D-ADM-345]", async () => {
    const { service, storage, admin } = running;
    const { directory, accounts, notifications } = service;
    const receiver = {
      url: "http://127.0.0.1:9/",
      client_id: "r",
      client_secret: "the secret of it",
      types: ["PROFILE_CHANGED"],
    } as const;
    const park = async (key: string, count: number): Promise<void> => {
      await directory.services.put(key, { name: key, receiver });
      const { sub } = await accounts.create({ email: `${key}@example.org` });
      await accounts.assign(sub, key);
      for (let done = 0; done < count; done += 1) await accounts.update(sub, { name: `N${done}` });
      await storage.deliveries.parkWaiting(`service:${key}`, "attempts_used_up", 500);
    };
    for (const [key, count] of [
      ["many", 41],
      ["few", 19],
      ["last", 1],
    ] as const)
      await park(key, count);
    const send = async (token: string, body: object): Promise<readonly unknown[]> => {
      const answer = await fetch(`${admin}/v1/deliveries/redrive-all`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ force: true, ...body }),
      });
      const { redriven, code } = (await answer.json()) as {
        readonly redriven?: number;
        readonly code?: string;
      };
      return [answer.status, redriven ?? code];
    };
    const tokenOf = async (role: "support" | "administrator"): Promise<string> =>
      (await service.tokens.create({ role, expires: HOUR })).token;
    const support = await tokenOf("support");
    const parked = async (): Promise<number> =>
      (await notifications.list({ state: "parked", limit: 200 })).items.length;
    // Together they are more than an hour has, so nothing is counted, and nothing is sent.
    expect([await send(support, {}), await parked()]).toEqual([[429, "limit_reached"], 61]);
    expect(await send(support, { ...MANY, color: "red" })).toEqual([422, "invalid_argument"]);
    expect(await send(support, MANY)).toEqual([200, 41]);
    // Nothing waits there any more: a request is a change all the same.
    expect(await send(support, MANY)).toEqual([200, 0]);
    expect([await send(support, { receiver: "service:few" }), await parked()]).toEqual([
      [429, "limit_reached"],
      20,
    ]);
    expect(await send(support, { receiver: "service:last" })).toEqual([200, 1]);
    expect(await send(await tokenOf("administrator"), {})).toEqual([200, 19]);
  });
});
