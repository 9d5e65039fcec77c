/** Rate limits that all processes share: one document a key, one round trip for all that asks for it at once. */
import { hash } from "node:crypto";
import type { Document } from "mongodb";
import { Gathering } from "../gathering.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused, type Taken } from "../rate-limits.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { POINTS } from "./record-reads.ts";

/** The window of a key. */
interface StoredPoints {
  readonly _id: string;
  /** Of the window. Zero is as good as none. */
  readonly points: number;
  /** Milliseconds since the epoch, by the storage's clock. */
  readonly ends_at: number;
  /** When the server deletes it: some minutes later, for its clock may differ. */
  readonly forget_at: Date;
  /** For each step of the last round trip the points after it, or how many there would be if it was refused. */
  readonly answers: readonly number[];
}

/** How many points there are after a step, and until when. */
export interface Counted {
  readonly points: number;
  /** Milliseconds until the window ends. */
  readonly left: number;
}

export interface PointsLimit {
  readonly points: number;
  readonly seconds: number;
}

/** At most so many steps in one round trip. */
const LONGEST = 100;
/** Milliseconds. */
const MARGIN = 300_000;

/** Goes through the steps: what would be above the limit is answered and not kept. */
function walk(steps: readonly number[], limit: number): Document {
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
    { $set: { walked: walk(steps, limit.points) } },
    { $set: { points: "$walked.points", answers: "$walked.answers" } },
    { $unset: "walked" },
  ];
}

/** The points of one limit. */
export class Points {
  readonly #connection: Connection;
  readonly #limit: PointsLimit;
  readonly #steps = new Gathering<number, Counted>((key, steps) => this.#send(key, steps), LONGEST);

  constructor(connection: Connection, limit: PointsLimit) {
    this.#connection = connection;
    this.#limit = limit;
  }

  /** Adds points to a key, or takes some away, after all that was asked for before. */
  add(key: string, step: number): Promise<Counted> {
    return this.#steps.ask(key, step);
  }

  /** How many there are, after all that was asked for before. */
  async look(key: string): Promise<Counted> {
    // Behind what is under way, as one more step of it.
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
      // Two that insert at once: one of them may be told so, and finds what is there.
      if (!isDuplicate(error)) throw error;
      return write();
    }
  }
}

const judge = ({ points: taken, left }: Counted, most: number): Taken =>
  taken <= most ? ALLOWED : refused(left);

/** Limiters of all processes that have this database. Their windows follow the clock of the service. */
export function mongoRateLimits(connection: Connection): RateLimiterFactory {
  return (name, limit): RateLimiter => {
    const points = new Points(connection, limit);
    // Keys of MongoDB can't hold every text, and are short.
    const keyOf = (key: string): string => hash("sha256", JSON.stringify([name, key]), "base64url");
    return {
      take: async (key) => judge(await points.add(keyOf(key), 1), limit.points),
      look: async (key) => judge(await points.look(keyOf(key)), limit.points - 1),
      async giveBack(key) {
        await points.add(keyOf(key), -1);
      },
    };
  };
}
