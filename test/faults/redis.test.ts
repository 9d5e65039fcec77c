/** Faults of a Redis that keeps codes, tokens and sessions, in the middle of every request. */
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { rounds } from "../rounds.ts";
import { Wire as Line } from "../servers/wire.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import { browserSteps } from "./browser-steps.ts";
import { clientSteps } from "./client-steps.ts";
import { exchange, send, signedIn, tokensOf, type Wire } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";
import type { Step } from "./step.ts";
import { expectUnavailable } from "./unavailable.ts";
import { closing } from "../closing.ts";

/** More answers of Redis than any request waits for. */
const MOST = 40;
/** Every answer of a request is lost once; outside `npm run test:all` every other one. */
const STRIDE = rounds(2, 1);

const steps: readonly Step[] = [...browserSteps, ...clientSteps];

let redis: OwnRedis;
let line: Line;
let stage: Stage;

beforeAll(async () => {
  redis = closing(await openOwnRedis());
  line = closing(await Line.to(Number(new URL(redis.url).port)));
  stage = closing(await openStage({ artifacts: `redis://127.0.0.1:${line.port}` }));
});
afterEach(() => redis.resume());

/** The request as the caller of the step sends it. */
function asking({ wire }: { readonly wire: Wire }, { page }: Step): Wire {
  return page ? { ...wire, headers: { ...wire.headers, accept: "text/html" } } : wire;
}

async function untilHealthy(): Promise<void> {
  while (!(await stage.service.health()).ok) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Sends a request as a client does that got a 503: twice if need be, as a busy machine may lose a connection of its own. */
async function sendAgain(wire: Wire): Promise<Response> {
  await untilHealthy();
  const response = await send(wire);
  if (response.status !== 503) return response;
  await untilHealthy();
  return send(wire);
}

/** Loses the answer number `at` of Redis. @returns `false` if the request waits for fewer answers. */
async function walkOne(step: Step, at: number): Promise<boolean> {
  await untilHealthy();
  const ready = await step.prepare(stage);
  void line.loseAnswer(at);
  const response = await send(asking(ready, step));
  const isOver = line.loseNothing();
  if (response.status === 503) {
    await expectUnavailable(response, step.page === true, `${step.name}, answer ${at}`);
    await ready.good(await sendAgain(ready.wire));
  } else {
    await untilHealthy();
    await ready.good(response);
  }
  return !isOver;
}

describe("a connection to Redis that breaks during a request", () => {
  it.each(steps.map((step) => [step.name, step] as const))(
    "is 503, or invisible when the outcome can be read: %s [ERR-9]",
    async (_name, step) => {
      let at = 1;
      while (at < MOST && (await walkOne(step, at))) at += STRIDE;
      expect(at).toBeLessThan(MOST);
      expect(at === 1).toBe(step.storeless === true);
    },
  );
});

describe("a Redis that hangs", () => {
  it("is 503 at every endpoint, and the same request succeeds when Redis continues [ERR-9]", async () => {
    await untilHealthy();
    const all = [];
    for (const step of steps) all.push({ step, ready: await step.prepare(stage) });
    redis.pause();
    const answers = await Promise.all(all.map(({ step, ready }) => send(asking(ready, step))));
    const health = await stage.service.health();
    redis.resume();
    expect(health).toMatchObject({ ok: false, parts: { storage: { ok: true }, artifacts: { ok: false } } });
    await untilHealthy();
    for (const [index, { step, ready }] of all.entries()) {
      if (!step.storeless) await expectUnavailable(answers[index]!, step.page === true, step.name);
      await ready.good(await send(ready.wire));
    }
  });

  it("during an exchange: the code works once when Redis continues after the 503 [D-TOKEN-5]", async () => {
    const { news } = stage.clients;
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, news, code);
    const commit = stage.storage.hold("artifacts.commit");
    const asked = send(wire);
    await commit.reached;
    redis.pause();
    commit.release();
    await expectUnavailable(await asked, false, "exchange");
    redis.resume();
    await untilHealthy();
    const answers = await Promise.all([send(wire), send(wire)]);
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 400]);
  });

  it("and continues in time: the waiting request succeeds", async () => {
    const { news } = stage.clients;
    const { code } = await signedIn(stage);
    const commit = stage.storage.hold("artifacts.commit");
    const asked = send(exchange(stage.oauth2, news, code));
    await commit.reached;
    redis.pause();
    commit.release();
    setTimeout(() => redis.resume(), 1000);
    await tokensOf(await asked);
  });
});

it("a Redis that is slow: every request takes longer and succeeds", async () => {
  await untilHealthy();
  const all = [];
  for (const step of steps) all.push({ step, ready: await step.prepare(stage) });
  line.delay = 100;
  const answers = await Promise.all(all.map(({ step, ready }) => send(asking(ready, step))));
  line.delay = 0;
  for (const [index, { ready }] of all.entries()) await ready.good(answers[index]!);
});

it("a Redis that restarts empty: people sign in again, and no process restarts", async () => {
  await untilHealthy();
  const { code } = await signedIn(stage);
  await redis.stop();
  await expectUnavailable(await send(exchange(stage.oauth2, stage.clients.news, code)), false, "stopped");
  await redis.start();
  await untilHealthy();
  expect((await send(exchange(stage.oauth2, stage.clients.news, code))).status).toBe(400);
  const again = await signedIn(stage);
  await tokensOf(await send(exchange(stage.oauth2, stage.clients.news, again.code)));
});
