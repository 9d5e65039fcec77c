/** Faults of each server that begin in the middle of every request and last until all requests are answered. */
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { type Server, SERVERS, through } from "../adapters/backends.ts";
import { rounds } from "../rounds.ts";
import { Wire as Line } from "../servers/wire.ts";
import { browserSteps } from "./browser-steps.ts";
import { clientSteps } from "./client-steps.ts";
import { send, sendPatiently } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";
import { expectUnavailable } from "./unavailable.ts";
import { closing } from "../closing.ts";

/** Milliseconds for a test; a busy machine needs most of it. */
const TEST_TIMEOUT_MS = 300_000;
/** Milliseconds that a slow server takes longer: more than a request may take. */
const SLOW = 6_000;

const steps: readonly Step[] = [...browserSteps, ...clientSteps];

let server: Server;
let line: Line;
let stage: Stage;

interface Fault {
  readonly name: string;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** The call of the store before which each request waits until the fault has begun. */
  readonly at: readonly number[];
}

const FAULTS: readonly Fault[] = [
  { name: "stands still", begin: () => server.pause(), end: () => server.resume(), at: [3, 1, 4] },
  { name: "is killed and started again", begin: () => server.kill(), end: () => server.start(), at: [2, 5] },
  {
    name: "is slow",
    begin: () => (line.lag = SLOW),
    end() {
      line.lag = 0;
      line.cut();
    },
    at: [3],
  },
];

/** Outside `npm run test:all`: only a server that hangs, and one that is killed. */
const CASES = FAULTS.slice(0, rounds(2, FAULTS.length)).flatMap((fault) =>
  fault.at.slice(0, rounds(1, fault.at.length)).map((at) => [fault.name, at, fault] as const),
);

async function untilHealthy(): Promise<void> {
  while (!(await stage.service.health()).ok) await pause(20);
}

type Prepared = readonly [Step, Ready];

/** A few at a time: the waits of one overlap with the work of the others, and a busy server still keeps its deadlines. */
function* groups<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += 4) yield items.slice(at, at + 4);
}

/** Sends one request of each step, and begins the fault when each has reached its call number `at`, or is answered. */
async function answersDuring({ begin }: Fault, all: readonly Prepared[], at: number): Promise<Response[]> {
  const gate = stage.storage.holdRequests(at);
  let answered = 0;
  const requests = all.map(async ([{ page }, { wire }]) => {
    const accept = page ? { accept: "text/html" } : {};
    const response = await send({ ...wire, headers: { ...wire.headers, ...accept } });
    answered += 1;
    return response;
  });
  while (gate.held + answered < all.length) await pause(5);
  await begin();
  gate.open();
  return Promise.all(requests);
}

describe.each(SERVERS)("a $name", ({ name, start }) => {
  /** The part of the storage that it keeps; the rest is in SQLite. */
  const part = name === "Redis" ? "artifacts" : "storage";

  describe("behind a service", () => {
    beforeAll(async () => {
      server = await start();
      const address = await server.newAddress();
      line = closing(await Line.to(Number(new URL(address).port)));
      const keys = { secrets: [randomBytes(32).toString("base64")] };
      stage = closing(await openStage({ [part]: through(line.port, address), keys }));
    }, TEST_TIMEOUT_MS);
    afterAll(async () => {
      await server.close();
    });

    it.each(CASES)(
      "that %s from call %i of every request on: 503, and the same request sent again succeeds [ERR-9, D-TOKEN-5]",
      async (_name, at, fault) => {
        await untilHealthy();
        const all: Prepared[] = [];
        for (const some of groups(steps))
          all.push(
            ...(await Promise.all(some.map(async (step) => [step, await step.prepare(stage)] as const))),
          );
        const answers = await answersDuring(fault, all, at);
        const { parts } = await stage.service.health();
        await fault.end();
        for (const [each, { ok }] of Object.entries(parts))
          if (["storage", "artifacts"].includes(each)) expect([each, ok]).toEqual([each, each !== part]);
        await untilHealthy();
        const refused = answers.filter(({ status }) => status === 503).length;
        for (const some of groups([...all.entries()]))
          await Promise.all(
            some.map(async ([index, [step, { wire, good }]]) => {
              const answer = answers[index]!;
              if (answer.status !== 503) return good(answer);
              await expectUnavailable(answer, step.page === true, step.name);
              return good(await sendPatiently(wire));
            }),
          );
        expect(refused).toBeGreaterThan(0);
      },
      TEST_TIMEOUT_MS,
    );
  });
});
