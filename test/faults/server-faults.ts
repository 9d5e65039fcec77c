/** Faults of a server behind a service that begin in the middle of every request and last until all are answered. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "@jest/globals";
import { browserSteps } from "./browser-steps.ts";
import { clientSteps } from "./client-steps.ts";
import { send, sendPatiently } from "./person.ts";
import type { Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";
import { expectUnavailable } from "./unavailable.ts";

/** Milliseconds for a test; a busy machine needs most of it. */
export const PATIENCE = 300_000;
/** Milliseconds that a slow server is slow: longer than a request may take. */
export const SLOW = 6_000;

const steps: readonly Step[] = [...browserSteps, ...clientSteps];

export interface Fault {
  readonly name: string;
  /** The part of the storage that health says is away. */
  readonly part: string;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** Before which of its calls of the store each request is held until the fault has begun. */
  readonly at: readonly number[];
}

async function untilHealthy(stage: Stage): Promise<void> {
  while (!(await stage.service.health()).ok) await pause(20);
}

/** Sends one request of each step, and begins the fault when each is at its call number `at`, or is answered. */
async function answersDuring(
  stage: Stage,
  { begin }: Fault,
  all: readonly (readonly [Step, Ready])[],
  at: number,
): Promise<Response[]> {
  const gate = stage.storage.holdRequests(at);
  let answered = 0;
  const asked = all.map(async ([{ page }, { wire }]) => {
    const accept = page ? { accept: "text/html" } : {};
    const response = await send({ ...wire, headers: { ...wire.headers, ...accept } });
    answered += 1;
    return response;
  });
  while (gate.held + answered < all.length) await pause(5);
  await begin();
  gate.open();
  return Promise.all(asked);
}

/** @param stageOf the service, once it has been started. */
export function itSurvives(faults: readonly Fault[], stageOf: () => Stage): void {
  const rounds = faults.flatMap((fault) => fault.at.map((at) => [fault.name, at, fault] as const));

  it.each(rounds)(
    "%s from call %i of every request on: 503, and the same request sent again succeeds [ERR-9, D-TOKEN-5]",
    async (_name, at, fault) => {
      const stage = stageOf();
      await untilHealthy(stage);
      const all: (readonly [Step, Ready])[] = [];
      for (const step of steps) all.push([step, await step.prepare(stage)]);
      const answers = await answersDuring(stage, fault, all, at);
      const { parts } = await stage.service.health();
      await fault.end();
      for (const name of ["storage", "artifacts"]) {
        if (name in parts) expect([name, parts[name]?.ok]).toEqual([name, name !== fault.part]);
      }
      await untilHealthy(stage);
      let refused = 0;
      for (const [index, [step, { wire, good }]] of all.entries()) {
        const answer = answers[index]!;
        if (answer.status === 503) {
          refused += 1;
          await expectUnavailable(answer, step.page === true, step.name);
          await good(await sendPatiently(wire));
        } else await good(answer);
      }
      expect(refused).toBeGreaterThan(0);
    },
    PATIENCE,
  );
}
