/** What an account change ends while the separate store of artifacts is unavailable. */
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import type { Accounts } from "../../accounts/operations/accounts.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import { Wire } from "../servers/wire.ts";
import { type Held, Holdings } from "./holdings.ts";
import { clientAt, signIn } from "./clients.ts";
import { NEWS, PARTNER, type RunningService, SHOP, startService } from "./running-service.ts";
import { closing } from "../closing.ts";

let redis: OwnRedis;
let wire: Wire;
let running: RunningService;
let holdings: Holdings;
let accounts: Accounts;

/** The codes of reported faults. */
const faults: unknown[] = [];

beforeAll(async () => {
  redis = closing(await openOwnRedis());
  wire = closing(await Wire.to(Number(new URL(redis.url).port)));
  running = await startService({ config: { artifacts: `redis://127.0.0.1:${wire.port}` } });
  ({ accounts } = running.service);
  holdings = new Holdings(running);
  running.service.events.on("fault", ({ code }) => faults.push(code));
});
afterEach(() => {
  wire.up();
  redis.resume();
});

async function untilHealthy(): Promise<void> {
  while (!(await running.service.health()).ok) await new Promise((resolve) => setTimeout(resolve, 20));
}

type Change = (sub: string) => Promise<unknown>;
type Left = Awaited<ReturnType<Holdings["left"]>>;

const CHANGES: readonly [name: string, change: Change, left: Left][] = [
  ["deletion", (sub) => accounts.delete(sub), [false, false, false]],
  ["a new password", (sub) => accounts.setPassword(sub, "another password"), [false, false, false]],
  ["endSessions", (sub) => accounts.endSessions(sub), [true, true, false]],
  ["revokeTokens", (sub) => accounts.revokeTokens(sub), [false, false, true]],
  ["revokeTokens at a client", (sub) => accounts.revokeTokens(sub, NEWS.client_id), [false, true, true]],
  ["unassignment", (sub) => accounts.unassign(sub, [SHOP.service]), [true, false, true]],
];

describe.each(CHANGES)("%s takes effect immediately", (_name, change, left) => {
  let held: Held;
  beforeAll(async () => {
    await untilHealthy();
    held = await holdings.everything();
  });

  it("if Redis is unreachable [D-ACCOUNT-9]", async () => {
    faults.length = 0;
    wire.down();
    await change(held.account.sub);
    expect(faults).toContain("storage_unavailable");
    wire.up();
    await untilHealthy();
    expect(await holdings.left(held)).toEqual(left);
  });
});

it.each(CHANGES.slice(0, 3))(
  "%s: an open consent page grants nothing, even if its session could not be removed [D-ACCOUNT-9, D-AUTHZ-15]",
  async (_name, change) => {
    await untilHealthy();
    const { account, person } = await holdings.newcomer();
    const party = clientAt(running, "oauth2", PARTNER);
    const browser = party.browser();
    await browser.get(party.authorizeUrl());
    await signIn(browser, person);
    const form = browser.form("decision");
    wire.down();
    await change(account.sub);
    wire.up();
    await untilHealthy();
    await browser.submit(form, { decision: "allow" });
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    const { items: records } = await running.service.audit.list({ account: account.sub });
    const actions = records.map(({ action }) => action);
    expect(actions).not.toContain("account.consented");
    expect(actions).not.toEqual([]);
  },
);

it("deletion and a new password don't wait for a hanging Redis", async () => {
  await untilHealthy();
  const [one, other] = [await holdings.everything(), await holdings.everything()];
  redis.pause();
  const slow = new Promise((resolve) => setTimeout(resolve, 10_000, "too slow"));
  const changes = Promise.all([
    accounts.delete(one.account.sub),
    accounts.setPassword(other.account.sub, "another password"),
  ]);
  await expect(Promise.race([changes, slow])).resolves.not.toBe("too slow");
  redis.resume();
  await untilHealthy();
  expect(await holdings.left(one)).toEqual([false, false, false]);
  expect(await holdings.left(other)).toEqual([false, false, false]);
});
