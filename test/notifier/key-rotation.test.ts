/** A rotation of `keys.secrets` while notifications wait. */
import { join } from "node:path";
import { beforeEach, expect, it } from "@jest/globals";
import { pino } from "pino";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { verifyNotification } from "../../receiver/verify.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { newFolder, closing } from "../closing.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const [OLD, NEW] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64"));
const SIGNING = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

let folder: string;
let inbox: Inbox;
beforeEach(async () => {
  folder = newFolder();
  inbox = closing(await openInbox());
});

function start(...secrets: (string | undefined)[]): Promise<SignInService> {
  return createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    keys: { secrets: secrets.filter((secret) => secret !== undefined) },
    logger: pino({ level: "silent" }),
    notifications: { allowedReceivers: ["127.0.0.1"], poll: 0.05 },
  });
}

it("notifications of the old key are sent with the new one, in order, with the receiver's credentials", async () => {
  const before = await start(OLD);
  const receiver = {
    url: inbox.url("/shop"),
    client_id: "shop",
    client_secret: "of the shop",
    types: ["PROFILE_CHANGED"],
    signing_secret: SIGNING,
  } as const;
  await before.directory.services.put("1", { name: "Shop", receiver });
  const { sub } = await before.accounts.import({ email: "ada@example.com", services: { "1": 7 } });
  await before.accounts.update(sub, { name: "Ada" });
  await inbox.until((arrived) => arrived.length === 1);
  await before.notifications.pause("service:1");
  await before.accounts.update(sub, { name: "Augusta" });
  await before.close();

  const after = await start(NEW, OLD);
  await after.accounts.update(sub, { name: "Ada Augusta" });
  await after.notifications.resume("service:1");
  await inbox.until((arrived) => arrived.length === 3);
  const ids = (await storedDeliveries(after.notifications, { account: sub })).map(({ id }) => id);
  expect(inbox.arrived.map(({ id }) => id)).toEqual(ids);
  for (const { headers, body } of inbox.arrived) {
    expect(verifyNotification(headers, body, [SIGNING]).data.user_uuid).toBe(sub);
    expect(headers.authorization).toBe(`Basic ${Buffer.from("shop:of the shop").toString("base64")}`);
  }
  await after.close();

  await expect(start(NEW)).rejects.toMatchObject({ code: "unusable_secrets" });
});

it("notifications that a process without the new key could not open are parked, and can be redriven", async () => {
  const late = await start(OLD);
  const receiver = {
    url: inbox.url("/shop"),
    client_id: "shop",
    client_secret: "of the shop",
    types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"],
  } as const;
  await late.directory.services.put("1", { name: "Shop", receiver });
  const { sub } = await late.accounts.import({ email: "ada@example.com", services: { "1": 7 } });
  await late.notifications.pause("service:1");
  const early = await start(NEW, OLD);
  await early.accounts.update(sub, { name: "Ada" });
  await early.accounts.delete(sub);
  await early.close();
  const parked: unknown[] = [];
  const bothParked = new Promise<void>((resolve) => {
    late.events.on("delivery.parked", ({ reason }) => {
      if (parked.push(reason) === 2) resolve();
    });
  });
  await late.notifications.resume("service:1");
  await bothParked;
  expect(parked).toEqual(["payload_unreadable", "payload_unreadable"]);
  expect(inbox.arrived).toEqual([]);
  await late.close();

  const all = await start(NEW, OLD);
  await expect(all.notifications.redriveAll()).resolves.toMatchObject({ redriven: 2 });
  await inbox.until((arrived) => arrived.length === 2);
  expect(inbox.arrived.map(({ id }) => id)).toEqual(
    (await storedDeliveries(all.notifications, { account: sub })).map(({ id }) => id),
  );
  await all.close();
});
