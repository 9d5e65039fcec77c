/** Several services behind one address, which is round-robin, so that they can't rely on memory. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Context } from "koa";
import { pino } from "pino";
import type { SignInService } from "../../lib/service.ts";
import { rounds } from "../rounds.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  type RunningService,
  startService,
  startWithClock,
  storageIn,
  UNLIMITED,
} from "./running-service.ts";
import { newFolder, closing } from "../closing.ts";

/** At once. */
const EXCHANGES = rounds(20, 50);
const GUESSES = rounds(30, 60);

const SERVICES = 4;

let folder: string;
let redis: OwnRedis;
let running: RunningService;
let others: SignInService[] = [];

beforeAll(async () => {
  folder = newFolder();
  redis = closing(await openOwnRedis());
  const config = {
    ...(await storageIn(folder)),
    artifacts: redis.url,
    logger: pino({ level: "silent" }),
    rateLimits: { ...UNLIMITED, passwordGrant: { accountAndClient: { points: 10, seconds: 900 } } },
    notifications: { worker: false },
  };
  let count = 0;
  running = await startService({
    config,
    host: (application) =>
      void application.use((ctx: Context, next) => {
        count += 1;
        const service = others[count % SERVICES];
        return service === undefined ? next() : service.routes()(ctx, next);
      }),
  });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  const more = Array.from({ length: SERVICES - 1 }, () => startWithClock({ ...config, deployments }));
  others = await Promise.all(more);
});
afterAll(async () => {
  await Promise.all(others.map((service) => service.close()));
});

const party = (kind: "oauth2" | "openid" = "openid"): TestClient => clientAt(running, kind, NEWS);

describe("several services behind one address", () => {
  it("share concurrent sign-ins, which all succeed", async () => {
    const signIns = Array.from({ length: rounds(10, 60) }, async (_, index) => {
      const one = party(index % 2 ? "openid" : "oauth2");
      const scope: RequestParameters = index % 2 ? { scope: "openid" } : {};
      const browser = one.browser();
      const tokens = await one.signIn({ ...(index % 3 ? ADA : BOB), browser }, scope);
      const again = await one.refresh(tokens.refresh_token);
      const userinfo = await one.userinfo(tokens.access_token);
      // The session is known to all of them.
      await browser.get(one.authorizeUrl({ prompt: "none" }));
      return [again.status, userinfo.status, browser.location?.searchParams.has("code")];
    });
    for (const userinfo of await Promise.all(signIns)) expect(userinfo).toEqual([200, 200, true]);
  });

  it("give tokens to one of many concurrent exchanges of a code", async () => {
    for (let round = 0; round < 5; round += 1) {
      const code = await party().code(ADA);
      const answers = await Promise.all(Array.from({ length: EXCHANGES }, () => party().exchange(code)));
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 400)).toHaveLength(EXCHANGES - 1);
    }
  });

  it("return one response to all refreshes of a rotating token within the window", async () => {
    await running.service.clients.update(NEWS.client_id, {
      refresh_tokens: { rotate: true, reuseWindow: 60 },
    });
    const { refresh_token } = await party().signIn(ADA);
    const answers = await Promise.all(Array.from({ length: 12 }, () => party().refresh(refresh_token)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(new Set(answers.map(({ body }) => body["refresh_token"])).size).toBe(1);
    await running.service.clients.update(NEWS.client_id, { refresh_tokens: {} });
  });

  it("count guesses together: ten are checked", async () => {
    const wrong = { ...BOB, password: "a wrong password" };
    const answers = await Promise.all(Array.from({ length: GUESSES }, () => party("oauth2").password(wrong)));
    const limited = answers.filter(({ headers }) => headers.has("retry-after"));
    expect([answers.length - limited.length, limited.length]).toEqual([10, GUESSES - 10]);
  });

  it("see the revocations of each other", async () => {
    const tokens = await party().signIn(ADA);
    const last = others.at(-1);
    await last?.accounts.revokeTokens(running.ada.sub);
    for (let count = 0; count < SERVICES; count += 1) {
      expect((await party().userinfo(tokens.access_token)).status).toBe(400);
    }
  });
});
