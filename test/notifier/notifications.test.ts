import { beforeEach, describe, expect, it } from "@jest/globals";
import { Webhook } from "standardwebhooks";
import type { ServiceEvents } from "../../core/events.ts";
import type { SignInService } from "../../lib/service.ts";
import type { Inbox } from "../flows/inbox.ts";
import { type Notified, startNotified } from "./notified.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const SECRET = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

let stage: Notified;
let inbox: Inbox;
let service: SignInService;

beforeEach(async () => {
  stage = closing(await startNotified());
  ({ inbox, service } = stage);
});

const types = (path: string): string[] =>
  stage.bodies(path).map(({ notification_type }) => notification_type);
const services = (path: string): object[] => stage.bodies(path).map(({ data }) => data.services);

describe("a notification", () => {
  it("is posted to each receiver that is configured for the action", async () => {
    const sub = await stage.everything();
    await service.accounts.update(sub, { name: "Ada", email: "countess@example.com" });
    await service.accounts.unassign(sub, ["1", "3"]);
    await service.accounts.delete(sub);
    await stage.nothingWaits();
    expect(types("/group")).toEqual(["PROFILE_CHANGED", "UNASSINGED_FROM_SERVICE", "DELETE_ACCOUNT"]);
    expect(types("/shop")).toEqual(["PROFILE_CHANGED"]);
    expect(types("/portal")).toEqual(["DELETE_ACCOUNT"]);
    expect(services("/group")).toEqual([
      { "1": 1_102_020_202, "2": null },
      { "1": 1_102_020_202 },
      { "2": null },
    ]);
    expect(services("/shop")).toEqual([{ "3": 7 }]);
    expect(services("/portal")).toEqual([{ "2": null }]);
  });

  it("has the documented members in their order, and no other", async () => {
    const sub = await stage.one("/a");
    const account = await service.accounts.find(sub);
    inbox.react = () => (inbox.arrived.length === 1 ? 500 : 200);
    const before = Math.floor(Date.now() / 1000);
    await service.accounts.update(sub, { email: "łucja@example.com" });
    const after = Math.floor(Date.now() / 1000);
    await stage.nothingWaits();
    const [first, second] = inbox.arrived;
    const [, timestamp] = /"timestamp":(\d+)/.exec(first?.body ?? "") ?? [];
    expect(first?.body).toBe(
      `{"notification_type":"PROFILE_CHANGED","data":{"user_id":${account?.user_id},"user_uuid":"${sub}","user_email":"łucja@example.com","timestamp":${timestamp},"services":{"1":5}}}`,
    );
    expect(Number(timestamp)).toBeGreaterThanOrEqual(before);
    expect(Number(timestamp)).toBeLessThanOrEqual(after);
    // The timestamp is that of the action, so retries have the same body.
    expect(second?.body).toBe(first?.body);
  });

  it("has the credentials, the same id on every attempt, and a signature [NOTIFY-2, NOTIFY-4, D-NOTIFY-5, D-NOTIFY-11]", async () => {
    const sub = await stage.one("/a", { signing_secret: SECRET });
    inbox.react = () => (inbox.arrived.length < 3 ? 503 : 204);
    await service.accounts.update(sub, { name: "Bob" });
    await stage.nothingWaits();
    expect(inbox.arrived).toHaveLength(3);
    const [delivery] = await storedDeliveries(service.notifications);
    for (const { headers, body, method, id } of inbox.arrived) {
      expect([method, id]).toEqual(["POST", delivery?.id]);
      expect(headers["content-type"]).toBe("application/json");
      const [scheme, encoded = ""] = String(headers.authorization).split(" ");
      expect([scheme, Buffer.from(encoded, "base64").toString()]).toEqual([
        "Basic",
        "client /a:of the receiver: %+ä",
      ]);
      expect(new Webhook(SECRET).verify(body, headers as Record<string, string>)).toEqual(JSON.parse(body));
    }
    expect(delivery).toMatchObject({ state: "delivered", attempts: 3, receiver: "service:1", sub });
  });

  it("about one user arrives in the order of the actions, even after failures [D-NOTIFY-16]", async () => {
    const sub = await stage.one("/a");
    const other = await service.accounts.import({ email: "eve@example.com", services: { "1": 6 } });
    let failures = 0;
    inbox.react = ({ body }) => (body.includes(sub) && (failures += 1) <= 2 ? 500 : 200);
    for (const name of ["one", "two", "three"]) {
      await service.accounts.update(sub, { name });
      await service.accounts.update(other.sub, { name });
    }
    await stage.nothingWaits();
    const own = inbox.arrived.filter(({ body }) => body.includes(sub)).map(({ id }) => id);
    const stored = (await storedDeliveries(service.notifications, { account: sub })).map(({ id }) => id);
    expect(own).toEqual([stored[0], stored[0], ...stored]);
  });

  it("is not in logs, events and metrics, and neither are responses and credentials", async () => {
    const emitted: string[] = [];
    const names = [
      "delivery.succeeded",
      "delivery.failed",
      "delivery.parked",
      "receiver.paused",
      "fault",
    ] as const;
    for (const name of names) {
      service.events.on(
        name,
        (argument: ServiceEvents[typeof name]) => void emitted.push(JSON.stringify(argument)),
      );
    }
    const sub = await stage.one("/a", { signing_secret: SECRET });
    inbox.react = () => (response) => response.writeHead(500).end("the secret of an answer");
    await service.accounts.update(sub, { email: "private@example.com" });
    await service.accounts.update(sub, { email: "private2@example.com" });
    await stage.nothingWaits();
    expect(emitted.length).toBeGreaterThan(5);
    const health = JSON.stringify(await service.health());
    const all = [...stage.log, ...emitted, await service.metrics(), health].join("\n");
    for (const secret of [
      "private",
      "example.com",
      "of the receiver",
      "secret of an answer",
      SECRET.slice(6),
    ]) {
      expect(all).not.toContain(secret);
    }
    expect(health).toContain("0 waiting, 2 parked");
  });
});
