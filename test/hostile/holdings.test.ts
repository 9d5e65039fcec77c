/** What one account may own, and how long: grants and sessions, as they are stored. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createSignInServiceOver } from "../../lib/service.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { followClock } from "../../testing/provider-clock.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { DeviceParty, TELEVISION } from "../flows/device-party.ts";
import { type RelyingParty, readTokens, relyingParty } from "../flows/relying-party.ts";
import {
  ADA,
  NEWS,
  type RunningOptions,
  type RunningService,
  startService,
} from "../flows/running-service.ts";

const DAY = 86_400;

let clock: TestClock;
let storage: Storage;
let running: RunningService;
let news: RelyingParty;

async function start(config: RunningOptions["config"] = {}): Promise<void> {
  clock = new TestClock();
  running = await startService({
    config: { clock, ...config },
    start: (each) =>
      createSignInServiceOver(each, async (opened) => (storage = await openStorage(opened)), {
        onProvider: followClock,
      }),
  });
  news = relyingParty(running, "openid", NEWS);
}
beforeEach(() => start());
afterEach(async () => {
  expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  await running.close();
});

/** How many grants of Ada at this client are stored. */
async function grants(client: string = NEWS.client_id): Promise<number> {
  const all = await storage.artifacts.grantsOf(running.ada.sub);
  return all.filter(({ clientId }) => clientId === client).length;
}

describe("a grant", () => {
  it("lives as long as its code, and ten minutes, until the code is exchanged [D-OWN-2]", async () => {
    const browser = news.browser();
    await news.code({}, ADA, browser);
    const { refresh_token } = readTokens(await news.exchange(await news.code({}, ADA, browser)));
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
    const television = new DeviceParty(running, "openid");
    const [fetched, forgotten] = [await television.codes(), await television.codes()];
    for (const codes of [fetched, forgotten]) await television.connect(codes);
    const { body } = await television.poll(fetched);
    expect(await grants(TELEVISION.client_id)).toBe(2);
    clock.advance(600 + 660);
    expect(await grants(TELEVISION.client_id)).toBe(1);
    clock.advance(29 * DAY);
    expect((await television.refresh(body["refresh_token"])).status).toBe(200);
  });
});
