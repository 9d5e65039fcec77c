/** Shared rate limits: one document per key, and one round trip for all concurrent requests of a key. */
import { hash } from "node:crypto";
import type { Document } from "mongodb";
import { KeyedBatches } from "../keyed-batches.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused, type Taken } from "../rate-limits.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { POINTS } from "./record-reads.ts";

/** The window of a key. */
interface StoredPoints {
  readonly _id: string;
  /** Points taken. Zero is the same as no window. */
  readonly points: number;
  /** Milliseconds since the epoch, by the clock of the service. */
  readonly ends_at: number;
  /** When the server deletes it: some minutes later, because its clock may differ. */
  readonly forget_at: Date;
  /** For each step of the last round trip: the points after it, or for a refused step, the points that it wanted. */
  readonly answers: readonly number[];
}

/** The points after a step. */
export interface Counted {
  readonly points: number;
  /** Milliseconds until the window ends. */
  readonly left: number;
}

export interface PointsLimit {
  readonly points: number;
  readonly seconds: number;
}

/** The largest batch of steps. */
const BATCH = 100;
/** Milliseconds between the end of a window and its deletion. */
const MARGIN = 300_000;

/** Applies the steps in order. A step that would exceed the limit is answered but not applied. */
function applySteps(steps: readonly number[], limit: number): Document {
  const wanted = { $max: [0, { $add: ["$$value.points", "$$this"] }] };
  return {
    $reduce: {
      input: steps,
      initialValue: { points: "$points", answers: [] },
      in: {
        points: { $cond: [{ $lte: [wanted, limit] }, wanted, "$$value.points"] },
        answers: { $concatArrays: ["$$value.answers", [wanted]] },
      },
    },
  };
}

function update(steps: readonly number[], limit: PointsLimit, now: number): Document[] {
  const end = now + limit.seconds * 1000;
  const isOpen = { $and: [{ $gt: ["$ends_at", now] }, { $gt: ["$points", 0] }] };
  return [
    {
      $set: {
        points: { $cond: [isOpen, "$points", 0] },
        ends_at: { $cond: [isOpen, "$ends_at", end] },
        forget_at: { $cond: [isOpen, "$forget_at", new Date(end + MARGIN)] },
      },
    },
    { $set: { applied: applySteps(steps, limit.points) } },
    { $set: { points: "$applied.points", answers: "$applied.answers" } },
    { $unset: "applied" },
  ];
}

/** The points of one limit. */
export class Points {
  readonly #connection: Connection;
  readonly #limit: PointsLimit;
  readonly #steps = new KeyedBatches<number, Counted>((key, steps) => this.#send(key, steps), BATCH);

  constructor(connection: Connection, limit: PointsLimit) {
    this.#connection = connection;
    this.#limit = limit;
  }

  /** Adds points to a key, or subtracts them, after all earlier requests of the key. */
  add(key: string, step: number): Promise<Counted> {
    return this.#steps.add(key, step);
  }

  /** The points of a key after all earlier requests. */
  async look(key: string): Promise<Counted> {
    // A step of zero waits for the running batch.
    if (this.#steps.isBusy(key)) return this.add(key, 0);
    const stored = this.#connection.db.collection<StoredPoints>(POINTS);
    const found = await this.#connection.run(() => stored.findOne({ _id: key }));
    const left = (found?.ends_at ?? 0) - this.#connection.clock.now();
    return left > 0 ? { points: found?.points ?? 0, left } : { points: 0, left: 0 };
  }

  async #send(key: string, steps: readonly number[]): Promise<Counted[]> {
    const now = this.#connection.clock.now();
    const stored = await this.#connection.run(() => this.#count(key, steps, now));
    const left = (stored?.ends_at ?? now) - now;
    return steps.map((_step, index) => ({ points: stored?.answers[index] ?? 0, left }));
  }

  async #count(key: string, steps: readonly number[], now: number): Promise<StoredPoints | null> {
    const stored = this.#connection.db.collection<StoredPoints>(POINTS);
    const write = () =>
      stored.findOneAndUpdate({ _id: key }, update(steps, this.#limit, now), {
        upsert: true,
        returnDocument: "after",
      });
    try {
      return await write();
    } catch (error) {
      // If two processes insert at the same time, one may get an error; its second attempt finds the document.
      if (!isDuplicate(error)) throw error;
      return write();
    }
  }
}

const decide = ({ points: taken, left }: Counted, limit: number): Taken =>
  taken <= limit ? ALLOWED : refused(left);

/** Limiters shared by all processes with this database. Their windows follow the clock of the service. */
export function mongoRateLimits(connection: Connection): RateLimiterFactory {
  return (name, limit): RateLimiter => {
    const points = new Points(connection, limit);
    // A key of MongoDB is limited in length and can't hold every text.
    const keyOf = (key: string): string => hash("sha256", JSON.stringify([name, key]), "base64url");
    return {
      take: async (key) => decide(await points.add(keyOf(key), 1), limit.points),
      look: async (key) => decide(await points.look(keyOf(key)), limit.points - 1),
      async giveBack(key) {
        await points.add(keyOf(key), -1);
      },
    };
  };
}
