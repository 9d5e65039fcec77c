/** A batch on its way to Redis, until it is known what became of it. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../lib/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../../lib/errors.ts";
import { createUntil } from "../../lib/until.ts";
import type { ArtifactBatch, ArtifactWrite } from "../artifacts.ts";
import { type ReadTexts, storedFields, storedReplay, USUAL_FIELDS } from "./artifact-fields.ts";
import type { Connection } from "./connection.ts";
import { Unanswered } from "./faults.ts";
import { artifactId, part } from "./names.ts";
import type { Ask } from "./turns.ts";

/** What artifacts are kept with. */
export interface ArtifactParts {
  readonly connection: Connection;
  readonly ask: Ask;
  /** What all keys begin with. */
  readonly prefix: string;
  /** Decides what has expired. */
  readonly clock: Clock;
}

/** Milliseconds after the deadline for which an answer is still waited for. */
const GRACE = 200;
/** Milliseconds after the deadline for which a written batch is remembered: longer than anybody asks. */
const REMEMBERED = 1000;
/** Milliseconds between an attempt without an answer and the next. */
const AGAIN = 20;

/** What became of a batch: `done`, `late`, or `failed` with the place of the write, from 1, on a line of its own. */
type Outcome = string;

/** The name of a write and what the script takes for it. */
function toValues(write: ArtifactWrite, texts: ReadTexts): string[] {
  if (write.kind === "revoke") return [write.kind, part(write.grantKey)];
  const { model, key } = namesIn(write);
  const id = artifactId(model, key);
  if (write.kind === "consume") return [write.kind, id, String(write.at), ...storedReplay(write)];
  if (write.kind === "remove") return [write.kind, id, write.mustExist ? "1" : ""];
  if (write.kind === "require") return [write.kind, id];
  const fields = storedFields(write.artifact);
  const all = fields.length > USUAL_FIELDS ? "*" : "";
  if (write.kind === "put" || write.merge === undefined) return [write.kind + all, id, ...fields];
  const read = write.read && texts.get(write.read);
  return [`merge${all}`, id, JSON.stringify(write.merge), read ?? "", ...fields];
}

type Named = Exclude<ArtifactWrite, { kind: "revoke" }>;

function namesIn(write: Named): { readonly model: string; readonly key: string } {
  return "artifact" in write ? write.artifact : write;
}

function failedCondition({ writes }: ArtifactBatch, outcome: Outcome): ConditionFailed {
  const place = Number(outcome.slice(outcome.indexOf("\n")));
  const write = writes[place - 1] as Named;
  return new ConditionFailed(`the condition of ${write.kind} ${namesIn(write).model} does not hold`);
}

/**
 * The commit of the store. A command without an answer is asked for again under the same id, on the next connection:
 * the script writes once, and says so as often as it is asked.
 */
export function createCommit({ connection, ask, clock }: Omit<ArtifactParts, "prefix">, texts: ReadTexts) {
  const until = createUntil(() => new StorageUnavailable("Redis did not answer until the deadline"));

  async function attempt(mark: string, values: readonly string[], deadline: number): Promise<Outcome> {
    const redisDeadline = Math.floor(await connection.timeAt(deadline));
    const remembered = Math.ceil(Math.max(0, deadline - performance.now()) + REMEMBERED);
    return ask(["commit", mark, String(redisDeadline), String(remembered), ...values]);
  }

  async function write(batch: ArtifactBatch, values: readonly string[], wait: number): Promise<void> {
    if (!connection.isReady) throw new StorageUnavailable("there is no connection to Redis");
    const mark = part(batch.id);
    const deadline = performance.now() + wait;
    const end = deadline + GRACE;
    for (;;) {
      try {
        const outcome = await until(end, attempt(mark, values, deadline));
        if (outcome === "done") return;
        if (outcome !== "late") throw failedCondition(batch, outcome);
        // With the time of Redis that came with this answer there may be time left.
        if (performance.now() >= deadline)
          throw new StorageUnavailable("Redis came to it after the deadline");
      } catch (error) {
        if (!(error instanceof Unanswered)) throw error;
        await pause(AGAIN);
        if (!(await connection.readyWithin(end - performance.now()))) throw error;
      }
    }
  }

  return function commit(batch: ArtifactBatch): Promise<void> {
    const wait = batch.deadline - clock.now();
    // Made into text now: the caller may change its objects before it is sent.
    const values = batch.writes.flatMap((one) => toValues(one, texts));
    return connection.during(async () => {
      if (wait <= 0) throw new StorageUnavailable("the deadline of this batch has passed");
      if (values.length > 0) await write(batch, values, wait);
    });
  };
}
