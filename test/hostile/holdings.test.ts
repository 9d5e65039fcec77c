/** What one account may own, and how long: grants and sessions, as they are stored. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { setImmediate } from "node:timers/promises";
import { formOf } from "../interactions/console-visitor.ts";
import { artifactRecord } from "../../records/artifacts/artifact-kinds.ts";
import type { ArtifactQuery } from "../../records/artifacts/artifact.ts";
import { Changes } from "../../records/records.ts";
import { httpPeer } from "../notifier/peers.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { connect, TELEVISION } from "../flows/devices.ts";
import { clientAt, signedIn } from "../flows/clients.ts";
import { type TestClient, readTokens } from "../../testing/test-client.ts";
import {
  ADA,
  NEWS,
  type RunningOptions,
  type RunningService,
  startService,
} from "../flows/running-service.ts";

const DAY = 86_400;

let clock: TestClock;
let running: RunningService;
let news: TestClient;

async function start(config: RunningOptions["config"] = {}): Promise<void> {
  clock = new TestClock();
  running = await startService({
    config: { clock, ...config },
  });
  news = clientAt(running, "openid", NEWS);
}
beforeEach(() => start());

/** How many grants of Ada at this client are stored. */
async function grants(client: string = NEWS.client_id): Promise<number> {
  const page = await running.storage.artifacts.page(
    { model: "Grant", account: running.ada.sub },
    { limit: 1_000 },
  );
  return page.artifacts.filter(({ clientId }) => clientId === client).length;
}

describe("a grant", () => {
  it("lives as long as its code, and ten minutes, until the code is exchanged [D-OWN-2]", async () => {
    const browser = news.browser();
    await news.code({ ...ADA, browser });
    const { refresh_token } = readTokens(await news.exchange(await news.code({ ...ADA, browser })));
    expect(await grants()).toBe(2);
    clock.advance(60 + 659);
    expect(await grants()).toBe(2);
    clock.advance(1);
    expect(await grants()).toBe(1);
    clock.advance(29 * DAY);
    expect((await news.refresh(refresh_token)).status).toBe(200);
  });

  it("of a device lives as long as its code, and ten minutes, until the device fetches its tokens [D-OWN-2]", async () => {
    await running.service.clients.register(TELEVISION);
    const television = clientAt(running, "openid", TELEVISION);
    const [fetched, forgotten] = [await television.deviceCodes(), await television.deviceCodes()];
    for (const codes of [fetched, forgotten]) await connect(codes);
    const { body } = await television.poll(fetched);
    expect(await grants(TELEVISION.client_id)).toBe(2);
    clock.advance(600 + 660);
    expect(await grants(TELEVISION.client_id)).toBe(1);
    clock.advance(29 * DAY);
    expect((await television.refresh(body["refresh_token"])).status).toBe(200);
  });
});

/** Stores copies of an artifact of Ada: as many as somebody could have made. */
async function multiply(
  model: "Session" | "Grant",
  client: string | undefined,
  count: number,
): Promise<void> {
  const { artifacts } = running.storage;
  const account = running.ada.sub;
  const query: ArtifactQuery =
    model === "Session" || client === undefined ? { model, account } : { model, holder: { account, client } };
  const { version: _version, ...one } = (await artifacts.page(query, { limit: 1 })).artifacts[0]!;
  for (let at = 0; at < count; at += 500) {
    const changes = new Changes();
    for (let index = at; index < Math.min(count, at + 500); index += 1) {
      const key = `${model}-${index}`;
      const copy = { ...one, key, ...(model === "Session" && { uid: `uid-${index}` }) };
      changes.add(artifactRecord({ ...copy, ...(model === "Grant" && { grantKey: key }) }));
    }
    await artifacts.commit(changes, clock.now() + 60_000);
  }
}

const left = async (model: "Session" | "Grant"): Promise<number> =>
  running.storage.artifacts.count({ model, account: running.ada.sub }, 1_000);

/** Resolves when no more than this are stored. */
async function untilLeft(model: "Session" | "Grant", most: number): Promise<void> {
  while ((await left(model)) > most) await setImmediate();
}

describe("an account that owns too much", () => {
  const LIMITLESS = { limits: { sessions: false, grants: false } } as const;

  it("ends 2,000 sessions in one request: the others are out at once, and a client gets ten logout tokens at a time [D-OWN-4, D-OWN-5]", async () => {
    await running.close();
    const open = { now: 0, most: 0, all: 0 };
    const peer = await httpPeer((_request, response) => {
      open.now += 1;
      open.all += 1;
      open.most = Math.max(open.most, open.now);
      response.on("close", () => (open.now -= 1));
      setTimeout(() => response.writeHead(204).end(), 5);
    });
    await start({ ...LIMITLESS, notifications: { allowedReceivers: ["127.0.0.1"] } });
    const logout = `http://127.0.0.1:${peer.port}/logout`;
    await running.service.clients.update(NEWS.client_id, { backchannel_logout_uri: logout });
    const other = news.browser();
    await news.code({ ...ADA, browser: other }, { scope: "openid" });
    await multiply("Session", undefined, 2_000);
    const { promise: allDelivered, resolve } = Promise.withResolvers<void>();
    let delivered = 0;
    running.service.events.on("backchannel.delivered", () => {
      delivered += 1;
      if (delivered === 2_001) resolve();
    });
    const mine = await signedIn(running.openid);
    await mine.get(`${running.openid}/account/sessions`);
    // Fifty others at most, this one, and the navigation.
    expect((mine.html.match(/name="session"/g) ?? []).length).toBeLessThan(51);
    await mine.submit(formOf(mine, "others"));
    expect([mine.status, await news.silently(other)]).toEqual([200, "login_required"]);
    await untilLeft("Session", 1);
    await allDelivered;
    await running.close();
    // A slow machine makes the service try some again.
    expect(open).toMatchObject({ now: 0, most: 10 });
    expect(open.all).toBeGreaterThanOrEqual(2_001);
    await peer.close();
    await start();
  });

  it("disconnects a service with 5,000 grants in one request, and shows its pages like any other [D-OWN-4]", async () => {
    await running.close();
    await start(LIMITLESS);
    await running.service.clients.register(TELEVISION);
    const tokens = await news.signIn(ADA);
    await multiply("Grant", NEWS.client_id, 5_000);
    const television = clientAt(running, "openid", TELEVISION);
    await connect(await television.deviceCodes());
    await multiply("Grant", TELEVISION.client_id, 120);
    const browser = await signedIn(running.openid);
    const reads = countReads();
    await browser.get(`${running.openid}/account/services`);
    expect(browser.html).toContain(TELEVISION.name);
    expect(reads()).toBeLessThan(100);
    const devices = [(browser.html.match(/name="device"/g) ?? []).length];
    while (browser.html.includes("Next page")) {
      await browser.click("Next page");
      devices.push((browser.html.match(/name="device"/g) ?? []).length);
    }
    expect(devices).toEqual([50, 50, 21]);
    await browser.click("First page");
    await browser.submit(browser.form("service"), { service: NEWS.service });
    expect([browser.status, (await news.userinfo(tokens.access_token)).status]).toEqual([200, 400]);
    await untilLeft("Grant", 200);
  });

  it("follows no page that was made for somebody else [D-OWN-4]", async () => {
    const browser = await signedIn(running.openid);
    for (const after of ["1", "x", "__proto__", "0 0", "a".repeat(5_000), "\u0000"])
      for (const page of ["sessions", "services"]) {
        await browser.get(`${running.openid}/account/${page}?${new URLSearchParams({ after })}`);
        expect([400, 200]).toContain(browser.status);
      }
  });
});

/** Counts the records that pages of artifacts return from now on. */
function countReads(): () => number {
  const { artifacts } = running.storage;
  const page = artifacts.page.bind(artifacts);
  let read = 0;
  Object.assign(artifacts, {
    async page(...parameters: Parameters<typeof page>) {
      const found = await page(...parameters);
      read += found.artifacts.length;
      return found;
    },
  });
  return () => read;
}
